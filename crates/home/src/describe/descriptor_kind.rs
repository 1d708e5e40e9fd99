//! What kinds of descriptors there are, by what becomes of them when their process moves.

use crate::proxy::mounts;
use checkpoint::BodyError;
use image::{File, Opened};
use os::areas::Shown;
use os::process::{self, FdInfo};
use std::collections::HashSet;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A process that runs may change its memory while the kernel lists it: then areas come twice, or
/// not at all. It may close descriptors, too.
pub const LISTED_MAX: usize = 40;

/// What becomes of a descriptor.
pub enum Kind {
    /// It can be opened by its name.
    File(File),
    /// Likewise, and nobody can tell whether others have it too: a directory, which only one of
    /// those may read who have it in common (fork(3p)), or what only names a file.
    Place(File),
    /// It can be made anew, if nobody else has it.
    Object,
    /// Memory that it shares, or may share, with processes that move together with it.
    Memory,
    /// The process stays at home.
    AtHome,
}

impl Kind {
    pub fn file(&self) -> Option<&File> {
        match self {
            Kind::File(file) => Some(file),
            Kind::Place(_) | Kind::Object | Kind::Memory | Kind::AtHome => None,
        }
    }

    /// What becomes of a descriptor that others have too.
    pub fn shared(&self, pid: i32, fd: i32) -> Result<Opened, BodyError> {
        let name = process::link(pid, &format!("fd/{fd}"))?;
        // What is set or asked by calls of its own cannot be stood in for.
        let own_calls = ["anon_inode:[timerfd]", "anon_inode:[eventpoll]"];
        let words = || format!("descriptor {fd} ({}) is shared with another process", name.display());
        if matches!(self, Kind::Object) && checkpoint::is_memory(&name) {
            return Err(BodyError::SharesMemory(words()));
        }
        if matches!(self, Kind::Object) && own_calls.iter().any(|own| name.as_os_str() == *own) {
            return Err(BodyError::NotMigratable(words()));
        }
        Ok(Opened::Home(fd))
    }
}

pub fn kind(pid: i32, fd: i32, info: &FdInfo) -> Result<Kind, BodyError> {
    let target = process::link(pid, &format!("fd/{fd}"))?;
    let name = target.as_os_str().as_bytes();
    if let Some(what) = name.strip_prefix(b"anon_inode:") {
        return match what {
            b"[eventfd]" | b"[timerfd]" | b"[signalfd]" | b"[eventpoll]" | b"[pidfd]" => Ok(Kind::Object),
            // Read and polled, and otherwise used by calls that are made at home.
            b"inotify" | b"[fanotify]" => Ok(Kind::AtHome),
            _ => {
                let what = String::from_utf8_lossy(what);
                Err(BodyError::NotMigratable(format!("descriptor {fd} ({what}) cannot be carried")))
            }
        };
    }
    if name.starts_with(b"socket:") {
        return Ok(Kind::AtHome);
    }
    if name.starts_with(b"pipe:") || checkpoint::is_memory(&target) {
        return Ok(Kind::Object);
    }
    if info.flags & libc::O_PATH != 0 {
        return Ok(Kind::Place(opened_file(fd, info, &target, checkpoint::is_everywhere(pid, fd))?));
    }
    let metadata = std::fs::metadata(format!("/proc/{pid}/fd/{fd}"))
        .map_err(|e| os::Error::new(format!("looking at descriptor {fd} of {pid}"), e))?;
    let ordinary = metadata.is_file() || metadata.is_dir();
    let everywhere = checkpoint::is_there_everywhere(&metadata);
    // What a room has a place of its own for stays and is used from there.
    if (ordinary && !is_kernels(pid, fd) && !mounts::is_hidden(&target)) || everywhere {
        let file = opened_file(fd, info, &target, everywhere)?;
        return Ok(if metadata.is_dir() { Kind::Place(file) } else { Kind::File(file) });
    }
    Ok(Kind::AtHome)
}

/// What the kernel says of a descriptor, and what kind it is, both of the same file: they are read
/// one after the other, and the process runs.
pub fn of_one_file(
    pid: i32,
    fd: i32,
    kind: impl Fn(i32, &FdInfo) -> Result<Kind, BodyError>,
) -> Result<(FdInfo, Kind), BodyError> {
    for _ in 0..LISTED_MAX {
        let before = process::fd_info(pid, fd)?;
        let kind = kind(fd, &before)?;
        let after = process::fd_info(pid, fd)?;
        if (FdInfo { offset: before.offset, ..after }) == before {
            return Ok((before, kind));
        }
    }
    Err(BodyError::Retryable(format!("descriptor {fd} is another file again and again")))
}

/// Tells whether a descriptor is open on memory that processes can share: a memfd, or a file
/// without a name that one of them has `mapped`.
pub fn is_memory(pid: i32, fd: i32, mapped: &HashSet<Shown>) -> bool {
    let link = format!("fd/{fd}");
    let is_mapped = |name: &Path| {
        name.as_os_str().as_bytes().ends_with(b" (deleted)")
            && checkpoint::memory_shown(pid, &link).is_ok_and(|shown| mapped.contains(&shown))
    };
    process::link(pid, &link).is_ok_and(|name| checkpoint::is_memory(&name) || is_mapped(&name))
}

pub fn is_file(pid: i32, fd: i32) -> bool {
    std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|m| m.is_file())
}

/// A file that tells of the home's kernel: there it must be read.
pub fn is_kernels(pid: i32, fd: i32) -> bool {
    // linux/magic.h
    const KERNELS: [i64; 8] =
        [0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x6462_6720, 0x7472_6163, 0x6e73_6673, 0x1980_0202];
    rustix::fs::statfs(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|fs| KERNELS.contains(&fs.f_type))
}

/// The file that the descriptor is open on, under its name or what that was.
pub fn opened_file(fd: i32, info: &FdInfo, target: &Path, everywhere: bool) -> Result<File, BodyError> {
    let file = checkpoint::open_file(fd, info, target, everywhere)?;
    Ok(match checkpoint::removed(target, info.inode) {
        Some(called) => File { path: called.into_os_string().into_vec(), removed: true, ..file },
        None => file,
    })
}
