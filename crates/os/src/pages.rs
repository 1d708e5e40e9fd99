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

    /// Lists the ranges of own pages between `start` and `end`, ascending. Before Linux 6.7 the
    /// kernel cannot list them, and the whole range is read, page by page; [`Own::within`] leaves
    /// out the holes between areas.
    pub fn between(&self, start: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        match self.scan(start, end) {
            Err(e) if matches!(e.errno(), libc::ENOTTY | libc::EINVAL) => self.entries(start, end),
            other => other,
        }
    }

    fn scan(&self, start: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        let mut found = Vec::new();
        let query = Query { any_of: PAGE_IS_PRESENT | PAGE_IS_SWAPPED, report: TOLD, ..Query::of(start, end) };
        scan(&self.pagemap, self.pid, query, |range, categories| {
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

/// Tells whether this machine gives huge pages on request only (the default of most), and its owner
/// allows tern to request them.
pub fn huge_on_request() -> bool {
    static SAID: OnceLock<bool> = OnceLock::new();
    let on_request = || {
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .is_ok_and(|said| said.contains("[madvise]"))
    };
    *SAID.get_or_init(|| Expense::HugePages.is_allowed() && on_request())
}

/// The result of making huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collapsed {
    /// All pages are huge.
    All,
    /// Some are not: the memory changed meanwhile, or there was no free huge page.
    Some,
}

/// Makes huge pages of the small ones of a process in this range (MADV_COLLAPSE, since 6.1).
pub fn collapse(process: &PidFd, at: u64, bytes: u64) -> Result<Collapsed> {
    let range = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: bytes as usize };
    let fd = process.as_fd().as_raw_fd();
    // SAFETY: one live iovec; the content of the other process' memory does not change.
    let done = unsafe { libc::syscall(libc::SYS_process_madvise, fd, &raw const range, 1usize, MADV_COLLAPSE, 0usize) };
    let e = std::io::Error::last_os_error();
    match e.raw_os_error() {
        _ if done >= 0 => Ok(Collapsed::All),
        Some(libc::EAGAIN | libc::EBUSY | libc::EINVAL | libc::ENOMEM | libc::EFAULT) => Ok(Collapsed::Some),
        _ => Err(Error::new("making huge pages (process_madvise)", e)),
    }
}

/// The categories that are reported of a page.
pub(crate) const TOLD: u64 =
    PAGE_IS_WPALLOWED | PAGE_IS_WRITTEN | PAGE_IS_FILE | PAGE_IS_PRESENT | PAGE_IS_SWAPPED | PAGE_IS_PFNZERO;

/// Anonymous areas of at least this size are walked by themselves.
const LARGE_BYTES: u64 = 4 << 20;

/// A range of addresses, and the categories of its pages that the kernel is to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) report: u64,
}

/// Splits the range from `start` to `end` into pieces with the categories to report. Private
/// anonymous areas (ascending) have no pages of files, so that category is left out there: it alone
/// makes the kernel look at the page itself (pagemap_page_category in fs/proc/task_mmu.c), and
/// takes longest.
pub(crate) fn pieces(start: u64, end: u64, anonymous: &[(u64, u64)]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let whole = |start, end| Piece { start, end, report: TOLD };
    let mut from = start;
    for (at, to) in anonymous.iter().map(|(at, to)| (*at.max(&start), *to.min(&end))) {
        if at >= from && to.saturating_sub(at) >= LARGE_BYTES {
            pieces.extend((from < at).then(|| whole(from, at)));
            pieces.push(Piece { start: at, end: to, report: TOLD & !PAGE_IS_FILE });
            from = to;
        }
    }
    pieces.extend((from < end).then(|| whole(from, end)));
    pieces
}

/// Tells whether this kernel has guard regions (MADV_GUARD_INSTALL of madvise(2)).
pub fn can_guard() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    let can = || {
        let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new page, which nothing else uses.
        unsafe {
            let page = libc::mmap(std::ptr::null_mut(), PAGE as usize, protection, kind, -1, 0);
            let can = page != libc::MAP_FAILED && libc::madvise(page, PAGE as usize, MADV_GUARD_INSTALL) == 0;
            libc::munmap(page, PAGE as usize);
            can
        }
    };
    *CAN.get_or_init(can)
}

