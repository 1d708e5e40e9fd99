//! Shared memory that no file at home holds, which areas or a descriptor show: its kind, its
//! content, and its creation at the destination. The caller knows whether another process has the
//! memory, too.
//!
//! The pages of a memory travel like other pages, under addresses that no process has
//! ([`address`]).

use crate::error::{BodyError, stays};
use crate::pages::{Run, without_zeros_if};
use crate::rebuild::{Given, free_place_for};
use crate::rings;
use image::{Area, Content, Image, Memory, Object, Opened};
use os::areas::Shown;
use os::inject::{self, Batch, Inside};
use os::pidfd::PidFd;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const PAGE: u64 = 4096;
/// The suffix that the kernel adds to the name of a removed file,
const REMOVED: &[u8] = b" (deleted)";
/// and the prefix of a memfd's name, which may be this long (memfd_create(2)).
const MEMFD: &[u8] = b"/memfd:";
const NAME_MAX: usize = 249;
/// The first address beyond those of any process.
pub(crate) const OUTSIDE: u64 = 1 << 63;
/// Address bits of each memory (`image` checks the size).
const EACH_SHIFT: u32 = 46;

/// Gives the kind of the memory that the kernel names so; `None` for other names.
pub fn kind(name: &[u8]) -> Option<image::MemoryKind> {
    let name = name.strip_suffix(REMOVED)?;
    match name.strip_prefix(MEMFD) {
        Some(called) => Some(image::MemoryKind::File { name: called.to_vec(), mode: 0, seals: 0 }),
        None if name == b"/dev/zero" => Some(image::MemoryKind::Anonymous),
        None => None,
    }
}

/// Tells whether an area shows a removed file that may count as such a memory, if no other process
/// has it open (which the caller knows).
pub fn removed_file(pid: i32, area: &os::areas::Area) -> bool {
    let metadata = || fs::metadata(format!("/proc/{pid}/map_files/{:x}-{:x}", area.start, area.end));
    let stores = area.shared && (area.writable || area.has(b"mw"));
    stores
        && kind(&area.name).is_none()
        && area.name.starts_with(b"/")
        && area.name.ends_with(REMOVED)
        && metadata().is_ok_and(|m| m.is_file() && m.nlink() == 0)
}

/// Tells whether a descriptor of the process is open on a removed file in memory (tmpfs). The
/// caller knows whether other processes have it open.
pub fn is_removed_memory(pid: i32, fd: i32, name: &Path) -> bool {
    let name = name.as_os_str().as_bytes();
    if !name.starts_with(b"/") || !name.ends_with(REMOVED) || kind(name).is_some() {
        return false;
    }
    let path = format!("/proc/{pid}/fd/{fd}");
    fs::metadata(&path).is_ok_and(|m| m.is_file() && m.nlink() == 0) && os::objects::lies_in_memory(&path)
}

/// Gives the kind of a [`removed_file`]. Of a long name only the end is kept.
pub fn kind_of_removed(name: &[u8]) -> image::MemoryKind {
    let name = name.strip_suffix(REMOVED).unwrap_or(name);
    let name = name[name.len().saturating_sub(NAME_MAX)..].to_vec();
    image::MemoryKind::File { name, mode: 0, seals: 0 }
}

/// Identifies the file to which this link of /proc/PID leads.
pub fn shown(pid: i32, link: &str) -> Result<Shown, BodyError> {
    let path = format!("/proc/{pid}/{link}");
    let metadata = fs::metadata(&path).map_err(|e| os::Error::new(format!("looking at {path}"), e))?;
    Ok(((libc::major(metadata.dev()), libc::minor(metadata.dev())), metadata.ino()))
}

/// Describes the memory to which this link of /proc/PID leads.
pub fn describe(pid: i32, link: &str, kind: image::MemoryKind) -> Result<Memory, BodyError> {
    let file = open(pid, link)?;
    let failed = |e| os::Error::new(format!("looking at /proc/{pid}/{link}"), e);
    let metadata = file.metadata().map_err(failed)?;
    let kind = match kind {
        image::MemoryKind::Anonymous => image::MemoryKind::Anonymous,
        image::MemoryKind::File { name, .. } => {
            // Only memfds have seals.
            let is_memory = os::process::link(pid, link)?.as_os_str().as_bytes().starts_with(MEMFD);
            let seals = if is_memory { os::objects::seals(&file)? } else { 0 };
            image::MemoryKind::File { name, mode: metadata.mode() & 0o7777, seals }
        }
    };
    Ok(Memory { kind, bytes: metadata.size() })
}

