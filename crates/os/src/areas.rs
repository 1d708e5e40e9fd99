//! The memory areas of a process (proc_pid_maps(5), proc_pid_smaps(5)).

use crate::{Error, Result};
use std::sync::OnceLock;

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// The first address of the area.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Whether its pages may be read.
    pub readable: bool,
    /// Whether its pages may be written.
    pub writable: bool,
    /// Whether its pages may be executed.
    pub executable: bool,
    /// Stores are seen by whoever maps the same.
    pub shared: bool,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Device of the file: major, minor; zero if there is none.
    pub device: (u32, u32),
    /// Inode number of the file, or zero.
    pub inode: u64,
    /// Path, or what the kernel calls it (`[stack]`); with ` (deleted)` behind it if the file has
    /// no name any more.
    pub name: Vec<u8>,
    /// The two-letter words of `VmFlags`; empty if they were not asked for.
    pub flags: Vec<[u8; 2]>,
    /// Protection key (pkeys(7)); 0, everybody's, if flags were not asked for.
    pub key: u8,
}

/// Device and inode number of what areas show.
pub type Shown = ((u32, u32), u64);

impl Area {
    /// Tells what the area shows.
    pub fn shown(&self) -> Shown {
        (self.device, self.inode)
    }

    /// Tells whether `VmFlags` has this word.
    pub fn has(&self, flag: &[u8; 2]) -> bool {
        self.flags.contains(flag)
    }
}

/// So often a list is read again in which areas overlap. The kernel gives it in pieces of a page,
/// and where two become one between two of them it gives that behind the first.
const AGAIN_MAX: usize = 20;

/// Gives the areas in the order of their addresses, without flags.
pub fn read(pid: i32) -> Result<Vec<Area>> {
    in_order(|| parse(pid, "maps"))
}

/// Gives the areas with their flags: the kernel walks all pages for it.
pub fn read_with_flags(pid: i32) -> Result<Vec<Area>> {
    in_order(|| parse(pid, "smaps"))
}

/// Of a process that changes them all the time the last list may still be out of order.
fn in_order(mut list: impl FnMut() -> Result<Vec<Area>>) -> Result<Vec<Area>> {
    let mut areas = list()?;
    for _ in 0..AGAIN_MAX {
        if areas.windows(2).all(|two| two[0].end <= two[1].start) {
            break;
        }
        areas = list()?;
    }
    Ok(areas)
}

/// These as [`read`] lists them.
pub fn without_flags(areas: &[Area]) -> Vec<Area> {
    areas.iter().map(|area| Area { flags: Vec::new(), key: 0, ..area.clone() }).collect()
}

fn parse(pid: i32, file: &str) -> Result<Vec<Area>> {
    let text = crate::process::slurp(pid, file)?;
    let mut areas: Vec<Area> = Vec::new();
    for line in text.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        if let Some(flags) = line.strip_prefix(b"VmFlags:") {
            let words = flags.split(|b| *b == b' ').filter_map(|w| w.try_into().ok());
            areas.last_mut().into_iter().for_each(|a| a.flags = words.clone().collect());
            areas.last_mut().into_iter().for_each(name_lock_on_fault);
        } else if let Some(key) = line.strip_prefix(b"ProtectionKey:") {
            let key = std::str::from_utf8(key).ok().and_then(|key| key.trim().parse().ok());
            areas.last_mut().into_iter().for_each(|a| a.key = key.unwrap_or(u8::MAX));
        } else if line[0].is_ascii_hexdigit() && !line[0].is_ascii_uppercase() {
            let odd = || {
                let doing = format!("understanding /proc/{pid}/{file}");
                Error::new(doing, std::io::Error::from(std::io::ErrorKind::InvalidData))
            };
            areas.push(header(line).ok_or_else(odd)?);
        }
    }
    Ok(areas)
}

/// What the kernel says of a flag for which it has no word.
const WITHOUT_WORD: [u8; 2] = *b"??";

/// Memory that is locked when it is touched (mlock2(2)) has a flag for which older kernels, as 6.1,
/// have no word. It is always locked, too.
fn name_lock_on_fault(area: &mut Area) {
    static HAS_NO_WORD: OnceLock<bool> = OnceLock::new();
    if area.has(b"lo") && area.has(&WITHOUT_WORD) && *HAS_NO_WORD.get_or_init(|| !lock_on_fault_has_word()) {
        area.flags.iter_mut().filter(|flag| **flag == WITHOUT_WORD).for_each(|flag| *flag = *b"lf");
    }
}

