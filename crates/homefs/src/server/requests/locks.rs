//! File locks. A POSIX lock belongs to a process: each owner in the room gets an open file
//! description of its own at home. Its locks (F_OFD_*) conflict with all others, at home and in
//! other rooms. A flock belongs to the open file, at home as in the room.

use crate::proto::{FileLock, LK_FLOCK, LK_OF_OPEN_FILE, LkIn, LkOut, ReplyBuf};
use crate::server::Server;
use crate::server::base::answer::{Answer, Call, Outcome, Refused};
use crate::server::state::deadlocks::Awaited;
use crate::server::state::handles::{Kind, Open};
use crate::server::state::kernel_locks::LockedRange;
use crate::server::state::locks::HeldLocks;
use crate::server::state::nodes::reopen;
use crate::server::state::proc_path::proc_path;
use crate::sys;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

fn range_of(lk: &FileLock) -> Result<libc::flock> {
    let start = i64::try_from(lk.start).map_err(|_| Errno::INVAL)?;
    let end = i64::try_from(lk.end).unwrap_or(i64::MAX);
    let len = if end == i64::MAX { 0 } else { end.checked_sub(start).ok_or(Errno::INVAL)?.saturating_add(1) };
    if len < 0 {
        return Err(Errno::INVAL);
    }
    Ok(libc::flock { l_type: lk.kind as i16, l_whence: libc::SEEK_SET as i16, l_start: start, l_len: len, l_pid: 0 })
}

impl Server {
    pub(crate) fn getlk(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let get = call.request.args().take::<LkIn>()?;
        let open = self.handles.get(get.fh, call.node.id)?;
        let mut range = range_of(&get.lk)?;
        let description = self.locks.find(call.node.id, get.owner).unwrap_or_else(|| open.file.clone());
        sys::ofd_lock(description.as_fd(), libc::F_OFD_GETLK, &mut range)?;
        let end = if range.l_len == 0 { i64::MAX } else { range.l_start + range.l_len - 1 };
        let pid = match range.l_pid {
            pid @ 1.. => pid as u32,
            _ => self.locks.pid_of(call.node.id, get.owner, &LockedRange::of(&range)).unwrap_or_default(),
        };
        buf.push(&LkOut {
            lk: FileLock { start: range.l_start as u64, end: end as u64, kind: range.l_type as u32, pid },
        });
        Ok(Answer::Plain)
    }

    pub(crate) fn setlk(self: &Arc<Self>, call: &Call<'_>, waits: bool) -> Outcome {
        let set = call.request.args().take::<LkIn>()?;
        let open = self.handles.get(set.fh, call.node.id)?;
        if set.lk_flags & LK_FLOCK != 0 {
            let Some(description) = self.locks.flock_description(call.node.id, &set, || self.open_for_locks(&open))?
            else {
                return Ok(Answer::Plain);
            };
            return self.flock(call, description, set.lk.kind as i32, waits);
        }
        let mut range = range_of(&set.lk)?;
        let unlock = set.lk.kind as i32 == libc::F_UNLCK;
        let description = match self.locks.find(call.node.id, set.owner) {
            None if unlock => return Ok(Answer::Plain),
            _ => {
                let may_write = matches!(open.kind, Kind::Writer { .. });
                self.locks.owner_description(call.node.id, &set, may_write, || self.open_for_locks(&open))?
            }
        };
        match sys::ofd_lock(description.as_fd(), libc::F_OFD_SETLK, &mut range) {
            Ok(()) => Ok(Answer::Plain),
            Err(Errno::AGAIN | Errno::ACCESS) if waits => {
                let unique = call.request.header.unique;
                if set.lk_flags & LK_OF_OPEN_FILE == 0 {
                    let awaited = Awaited { node: call.node.id, range: LockedRange::of(&range), unique };
                    self.locks.wait(set.owner, awaited)?;
                }
                self.later(call, move |server, _, _| {
                    let done = sys::ofd_lock(description.as_fd(), libc::F_OFD_SETLKW, &mut range);
                    server.locks.waited(set.owner, unique);
                    done?;
                    Ok(Answer::Plain)
                });
                Ok(Answer::Later)
            }
            Err(errno) => Err(Refused(errno)),
        }
    }