fn open(pid: i32, link: &str) -> Result<File, BodyError> {
    let path = format!("/proc/{pid}/{link}");
    // A memfd that is sealed against writes opens for reading, too.
    File::open(&path).map_err(|e| os::Error::new(format!("opening {path}"), e).into())
}

/// Finds a link of /proc/PID that leads to the memory: of an area or of a descriptor.
fn link(image: &Image, memory: u32) -> Option<String> {
    let shows = |a: &&Area| matches!(a.content, Content::Memory { memory: m, .. } if m == memory);
    let area = image.areas.iter().find(shows).map(|a| format!("map_files/{:x}-{:x}", a.start, a.end));
    let is_open = |d: &&image::Descriptor| match d.opened {
        Opened::Made(place) => image.objects.made.get(place as usize).is_some_and(|m| of(&m.object) == Some(memory)),
        _ => false,
    };
    area.or_else(|| image.descriptors.iter().find(is_open).map(|d| format!("fd/{}", d.fd)))
}

fn of(object: &Object) -> Option<u32> {
    match object {
        Object::Memory { memory, .. } => Some(*memory),
        _ => None,
    }
}

fn address(memory: usize, offset: u64) -> u64 {
    OUTSIDE | (memory as u64) << EACH_SHIFT | offset
}

/// Gives the content of all memories of the frozen process `pid` to `each`, at most 512 KiB at once
/// and without zeros: the place and the bytes. Memories in `elsewhere` travel with another process.
pub fn each_content(
    pid: i32,
    image: &Image,
    elsewhere: &[bool],
    batch_bytes: impl Fn() -> u64,
    mut each: impl FnMut(&[Run], &[u8]) -> Result<(), BodyError>,
) -> Result<(), BodyError> {
    for (n, memory) in image.objects.memories.iter().enumerate() {
        let Some(link) = link(image, n as u32).filter(|_| elsewhere.get(n) != Some(&true)) else { continue };
        let file = open(pid, &link)?;
        let failed = |e| BodyError::from(os::Error::new(format!("reading /proc/{pid}/{link}"), e));
        let mut at = 0;
        while let Some((start, end)) = os::objects::next_data(&file, at).map_err(failed)? {
            at = end.min(start + batch_bytes().max(PAGE));
            let bytes = (at.min(memory.bytes).saturating_sub(start)).next_multiple_of(PAGE) as usize;
            let mut buffer = vec![0; bytes];
            read_to_end(&file, start, &mut buffer).map_err(failed)?;
            let (runs, bytes) = without_zeros_if(&[(address(n, start), bytes as u64)], |_| true, &mut buffer);
            if bytes > 0 {
                each(&runs, &buffer[..bytes])?;
            }
        }
    }
    Ok(())
}

fn read_to_end(file: &File, from: u64, into: &mut [u8]) -> std::io::Result<()> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], from + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(())
}

/// The place of a memory in the process that is being restored, while the content arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First address; 0 if the memory is empty.
    start: u64,
    bytes: u64,
    /// The descriptor of the memory, if one is needed.
    fd: i32,
    /// Whether the descriptor is closed at the end.
    closes: bool,
    /// Whether another process has the memory already, with its content.
    given: bool,
}

impl Window {
    /// Makes the window of memory that is mapped here and is no file.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn of_memory(start: u64, bytes: u64) -> Window {
        Window { start, bytes, fd: -1, closes: false, given: false }
    }

    /// Gives the memory's own descriptor.
    pub fn own_fd(&self) -> Option<i32> {
        self.closes.then_some(self.fd)
    }

    /// Opens the memory of the stopped process `pid`, so that another process can map it, too.
    pub fn file(&self, pid: i32) -> Result<Option<OwnedFd>, BodyError> {
        if self.given {
            return Ok(None);
        }
        if self.fd >= 0 {
            return Ok(Some(PidFd::open(pid)?.get_fd(self.fd)?));
        }
        let path = format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.start + self.bytes);
        let opened = File::options().read(true).write(true).open(&path);
        opened.map(|file| Some(file.into())).map_err(|e| os::Error::new(format!("opening {path}"), e).into())
    }
}

/// Where new memories go.
pub struct Placement<'a> {
    /// Ranges of other memory.
    pub taken: Vec<(u64, u64)>,
    /// The lowest number that a memory's descriptor may get.
    pub lowest_fd: i32,
    /// Descriptors of memories that another process has already, by the memory's index.
    pub theirs: &'a [Option<i32>],
}

