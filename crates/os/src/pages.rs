//! Which pages of a process are its own: anonymous or copied on write (PAGEMAP_SCAN of Linux 6.7;
//! before that, /proc/PID/pagemap).

use crate::expenses::Expense;
use crate::pidfd::PidFd;
use crate::{Error, Result};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

const PAGE: u64 = 4096;
/// `_IOWR('f', 16, struct pm_scan_arg)` (linux/fs.h).
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const MADV_COLLAPSE: i32 = 25;
pub(crate) const PAGE_IS_WPALLOWED: u64 = 1;
pub(crate) const PAGE_IS_WRITTEN: u64 = 1 << 1;
pub(crate) const PAGE_IS_FILE: u64 = 1 << 2;
pub(crate) const PAGE_IS_PRESENT: u64 = 1 << 3;
pub(crate) const PAGE_IS_SWAPPED: u64 = 1 << 4;
pub(crate) const PAGE_IS_PFNZERO: u64 = 1 << 5;
/// Since Linux 6.16; it counts as swapped out as well.
const PAGE_IS_GUARD: u64 = 1 << 8;
/// Since Linux 6.13 (madvise(2)).
pub const MADV_GUARD_INSTALL: i32 = 102;

#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// The own pages of a process, range by range.
pub struct Own {
    pagemap: File,
    pid: i32,
}

impl Own {
    /// Of process `pid`.
    pub fn of(pid: i32) -> Result<Own> {
        let path = format!("/proc/{pid}/pagemap");
        Ok(Own { pagemap: File::open(&path).map_err(|e| Error::new(format!("opening {path}"), e))?, pid })
    }

    /// Ranges of own pages in these areas (start, end; ascending), in one walk where the kernel
    /// can: page tables that are not there cost nothing.
    pub fn within(&self, areas: &[(u64, u64)]) -> Result<Vec<(u64, u64)>> {
        let (Some(first), Some(last)) = (areas.first(), areas.last()) else { return Ok(Vec::new()) };
        match self.scan(first.0, last.1) {
            Err(e) if matches!(e.errno(), libc::ENOTTY | libc::EINVAL) => {
                let mut found = Vec::new();
                for (start, end) in areas {
                    found.extend(self.entries(*start, *end)?);
                }
                Ok(found)
            }
            all => Ok(intersect(&all?, areas)),
        }
    }

    /// Ranges of own pages between `start` and `end`, ascending. Where the kernel cannot list them
    /// (before Linux 6.7) all that lies between is read, page by page: the holes between areas are
    /// for [`Own::within`].
    pub fn between(&self, start: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        match self.scan(start, end) {
            Err(e) if matches!(e.errno(), libc::ENOTTY | libc::EINVAL) => self.entries(start, end),
            other => other,
        }
    }

    fn scan(&self, start: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        let mut found = Vec::new();
        let asked = (0, PAGE_IS_PRESENT | PAGE_IS_SWAPPED, 0, TOLD);
        scan(&self.pagemap, self.pid, (start, end), asked, |range, categories| {
            if categories & (PAGE_IS_FILE | PAGE_IS_PFNZERO) == 0 {
                append(&mut found, range.0, range.1);
            }
        })?;
        Ok(found)
    }

    fn entries(&self, start: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        const FILE_OR_SHARED: u64 = 1 << 61;
        const SWAPPED: u64 = 1 << 62;
        const PRESENT: u64 = 1 << 63;
        let mut found = Vec::new();
        let mut buffer = [0u8; 4096];
        let mut page = start / PAGE;
        while page < end / PAGE {
            let n = ((end / PAGE - page) * 8).min(buffer.len() as u64) as usize;
            let failed = |e| Error::new(format!("reading the page map of {}", self.pid), e);
            self.pagemap.read_exact_at(&mut buffer[..n], page * 8).map_err(failed)?;
            for entry in buffer[..n].chunks_exact(8) {
                let bits = entry.iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b));
                if bits & (PRESENT | SWAPPED) != 0 && bits & FILE_OR_SHARED == 0 {
                    append(&mut found, page * PAGE, (page + 1) * PAGE);
                }
                page += 1;
            }
        }
        Ok(found)
    }
}

/// Whether this machine gives huge pages on request alone (the default of most), and its owner lets
/// tern ask for them.
pub fn huge_on_request() -> bool {
    static SAID: OnceLock<bool> = OnceLock::new();
    let on_request = || {
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .is_ok_and(|said| said.contains("[madvise]"))
    };
    *SAID.get_or_init(|| Expense::HugePages.is_allowed() && on_request())
}

/// What became of pages that were to be huge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collapsed {
    /// All pages are there.
    All,
    /// Some are not: the memory changes meanwhile, or there is no huge page.
    Some,
}

