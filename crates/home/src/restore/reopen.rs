//! Opens a process' files in its stopped deputy, also those that have no name at home any more.

use crate::proxy::files;
use crate::restore::reopened::{self, Opening};
use crate::restore::written;
use crate::room::state::Room;
use checkpoint::{BodyError, Inside};
use image::File;
use os::pidfd::PidFd;
use os::process::FdInfo;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The path of a file, for messages.
fn shown(file: &File) -> String {
    String::from_utf8_lossy(&file.path).into_owned()
}

/// Files opened by one batch: their paths fit its memory.
const FILES_AT_ONCE: usize = 32;

/// Opens files in the stopped deputy with its own rights; their numbers are added to `opened`, also
/// of those before one that cannot be opened.
pub fn open(
    room: &Room,
    pid: i32,
    inside: &mut Inside,
    files: &[File],
    opened: &mut Vec<i32>,
) -> Result<(), BodyError> {
    files.chunks(FILES_AT_ONCE).try_for_each(|part| open_some(room, pid, inside, part, opened))
}

fn open_some(
    room: &Room,
    pid: i32,
    inside: &mut Inside,
    files: &[File],
    opened: &mut Vec<i32>,
) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    for file in files {
        let opening = Opening::of(file, |fd| standin(room, pid, fd))?;
        // One that cannot be looked at is checked when it is open: its user alone could have
        // changed it meanwhile.
        std::fs::metadata(reopened::as_seen_by(pid, &file.path)).map_or(Ok(()), |m| reopened::check_kind(file, &m))?;
        let (path, how) = (batch.put(&[file.path.as_slice(), &[0]].concat()), opening.bytes());
        let (at, bytes) = (batch.put(&how), how.len() as u64);
        batch.may(libc::SYS_openat2, [libc::AT_FDCWD as u64, path, at, bytes, 0, 0]);
    }
    let results = inside.run(&batch)?;
    let first = opened.len();
    opened.extend(results.iter().map(|fd| *fd as i32));
    for (at, file) in (first..).zip(files) {
        if let Err(why) = is_it(pid, opened[at], file) {
            let uid = room.table().deputies.get(&pid).map_or(u32::MAX, |deputy| deputy.credentials.uid[1]);
            let found = match open_again(room, pid, file) {
                Some(Ok(found)) => found,
                other => written::open_again(room, file, uid)
                    .map_or(other, |found| Some(Ok(found)))
                    .ok_or(BodyError::NotMigratable(why))??,
            };
            let given = checkpoint::give(inside, &PidFd::open(pid)?, &[found.as_fd()])?;
            let wrong = std::mem::replace(&mut opened[at], given.first().copied().unwrap_or(-1));
            inside.call(libc::SYS_close, [wrong as u64, 0, 0, 0, 0, 0])?;
        }
    }
    let mut batch = inside.batch();
    // What only names a file has no flags to set.
    for (fd, file) in opened[first..].iter().zip(files).filter(|(_, file)| file.flags & libc::O_PATH == 0) {
        let args = [*fd as u64, libc::F_SETFL as u64, file.flags as u64, 0, 0, 0];
        batch.must("setting a file's flags", libc::SYS_fcntl, args);
    }
    inside.run(&batch)?;
    Ok(())
}

/// What the deputy has open under this number for its program.
fn standin(room: &Room, pid: i32, fd: i32) -> Option<FdInfo> {
    let is_kept = room.table().deputies.get(&pid)?.standins.values().any(|kept| kept.contains(&fd));
    is_kept.then(|| os::process::fd_info(pid, fd).ok()).flatten()
}

/// Whether the deputy has that file open under this number, or why not.
fn is_it(pid: i32, fd: i32, file: &File) -> Result<(), String> {
    if fd < 0 {
        let e = std::io::Error::from_raw_os_error(fd.saturating_neg());
        return Err(format!("opening its file {} at home: {e}", shown(file)));
    }
    let failed = |e| format!("looking at its file {} at home: {e}", shown(file));
    let found = std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).map_err(failed)?;
    reopened::check_kind(file, &found).map_err(|e| e.to_string())?;
    match reopened::is_meant(file, found.ino(), &found) {
        true => Ok(()),
        false => Err(format!("the file {} is another now (inode {}, not {})", shown(file), found.ino(), file.inode)),
    }
}

/// Opens, with the deputy's rights, a file that has no name any more and that the room has open.
fn open_again(room: &Room, pid: i32, file: &File) -> Option<Result<OwnedFd, BodyError>> {
    let server = room.link.files()?;
    let who = {
        let table = room.table();
        let deputy = table.deputies.get(&pid)?;
        files::rights_of_files(&deputy.credentials)
    };
    let flags = match reopened::flags(file) {
        Ok(flags) => OFlags::from_bits_retain(flags as u32),
        Err(e) => return Some(Err(e)),
    };
    let held = server.open_in_room(Path::new(OsStr::from_bytes(&file.path)), file.inode)?;
    let open = || {
        server.act_as(&who)?;
        Ok(rustix::fs::open(format!("/proc/self/fd/{}", held.as_raw_fd()), flags, Mode::empty())?)
    };
    // A thread of its own: it takes on the process' identity for good.
    let opened = std::thread::scope(|scope| scope.spawn(open).join());
    let opened: std::io::Result<OwnedFd> = opened.unwrap_or_else(|_| Err(std::io::Error::other("unexpected failure")));
    let failed = |e| os::Error::new(format!("opening its file {} at home, which has no name", shown(file)), e);
    Some(opened.map_err(|e| failed(e).into()))
}