/// Creates empty memories, and maps the areas that show them privately.
pub fn make(
    inside: &mut Inside,
    image: &Image,
    given: &Given,
    Placement { mut taken, lowest_fd, theirs }: Placement<'_>,
) -> Result<Vec<Window>, BodyError> {
    let mut windows = Vec::new();
    for (n, memory) in image.objects.memories.iter().enumerate() {
        let open = image.objects.made.iter().position(|m| of(&m.object) == Some(n as u32));
        if let Some(fd) = theirs.get(n).copied().flatten() {
            windows.push(Window { start: 0, bytes: 0, fd, closes: open.is_none(), given: true });
            continue;
        }
        let bytes = memory.bytes.next_multiple_of(PAGE);
        let start = if bytes == 0 { 0 } else { free_place_for(bytes, taken.iter().copied())? };
        taken.push((start, start + bytes));
        let (fd, closes) = match (&memory.kind, open) {
            (image::MemoryKind::Anonymous, _) => (-1, false),
            (image::MemoryKind::File { .. }, Some(place)) => (given.object(place as u32), false),
            (image::MemoryKind::File { name, .. }, None) => (create(inside, name, lowest_fd)?, true),
        };
        windows.push(Window { start, bytes, fd, closes, given: false });
        map(inside, memory, start, bytes, fd)?;
    }
    // The private copies of their pages arrive with the others.
    let mut batch = inside.batch();
    show_all(&mut batch, image, &windows, false)?;
    if !batch.is_empty() {
        inside.run(&batch)?;
    }
    Ok(windows)
}

fn create(inside: &mut Inside, name: &[u8], from: i32) -> Result<i32, BodyError> {
    let mut batch = inside.batch();
    creating(&mut batch, name);
    let low = inside.run(&batch)?.first().copied().unwrap_or(-1) as u64;
    let args = [low, libc::F_DUPFD_CLOEXEC as u64, from as u64, 0, 0, 0];
    let high = inside.must("putting a descriptor out of the way", libc::SYS_fcntl, args)?;
    inside.must("closing a descriptor", libc::SYS_close, [low, 0, 0, 0, 0, 0])?;
    Ok(high as i32)
}

/// Adds the call that creates a memfd. It can be sealed until it is sealed against that.
pub fn creating(batch: &mut Batch, name: &[u8]) -> usize {
    let name = batch.put(&[name, &[0]].concat());
    let flags = u64::from(libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC);
    batch.must("making a file in memory", libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0])
}

fn map(inside: &mut Inside, memory: &Memory, start: u64, bytes: u64, fd: i32) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    let anonymous = if fd < 0 { libc::MAP_ANONYMOUS } else { 0 };
    if let image::MemoryKind::File { mode, .. } = memory.kind {
        batch.must("sizing a file in memory", libc::SYS_ftruncate, [fd as u64, memory.bytes, 0, 0, 0, 0]);
        batch.must("setting rights of a file in memory", libc::SYS_fchmod, [fd as u64, u64::from(mode), 0, 0, 0, 0]);
    }
    if bytes > 0 {
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE | anonymous) as u64;
        let rights = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        batch.must("mapping shared memory", libc::SYS_mmap, [start, bytes, rights, flags, i64::from(fd) as u64, 0]);
    }
    inside.run(&batch)?;
    Ok(())
}

/// Puts arrived pages in place: into private areas or into memories.
pub fn put(
    runs: &[Run],
    bytes: &[u8],
    areas: &[Area],
    windows: &[Window],
    memory: &inject::Memory,
) -> Result<(), BodyError> {
    if runs.first().is_none_or(|run| run.0 < OUTSIDE) {
        if !crate::pages::lie_within(runs, areas) {
            return stays("pages lie in no area of the image");
        }
        return Ok(memory.write_runs(runs, bytes)?);
    }
    let there = |run: &Run| {
        let window = windows.get((run.0.checked_sub(OUTSIDE)? >> EACH_SHIFT) as usize)?;
        let offset = run.0 & ((1 << EACH_SHIFT) - 1);
        (offset.checked_add(run.1)? <= window.bytes).then_some((window.start + offset, run.1))
    };
    match runs.iter().map(there).collect::<Option<Vec<Run>>>() {
        Some(runs) => Ok(memory.write_runs(&runs, bytes)?),
        None => stays("pages lie in no memory of the image"),
    }
}