/// Makes huge pages of the small ones of a process there (MADV_COLLAPSE, since 6.1).
pub fn collapse(process: &PidFd, at: u64, bytes: u64) -> Result<Collapsed> {
    let range = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: bytes as usize };
    let fd = process.as_fd().as_raw_fd();
    // SAFETY: one live iovec; the other process' memory keeps what it holds.
    let done = unsafe { libc::syscall(libc::SYS_process_madvise, fd, &raw const range, 1usize, MADV_COLLAPSE, 0usize) };
    let e = std::io::Error::last_os_error();
    match e.raw_os_error() {
        _ if done >= 0 => Ok(Collapsed::All),
        Some(libc::EAGAIN | libc::EBUSY | libc::EINVAL | libc::ENOMEM | libc::EFAULT) => Ok(Collapsed::Some),
        _ => Err(Error::new("making huge pages (process_madvise)", e)),
    }
}

/// What is told of a page.
pub(crate) const TOLD: u64 =
    PAGE_IS_WPALLOWED | PAGE_IS_WRITTEN | PAGE_IS_FILE | PAGE_IS_PRESENT | PAGE_IS_SWAPPED | PAGE_IS_PFNZERO;

/// From this size on it pays to walk an area by itself.
const LARGE_BYTES: u64 = 4 << 20;

/// All that lies between `start` and `end`, in pieces, with what is to be told of their pages. In
/// private anonymous areas (ascending) there are no file's, and whether a page is one is what takes
/// the kernel longest to tell: only for that it looks at the page itself (pagemap_page_category in
/// fs/proc/task_mmu.c).
pub(crate) fn pieces((start, end): (u64, u64), anonymous: &[(u64, u64)]) -> Vec<((u64, u64), u64)> {
    let mut pieces = Vec::new();
    let mut from = start;
    for (at, to) in anonymous.iter().map(|(at, to)| (*at.max(&start), *to.min(&end))) {
        if at >= from && to.saturating_sub(at) >= LARGE_BYTES {
            pieces.extend((from < at).then_some(((from, at), TOLD)));
            pieces.push(((at, to), TOLD & !PAGE_IS_FILE));
            from = to;
        }
    }
    pieces.extend((from < end).then_some(((from, end), TOLD)));
    pieces
}

/// Whether this kernel has guard regions (MADV_GUARD_INSTALL of madvise(2)).
pub fn can_guard() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    let can = || {
        let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a page of its own, which nobody else uses.
        unsafe {
            let page = libc::mmap(std::ptr::null_mut(), PAGE as usize, protection, kind, -1, 0);
            let can = page != libc::MAP_FAILED && libc::madvise(page, PAGE as usize, MADV_GUARD_INSTALL) == 0;
            libc::munmap(page, PAGE as usize);
            can
        }
    };
    *CAN.get_or_init(can)
}

/// Whether the kernel tells which pages are guards.
fn tells_guards(pagemap: &File, pid: i32) -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    let asked = (PAGE_IS_GUARD, 0, 0, PAGE_IS_GUARD);
    *TELLS.get_or_init(|| walk(pagemap, pid, (PAGE, 2 * PAGE), (0, asked), |_, _| {}).is_ok())
}

/// Guard regions of process `pid` in these areas (start, end; ascending): nothing where the kernel
/// does not tell.
pub fn guards(pid: i32, areas: &[(u64, u64)]) -> Result<Vec<(u64, u64)>> {
    let (Some(first), Some(last)) = (areas.first(), areas.last()) else { return Ok(Vec::new()) };
    let pagemap = Own::of(pid)?.pagemap;
    let mut found = Vec::new();
    if tells_guards(&pagemap, pid) {
        let asked = (PAGE_IS_GUARD, 0, 0, PAGE_IS_GUARD);
        walk(&pagemap, pid, (first.0, last.1), (0, asked), |range, _| append(&mut found, range.0, range.1))?;
    }
    Ok(intersect(&found, areas))
}

/// Walks the pages of a process that are no guards and are in all categories of `asked.0` and in
/// one of `asked.1`, with flags `asked.2`; gives each range its categories, as far as they are
/// among `asked.3`.
pub(crate) fn scan(
    pagemap: &File,
    pid: i32,
    (start, end): (u64, u64),
    asked: (u64, u64, u64, u64),
    each: impl FnMut((u64, u64), u64),
) -> Result<()> {
    let not = if tells_guards(pagemap, pid) { PAGE_IS_GUARD } else { 0 };
    walk(pagemap, pid, (start, end), (not, (asked.0 | not, asked.1, asked.2, asked.3)), each)
}