/// Tells whether the kernel reports which pages are guards.
fn tells_guards(pagemap: &File, pid: i32) -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| walk(pagemap, pid, Query::guards(PAGE, 2 * PAGE), |_, _| {}).is_ok())
}

/// Lists the guard regions of process `pid` in these areas (start, end; ascending); none where the
/// kernel does not report them.
pub fn guards(pid: i32, areas: &[(u64, u64)]) -> Result<Vec<(u64, u64)>> {
    let (Some(first), Some(last)) = (areas.first(), areas.last()) else { return Ok(Vec::new()) };
    let pagemap = Own::of(pid)?.pagemap;
    let mut found = Vec::new();
    if tells_guards(&pagemap, pid) {
        walk(&pagemap, pid, Query::guards(first.0, last.1), |range, _| append(&mut found, range.0, range.1))?;
    }
    Ok(intersect(&found, areas))
}

/// A question to PAGEMAP_SCAN: the pages of a range that are in certain categories.
#[derive(Clone, Copy, Default)]
pub(crate) struct Query {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Categories that a page must have.
    pub(crate) all_of: u64,
    /// Of these categories a page must have at least one.
    pub(crate) any_of: u64,
    /// Categories that a page must not have; [`scan`] sets them.
    pub(crate) none_of: u64,
    /// Flags of the call (PM_SCAN_).
    pub(crate) flags: u64,
    /// Categories that are reported of the pages.
    pub(crate) report: u64,
}

impl Query {
    /// Asks for all pages of a range, with no category reported.
    pub(crate) fn of(start: u64, end: u64) -> Query {
        Query { start, end, ..Query::default() }
    }

    /// Asks for the guards of a range.
    fn guards(start: u64, end: u64) -> Query {
        Query { all_of: PAGE_IS_GUARD, report: PAGE_IS_GUARD, ..Query::of(start, end) }
    }
}

/// Gives each range of pages that the query finds, except for guards, with its categories.
pub(crate) fn scan(pagemap: &File, pid: i32, query: Query, each: impl FnMut((u64, u64), u64)) -> Result<()> {
    let none_of = if tells_guards(pagemap, pid) { PAGE_IS_GUARD } else { 0 };
    walk(pagemap, pid, Query { none_of, ..query }, each)
}

/// Gives each range of pages that the query finds, guards included, with its categories.
fn walk(pagemap: &File, pid: i32, query: Query, mut each: impl FnMut((u64, u64), u64)) -> Result<()> {
    let mut from = query.start;
    let mut regions = [[0u64; 3]; 512];
    while from < query.end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: query.flags,
            start: from,
            end: query.end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            // A category is required to be absent by inverting and requiring it.
            category_inverted: query.none_of,
            category_mask: query.all_of | query.none_of,
            category_anyof_mask: query.any_of,
            return_mask: query.report,
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

/// Gives the parts of the ranges that lie in the areas; both ascending.
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

/// Gives the parts of the ranges that lie in none of the others; both ascending.
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

/// Adds a range behind all others; joins it with the last one if they touch.
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
        let piece = |(start, end), report| Piece { start, end, report };
        let pieces = |range: (u64, u64), anonymous: &[(u64, u64)]| pieces(range.0, range.1, anonymous);
        assert_eq!(pieces(all, &[]), [piece(all, TOLD)]);
        assert_eq!(pieces(all, &[all]), [piece(all, rest)]);
        assert_eq!(pieces(all, &[(0, large), (8192, 12288)]), [piece(all, TOLD)]);
        let (start, end) = (4096 + large, 4096 + 2 * large);
        let middle = [piece((4096, start), TOLD), piece((start, end), rest), piece((end, all.1), TOLD)];
        assert_eq!(pieces(all, &[(8192, 12288), (start, end), (all.1, all.1 + large)]), middle);
        assert_eq!(pieces(all, &[(0, 8 * large)]), [piece(all, rest)]);
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