/// Maps the areas that share the memories, seals files, removes the windows, and makes the rings of
/// asynchronous I/O. All content must have arrived.
pub fn settle(inside: &mut Inside, image: &Image, windows: &[Window]) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    // A file that may not be written must not have a writable mapping when it is sealed.
    for (window, memory) in windows.iter().zip(&image.objects.memories) {
        if let image::MemoryKind::File { seals, .. } = memory.kind
            && !window.given
        {
            unmap(&mut batch, window);
            if seals != 0 {
                let args = [window.fd as u64, libc::F_ADD_SEALS as u64, u64::from(seals), 0, 0, 0];
                batch.must("sealing a file in memory", libc::SYS_fcntl, args);
            }
        }
    }
    show_all(&mut batch, image, windows, true)?;
    for (window, memory) in windows.iter().zip(&image.objects.memories) {
        if memory.kind == image::MemoryKind::Anonymous {
            unmap(&mut batch, window);
        }
        if let Some(fd) = window.own_fd() {
            batch.must("closing a file in memory", libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
    }
    if !batch.is_empty() {
        inside.run(&batch)?;
    }
    rings::make(inside, image)
}

fn unmap(batch: &mut Batch, window: &Window) {
    if window.bytes > 0 {
        batch.must("unmapping shared memory", libc::SYS_munmap, [window.start, window.bytes, 0, 0, 0, 0]);
    }
}

fn show_all(batch: &mut Batch, image: &Image, windows: &[Window], shared: bool) -> Result<(), BodyError> {
    for area in image.areas.iter().filter(|a| a.shared == shared) {
        let Content::Memory { memory, offset } = area.content else { continue };
        let Some(window) = windows.get(memory as usize) else { return stays("an area shows no memory of the image") };
        show(batch, area, window, offset)?;
    }
    Ok(())
}

fn show(batch: &mut Batch, area: &Area, window: &Window, offset: u64) -> Result<(), BodyError> {
    let (bytes, protection) = (area.end - area.start, u64::from(area.protection));
    if window.fd >= 0 {
        let kind = if area.shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let reserve = if area.no_reserve { libc::MAP_NORESERVE } else { 0 };
        let flags = (kind | reserve | libc::MAP_FIXED_NOREPLACE) as u64;
        let args = [area.start, bytes, protection, flags, window.fd as u64, offset];
        batch.must("mapping a file in memory", libc::SYS_mmap, args);
    } else {
        if !area.shared || offset.checked_add(bytes).is_none_or(|end| end > window.bytes) {
            return stays("an area lies outside of the memory that it shows");
        }
        // A size of 0 makes another mapping of the same pages (mremap(2)).
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        let args = [window.start + offset, 0, bytes, flags, area.start, 0];
        batch.must("mapping shared memory", libc::SYS_mremap, args);
        batch.must("protecting shared memory", libc::SYS_mprotect, [area.start, bytes, protection, 0, 0, 0]);
    }
    crate::rebuild::advise(batch, area);
    Ok(())
}

/// Lists the processes that have one of these memories mapped.
pub fn mappers(processes: impl IntoIterator<Item = i32>, memories: &[Shown]) -> Vec<i32> {
    let shows = |a: &os::areas::Area| memories.contains(&a.shown());
    let maps = |pid: &i32| os::areas::read(*pid).is_ok_and(|areas| areas.iter().any(shows));
    processes.into_iter().filter(maps).collect()
}

/// Tells whether the kernel names such a memory so.
pub fn is_memory(name: &Path) -> bool {
    kind(name.as_os_str().as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(kind(b"/dev/zero (deleted)"), Some(image::MemoryKind::Anonymous));
        let named = image::MemoryKind::File { name: b"a (b".to_vec(), mode: 0, seals: 0 };
        assert_eq!(kind(b"/memfd:a (b (deleted)"), Some(named));
        assert_eq!((kind(b"/memfd:a"), kind(b"/dev/zero"), kind(b"/SYSV00000000 (deleted)")), (None, None, None));
    }

    #[test]
    fn pages_from_elsewhere_lie_in_memories() {
        let me = inject::Memory::of(std::process::id() as i32).unwrap();
        let window = [Window::of_memory(0x1000, 0x2000)];
        for run in
            [(address(1, 0), 4096), (address(0, 0x2000), 4096), (address(0, 0x1000), 8192), (u64::MAX - 4095, 4096)]
        {
            assert!(matches!(
                put(&[run], &[0; 8192][..run.1 as usize], &[], &window, &me),
                Err(BodyError::NotMigratable(_))
            ));
        }
    }
}