/// The same, also of guards; `not`: categories that are asked for by their absence.
fn walk(
    pagemap: &File,
    pid: i32,
    (start, end): (u64, u64),
    (not, asked): (u64, (u64, u64, u64, u64)),
    mut each: impl FnMut((u64, u64), u64),
) -> Result<()> {
    let mut from = start;
    let mut regions = [[0u64; 3]; 512];
    while from < end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: asked.2,
            start: from,
            end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_inverted: not,
            category_mask: asked.0,
            category_anyof_mask: asked.1,
            return_mask: asked.3,
            ..Scan::default()
        };
        // SAFETY: the kernel reads and writes one pm_scan_arg, and at most `vec_len` regions of
        // three words.
        let n = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let n = crate::error::check(n, || format!("scanning pages of {pid}"))?;
        regions.iter().take(n as usize).for_each(|[start, end, categories]| each((*start, *end), *categories));
        if scan.walk_end <= from {
            break;
        }
        from = scan.walk_end;
    }
    Ok(())
}

/// What of the ranges lies in the areas; both ascending.
pub fn intersect(ranges: &[(u64, u64)], areas: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut found, mut areas) = (Vec::new(), areas.iter().peekable());
    for (start, end) in ranges {
        while areas.next_if(|area| area.1 <= *start).is_some() {}
        let mut here = areas.clone();
        while let Some(area) = here.next_if(|area| area.0 < *end) {
            found.push((area.0.max(*start), area.1.min(*end)));
        }
    }
    found
}

/// What of the ranges does not lie in others; both ascending.
pub fn subtract(ranges: &[(u64, u64)], others: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut left, mut others) = (Vec::new(), others.iter().peekable());
    for (start, end) in ranges {
        let mut from = *start;
        while others.next_if(|other| other.1 <= from).is_some() {}
        let mut here = others.clone();
        while let Some(other) = here.next_if(|other| other.0 < *end) {
            if from < other.0 {
                left.push((from, other.0));
            }
            from = from.max(other.1);
        }
        if from < *end {
            left.push((from, *end));
        }
    }
    left
}

/// Adds a range behind all others, which it may continue.
pub fn append(ranges: &mut Vec<(u64, u64)>, start: u64, end: u64) {
    match ranges.last_mut() {
        Some(last) if last.1 == start => last.1 = end,
        _ => ranges.push((start, end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_areas() {
        let ranges = [(0, 4), (6, 20), (30, 31)];
        assert_eq!(intersect(&ranges, &[(2, 8), (9, 10), (15, 40)]), [(2, 4), (6, 8), (9, 10), (15, 20), (30, 31)]);
        assert_eq!(intersect(&ranges, &[]), []);
        assert_eq!(subtract(&ranges, &[(2, 8), (9, 10), (15, 40)]), [(0, 2), (8, 9), (10, 15)]);
        assert_eq!(subtract(&ranges, &[]), ranges);
        assert_eq!(subtract(&[(5, 9)], &[(0, 6), (6, 7), (8, 20)]), [(7, 8)]);
    }

    /// Large anonymous areas are walked by themselves, and nothing is left out or walked twice.
    #[test]
    fn files_are_looked_for_where_they_may_be() {
        let (large, rest) = (LARGE_BYTES, TOLD & !PAGE_IS_FILE);
        let all = (4096, 4096 + 4 * large);
        assert_eq!(pieces(all, &[]), [(all, TOLD)]);
        assert_eq!(pieces(all, &[all]), [(all, rest)]);
        assert_eq!(pieces(all, &[(0, large), (8192, 12288)]), [(all, TOLD)]);
        let (start, end) = (4096 + large, 4096 + 2 * large);
        let middle = [((4096, start), TOLD), ((start, end), rest), ((end, all.1), TOLD)];
        assert_eq!(pieces(all, &[(8192, 12288), (start, end), (all.1, all.1 + large)]), middle);
        assert_eq!(pieces(all, &[(0, 8 * large)]), [(all, rest)]);
        assert_eq!(pieces((0, 0), &[(0, large)]), []);
    }

    /// Both ways of asking find exactly the pages that were written.
    #[test]
    fn written_pages_are_found() {
        let bytes = 64 * PAGE as usize;
        let (rw, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping, written inside its bounds.
        let at = unsafe {
            let at = libc::mmap(std::ptr::null_mut(), bytes, rw, flags, -1, 0);
            libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE);
            for page in [3, 4, 9] {
                *at.cast::<u8>().add(page * PAGE as usize) = 1;
            }
            at as u64
        };
        let own = Own::of(std::process::id() as i32).unwrap();
        let wanted = vec![(at + 3 * PAGE, at + 5 * PAGE), (at + 9 * PAGE, at + 10 * PAGE)];
        assert_eq!(own.between(at, at + bytes as u64).unwrap(), wanted);
        assert_eq!(own.entries(at, at + bytes as u64).unwrap(), wanted);
    }
}