    /// Opens the same file in the same mode (the kernel wants a readable file for a shared lock,
    /// and a writable one for an exclusive lock), in the mount that home's processes see, because a
    /// process at home may get the open file. A file without a name is opened in the room's mount.
    fn open_for_locks(&self, open: &Open) -> Result<OwnedFd> {
        self.authority.resume()?;
        let flags = (rustix::fs::fcntl_getfl(&*open.file)? & OFlags::ACCMODE) | OFlags::NONBLOCK;
        let shown = rustix::fs::readlink(&*proc_path(&open.file), Vec::new())?;
        let within = Path::new(OsStr::from_bytes(shown.to_bytes()));
        let path = self.export(&open.node).path.join(within.strip_prefix("/").unwrap_or(within));
        let names_only = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_it = |named: &OwnedFd| {
            let found = rustix::fs::fstat(named).and_then(|a| Ok((a, rustix::fs::fstat(&*open.file)?)));
            found.is_ok_and(|(a, b)| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
        };
        match rustix::fs::open(&path, names_only, Mode::empty()) {
            Ok(named) if is_it(&named) => reopen(&named, flags),
            _ => reopen(&open.file, flags),
        }
    }

    /// Gives home's open file of an open file of the room that has a lock of its own (flock(2),
    /// F_OFD_SETLK). The lock lasts until the file is closed in the room and by the caller.
    ///
    /// # Errors
    /// The open file has both kinds of locks.
    pub fn open_with_lock(&self, node: u64, fh: u64, uid: u32) -> std::result::Result<Option<OwnedFd>, &'static str> {
        if self.handles.get(fh, node).is_ok_and(|open| open.opener.uid != uid) {
            return Err("has locked a file that another user has open");
        }
        self.locks.give(node, fh)
    }

    /// Gives the locks of its own that a process of the room holds on files of home, except those
    /// of open files that a process at home has now. They are kept until [`Server::forget_locks`].
    ///
    /// # Errors
    /// A description of a lock that another process cannot take over.
    pub fn held_locks(&self, pid: i32) -> std::result::Result<Vec<HeldLocks>, &'static str> {
        self.locks.held(pid)
    }

    /// Tells whether a process of the room holds record locks of its own on the file with this
    /// inode number. They are released when the process closes any descriptor of the file.
    pub fn has_record_locks(&self, pid: i32, inode: u64) -> bool {
        self.locks.has_records(pid, inode)
    }

    /// Shows the locks that a process of the room has on the file of this number, as the kernel
    /// shows them of a process that has set them itself (proc_pid_fdinfo(5)).
    pub fn shown_locks(&self, pid: i32, inode: u64) -> String {
        self.locks.shown(pid, inode)
    }

    /// Forgets the locks of a process: another process has them now.
    pub fn forget_locks(&self, pid: i32) {
        self.locks.forget(pid);
    }

    fn flock(self: &Arc<Self>, call: &Call<'_>, description: Arc<OwnedFd>, kind: i32, waits: bool) -> Outcome {
        let (now, wait) = match kind {
            libc::F_RDLCK => (FlockOperation::NonBlockingLockShared, FlockOperation::LockShared),
            libc::F_WRLCK => (FlockOperation::NonBlockingLockExclusive, FlockOperation::LockExclusive),
            libc::F_UNLCK => (FlockOperation::NonBlockingUnlock, FlockOperation::Unlock),
            _ => return Err(Refused(Errno::INVAL)),
        };
        match rustix::fs::flock(&*description, now) {
            Ok(()) => Ok(Answer::Plain),
            Err(Errno::AGAIN) if waits => {
                self.later(call, move |_, _, _| {
                    rustix::fs::flock(&*description, wait)?;
                    Ok(Answer::Plain)
                });
                Ok(Answer::Later)
            }
            Err(errno) => Err(Refused(errno)),
        }
    }
}