/// Tried with a page of our own; if it cannot be, nothing is known.
fn lock_on_fault_has_word() -> bool {
    const BYTES: usize = 4096;
    let (rights, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping, which nothing uses.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, rights, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return true;
    }
    // SAFETY: as above.
    let locked = unsafe { libc::syscall(libc::SYS_mlock2, page, BYTES, libc::MLOCK_ONFAULT) == 0 };
    let text = crate::process::slurp(std::process::id() as i32, "smaps").unwrap_or_default();
    // SAFETY: as above.
    unsafe { libc::munmap(page, BYTES) };
    let start = format!("{:x}-", page as u64).into_bytes();
    let lines = text.split(|b| *b == b'\n').skip_while(|line| !line.starts_with(&start));
    let flags = lines.skip(1).find_map(|line| line.strip_prefix(b"VmFlags:"));
    !locked || flags.is_none_or(|flags| !flags.windows(2).any(|word| word == WITHOUT_WORD))
}

/// `start-end rwxp offset major:minor inode   name`
fn header(line: &[u8]) -> Option<Area> {
    let mut fields = line.splitn(6, |b| *b == b' ');
    let mut text = || std::str::from_utf8(fields.next()?).ok();
    let hex = |s: &str| u64::from_str_radix(s, 16).ok();
    let (start, end) = text()?.split_once('-')?;
    let rights = text()?.as_bytes();
    let offset = text()?;
    let (major, minor) = text()?.split_once(':')?;
    let inode = text()?;
    let name = fields.next().unwrap_or_default();
    let padding = name.iter().take_while(|b| **b == b' ').count();
    Some(Area {
        start: hex(start)?,
        end: hex(end)?,
        readable: rights.first() == Some(&b'r'),
        writable: rights.get(1) == Some(&b'w'),
        executable: rights.get(2) == Some(&b'x'),
        shared: rights.get(3) == Some(&b's'),
        offset: hex(offset)?,
        device: (hex(major)? as u32, hex(minor)? as u32),
        inode: inode.parse().ok()?,
        name: unescape(&name[padding..]),
        flags: Vec::new(),
        key: 0,
    })
}

/// Decodes a path, in which a newline is written as `\012`.
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, tail)) = rest.split_first() {
        match rest.strip_prefix(b"\\012") {
            Some(tail) => {
                out.push(b'\n');
                rest = tail;
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_itself() {
        let me = std::process::id() as i32;
        let areas = read_with_flags(me).unwrap();
        assert!(areas.iter().any(|a| a.name == b"[stack]" && a.has(b"gd")));
        assert!(areas.iter().any(|a| a.name.starts_with(b"/") && a.executable && a.inode != 0));
        assert!(areas.windows(2).all(|w| w[0].end <= w[1].start));
    }

    #[test]
    fn areas_that_become_one_meanwhile_are_listed_once() {
        const PAGE: usize = 4096;
        const PAGES: usize = 128;
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (rw, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping, that nobody else knows.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGES * PAGE, rw, flags, -1, 0) } as usize;
        let protect = |page: usize, protection| {
            // SAFETY: changes a page of that mapping, which nobody touches.
            unsafe { libc::mprotect((at + page * PAGE) as *mut libc::c_void, PAGE, protection) };
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    (1..PAGES).step_by(2).for_each(|page| protect(page, libc::PROT_READ));
                    (1..PAGES).step_by(2).for_each(|page| protect(page, rw));
                }
            });
            let me = std::process::id() as i32;
            let in_order = |areas: &[Area]| areas.windows(2).all(|w| w[0].end <= w[1].start);
            let lists = (0..200).map(|n| if n % 2 == 0 { read(me) } else { read_with_flags(me) });
            let odd = lists.filter(|list| !in_order(list.as_ref().unwrap())).count();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(odd, 0);
        });
        // SAFETY: the same mapping; nobody uses it any more.
        unsafe { libc::munmap(at as *mut libc::c_void, PAGES * PAGE) };
    }

    #[test]
    fn odd_names() {
        let area = header(b"1000-2000 rw-s 00003000 08:01 77                         /a b\\012c").unwrap();
        assert_eq!((area.start, area.end, area.offset, area.device, area.inode), (0x1000, 0x2000, 0x3000, (8, 1), 77));
        assert_eq!(area.name, b"/a b\nc");
        assert!(area.shared && area.writable && !area.executable);
        assert_eq!(header(b"zz"), None);
    }
}
