//! Files of a process that have no name at home any more: what the room opens them by, and how home
//! opens them again.

use super::reopened::{self, Opening};
use super::written;
use crate::steward::files;
use crate::steward::mounts;
use crate::steward::shared::Shared;
use checkpoint::{BodyError, Inside};
use homefs::server::Server;
use image::File;
use os::pidfd::PidFd;
use os::process::FdInfo;
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Made-up names of files, by their places; they are nothing any more when this is dropped.
#[derive(Default)]
pub struct Names {
    made_up: HashMap<u32, PathBuf>,
    server: Option<Arc<Server>>,
}

impl Names {
    /// For these files of process `pid`: places, and links of /proc/PID that lead to them.
    pub fn of_removed(room: &Shared, pid: i32, files: &[File], removed: &[(u32, String)]) -> Result<Names, BodyError> {
        let mut names = Names { made_up: HashMap::new(), server: room.files.get().cloned() };
        for (place, link) in removed {
            let Some(file) = files.get(*place as usize) else { continue };
            let path = format!("/proc/{pid}/{link}");
            let failed = |e: rustix::io::Errno| os::Error::new(format!("looking at {path}"), std::io::Error::from(e));
            let held =
                rustix::fs::open(path.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
            let may_be_named = is_unnamed(pid, link);
            let server = names.server.as_ref();
            let name = server.and_then(|server| server.name_removed(held, &file.path, may_be_named));
            names.made_up.insert(*place, name.ok_or_else(|| BodyError::Stays(unseen(file)))?);
        }
        Ok(names)
    }

    /// The path by which the room opens a file.
    pub fn of(&self, place: u32, file: &File) -> Vec<u8> {
        self.made_up.get(&place).map_or_else(|| file.path.clone(), |name| name.clone().into_os_string().into_vec())
    }
}

/// Checks that a room can open these files of process `pid`, which have no name:
/// [`Names::of_removed`] gives them one on a file system that the room sees.
///
/// # Errors
/// The first that lies on none.
pub fn check_removed(pid: i32, files: &[File], removed: &[(u32, String)]) -> Result<(), BodyError> {
    if removed.is_empty() {
        return Ok(());
    }
    let seen = mounts::seen_now()?;
    for (place, link) in removed {
        let Some(file) = files.get(*place as usize) else { continue };
        let path = format!("/proc/{pid}/{link}");
        let found = std::fs::metadata(&path).map_err(|e| os::Error::new(format!("looking at {path}"), e))?;
        if !mounts::shows(&seen, found.dev()) {
            return Err(BodyError::Stays(unseen(file)));
        }
    }
    Ok(())
}

fn unseen(file: &File) -> String {
    format!("its file {} has no name, and no room sees where it is", shown(file))
}

impl Drop for Names {
    fn drop(&mut self) {
        for path in self.made_up.values() {
            self.server.iter().for_each(|server| server.unname(path));
        }
    }
}

/// The descriptor was opened without a name (O_TMPFILE).
fn is_unnamed(pid: i32, link: &str) -> bool {
    let fd = link.strip_prefix("fd/").and_then(|fd| fd.parse().ok());
    let info = fd.and_then(|fd| os::process::fd_info(pid, fd).ok());
    info.is_some_and(|info| info.flags & libc::O_TMPFILE == libc::O_TMPFILE)
}

fn shown(file: &File) -> String {
    String::from_utf8_lossy(&file.path).into_owned()
}

/// Files opened by one batch: their paths fit its memory.
const FILES_AT_ONCE: usize = 32;

/// Opens files in the stopped deputy with its own rights; their numbers are added to `opened`, also
/// of those before one that cannot be opened.
pub fn open(
    room: &Shared,
    pid: i32,
    inside: &mut Inside,
    files: &[File],
    opened: &mut Vec<i32>,
) -> Result<(), BodyError> {
    files.chunks(FILES_AT_ONCE).try_for_each(|part| open_some(room, pid, inside, part, opened))
}

fn open_some(
    room: &Shared,
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
                    .ok_or(BodyError::Stays(why))??,
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
fn standin(room: &Shared, pid: i32, fd: i32) -> Option<FdInfo> {
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
fn open_again(room: &Shared, pid: i32, file: &File) -> Option<Result<OwnedFd, BodyError>> {
    let server = room.files.get()?;
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
