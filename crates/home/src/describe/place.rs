//! What a process is that is to be placed: from the kernel's mouth, not from the process'.

use crate::deputy::rights;
use os::pidfd::PidFd;
use os::{Error, Result, process};
use room_protocol::ToRoom;
use room_protocol::message::{Descriptor, Directory, Place, Program, StandinId, ToOpen};
use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

/// Reads everything that the body needs. `next_standin` numbers its descriptors.
pub fn describe(pid: i32, program: Program, mut next_standin: impl FnMut() -> StandinId) -> Result<Place> {
    let place = identity(pid, program)?;
    let (descriptors, directories) = descriptors(pid, &mut next_standin)?;
    Ok(Place { descriptors, directories, ..place })
}

/// What the room is to hear of descriptors that are placed so, if their open files have other flags
/// by now.
pub fn changed_flags(pid: i32, placed: &[Descriptor]) -> Result<Option<ToRoom>> {
    let mut flags = Vec::new();
    for descriptor in placed {
        let now = process::fd_info(pid, descriptor.at_home)?.flags;
        let there = descriptor.standin.flags_there();
        if (now ^ descriptor.flags) & there != 0 {
            flags.push((descriptor.fd, now & there));
        }
    }
    Ok((!flags.is_empty()).then_some(ToRoom::Flags { pid, flags }))
}

/// As [`describe`], without descriptors.
pub fn identity(pid: i32, program: Program) -> Result<Place> {
    let status = process::status(pid)?;
    let cwd = process::link(pid, "cwd")?;
    if !cwd.is_absolute() || cwd.as_os_str().as_bytes().ends_with(b" (deleted)") {
        return Err(Error::new(
            format!("using working directory {}", cwd.display()),
            std::io::Error::from_raw_os_error(libc::ENOENT),
        ));
    }
    Ok(Place {
        pid,
        program,
        cwd: cwd.as_os_str().as_bytes().to_vec(),
        umask: status.umask,
        ignored: status.ignored,
        // Not what it blocks now: it may be turning into its deputy, which blocks all.
        blocked: 0,
        credentials: rights::rights(&status),
        limits: process::limits(pid)?,
        nice: process::times(pid)?.1,
        personality: process::personality(pid)?,
        descriptors: Vec::new(),
        directories: Vec::new(),
        home_devices: false,
        arrival: None,
    })
}

/// The open descriptors that an exec would keep. Those of one open file get one stand-in;
/// directories, the body opens itself.
fn descriptors(pid: i32, next_standin: &mut impl FnMut() -> StandinId) -> Result<(Vec<Descriptor>, Vec<Directory>)> {
    let (mut found, mut directories) = (Vec::<Descriptor>::new(), Vec::new());
    for fd in process::descriptors(pid)? {
        let info = match process::fd_info(pid, fd) {
            Ok(info) if info.flags & libc::O_CLOEXEC == 0 => info,
            Ok(_) => continue,
            // The tool's own: it is closing them while this looks.
            Err(e) if e.errno() == libc::ENOENT => continue,
            Err(e) => return Err(e),
        };
        if let Some(directory) = directory(pid, fd, &info) {
            directories.push(directory);
            continue;
        }
        let same = found.iter().find(|d| process::same_file(pid, d.fd, fd)).map(|d| d.standin);
        let terminal = may_be_terminal(pid, fd);
        let standin = same.unwrap_or_else(|| standin_for(pid, fd, info.flags, next_standin()));
        let (flags, offset, timed) = (info.flags, info.offset, is_timed(pid, fd));
        let end = end_of(pid, fd, flags, standin);
        found.push(Descriptor { fd, at_home: fd, standin, flags, terminal, timed, offset, end });
    }
    Ok((found, directories))
}

/// If it is open on one that still has its name.
fn directory(pid: i32, fd: i32, info: &process::FdInfo) -> Option<Directory> {
    let at = std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).ok().filter(Metadata::is_dir)?;
    let path = process::link(pid, &format!("fd/{fd}")).ok()?;
    let named = std::fs::metadata(&path).ok().filter(|named| (named.dev(), named.ino()) == (at.dev(), at.ino()));
    let path = path.into_os_string().into_vec();
    named.map(|_| Directory { fd, path, flags: info.flags, offset: info.offset })
}

/// The number of the stand-in for a descriptor, which says whether that is a regular file.
pub fn standin_for(pid: i32, fd: i32, flags: i32, number: StandinId) -> StandinId {
    let is_file = flags & libc::O_PATH == 0
        && rustix::fs::stat(format!("/proc/{pid}/fd/{fd}"))
            .is_ok_and(|found| rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::RegularFile);
    if is_file { number.of_file() } else { number }
}

/// What the room opens for a file of a process that still runs elsewhere, by this name.
pub fn to_open(file: &image::File, path: Vec<u8>) -> ToOpen {
    ToOpen { path, flags: checkpoint::early_flags(file), inode: file.inode }
}

/// Bytes of a file that is appended to.
pub fn end_of(pid: i32, fd: i32, flags: i32, standin: StandinId) -> Option<u64> {
    let appends = standin.is_file() && flags & libc::O_APPEND != 0;
    let found = appends.then(|| rustix::fs::stat(format!("/proc/{pid}/fd/{fd}")).ok()).flatten()?;
    u64::try_from(found.st_size).ok()
}

/// A socket with a time limit.
pub fn is_timed(pid: i32, fd: i32) -> bool {
    let is_socket = process::link(pid, &format!("fd/{fd}")).is_ok_and(|l| l.to_string_lossy().starts_with("socket:"));
    let file = is_socket.then(|| PidFd::open(pid).and_then(|p| p.get_fd(fd)).ok()).flatten();
    file.is_some_and(|file| os::objects::has_time_limit(file.as_fd()))
}

/// A character device, but none of those that are memory.
pub fn may_be_terminal(pid: i32, fd: i32) -> bool {
    const MEM_MAJOR: u32 = 1;
    rustix::fs::stat(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|found| {
        rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::CharacterDevice
            && rustix::fs::major(found.st_rdev) != MEM_MAJOR
    })
}
