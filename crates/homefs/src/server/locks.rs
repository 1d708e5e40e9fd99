//! File locks. A POSIX lock belongs to a process: each owner in the room gets an open file description of its own at home, whose
//! locks (F_OFD_*) conflict with everybody else's, at home and in other rooms. A flock belongs to the open file, and so it does here.

use super::dispatch::{Answer, Call, Outcome, Refused};
use super::handles::{Kind, Open};
use super::nodes::reopen;
use super::{Server, lock, sys};
use crate::proto::{FileLock, LK_FLOCK, LkIn, LkOut, ReplyBuf};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

struct Owner {
    description: Arc<OwnedFd>,
    writable: bool,
    /// Process in home's numbers, for F_GETLK.
    pid: u32,
    /// The open files that it locked through.
    handles: Vec<u64>,
}

/// POSIX lock owners by node and owner.
#[derive(Default)]
pub(super) struct Locks {
    owners: Mutex<HashMap<(u64, u64), Owner>>,
    /// Who set a flock last through an open file, by handle and node.
    flocks: Mutex<HashMap<(u64, u64), u32>>,
}

impl Locks {
    /// A process closed a descriptor of the file: its locks go.
    pub(super) fn release_owner(&self, node: u64, owner: u64) {
        lock(&self.owners).remove(&(node, owner));
    }

    /// An open file is gone, and locks with it: its own (F_OFD_SETLK), and those of processes if the room does not tell of single closes.
    pub(super) fn release_handle(&self, node: u64, fh: u64) {
        lock(&self.owners).retain(|(n, _), owner| *n != node || !owner.handles.contains(&fh));
    }

    /// Somebody has set a lock through this open file.
    pub(super) fn is_locked_through(&self, fh: u64) -> bool {
        lock(&self.owners).values().any(|owner| owner.handles.contains(&fh))
    }

    fn find(&self, node: u64, owner: u64) -> Option<Arc<OwnedFd>> {
        lock(&self.owners).get(&(node, owner)).map(|o| o.description.clone())
    }

    /// Some other owner's process: the kernel does not say whose an open file description's lock is.
    fn other_pid(&self, node: u64, owner: u64) -> u32 {
        lock(&self.owners).iter().find(|((n, o), _)| *n == node && *o != owner).map_or(0, |(_, other)| other.pid)
    }
}

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
    pub(super) fn getlk(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let get = call.request.args().take::<LkIn>()?;
        let open = self.handles.get(get.fh, call.node.id)?;
        let mut range = range_of(&get.lk)?;
        let description = self.locks.find(call.node.id, get.owner).unwrap_or_else(|| open.file.clone());
        sys::ofd_lock(description.as_fd(), libc::F_OFD_GETLK, &mut range)?;
        let end = if range.l_len == 0 { i64::MAX } else { range.l_start + range.l_len - 1 };
        let pid = match range.l_pid {
            pid @ 1.. => pid as u32,
            _ => self.locks.other_pid(call.node.id, get.owner),
        };
        buf.push(&LkOut {
            lk: FileLock { start: range.l_start as u64, end: end as u64, kind: range.l_type as u32, pid },
        });
        Ok(Answer::Plain)
    }

    pub(super) fn setlk(self: &Arc<Self>, call: &Call<'_>, waits: bool) -> Outcome {
        let set = call.request.args().take::<LkIn>()?;
        let open = self.handles.get(set.fh, call.node.id)?;
        if set.lk_flags & LK_FLOCK != 0 {
            // Not said of one that is given up.
            if set.lk.pid != 0 {
                lock(&self.locks.flocks).insert((set.fh, call.node.id), set.lk.pid);
            }
            return self.flock(call, &open, set.lk.kind as i32, waits);
        }
        let mut range = range_of(&set.lk)?;
        let unlock = set.lk.kind as i32 == libc::F_UNLCK;
        let description = match self.locks.find(call.node.id, set.owner) {
            None if unlock => return Ok(Answer::Plain),
            _ => self.owner_description(call, &set, &open)?,
        };
        match sys::ofd_lock(description.as_fd(), libc::F_OFD_SETLK, &mut range) {
            Ok(()) => Ok(Answer::Plain),
            Err(Errno::AGAIN | Errno::ACCESS) if waits => {
                self.later(call, move |_, _, _| {
                    sys::ofd_lock(description.as_fd(), libc::F_OFD_SETLKW, &mut range)?;
                    Ok(Answer::Plain)
                });
                Ok(Answer::Later)
            }
            Err(errno) => Err(Refused(errno)),
        }
    }

    /// The description that carries this owner's locks on this node.
    fn owner_description(&self, call: &Call<'_>, set: &LkIn, open: &Open) -> Result<Arc<OwnedFd>> {
        let may_write = matches!(open.kind, Kind::Writer { .. });
        let mut owners = lock(&self.locks.owners);
        let key = (call.node.id, set.owner);
        if let Some(owner) = owners.get_mut(&key).filter(|o| o.writable || !may_write) {
            if !owner.handles.contains(&set.fh) {
                owner.handles.push(set.fh);
            }
            return Ok(owner.description.clone());
        }
        self.authority.resume()?;
        // As the file is open: the kernel asks for reading to lock for reading, for writing to lock for writing.
        let access = rustix::fs::fcntl_getfl(&*open.file)? & OFlags::ACCMODE;
        let description = Arc::new(reopen(&open.file, access | OFlags::NONBLOCK)?);
        let owner =
            Owner { description: description.clone(), writable: may_write, pid: set.lk.pid, handles: vec![set.fh] };
        owners.insert(key, owner);
        Ok(description)
    }

    /// Whether a process of the room holds a lock of a home file.
    pub fn holds_locks(&self, pid: i32) -> bool {
        let is_locked = |file: &OwnedFd| {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
            info.is_ok_and(|text| text.lines().any(|line| line.starts_with("lock:")))
        };
        let mut flocks = lock(&self.locks.flocks);
        flocks.retain(|(fh, node), _| self.handles.get(*fh, *node).is_ok());
        let own = flocks.iter().filter(|(_, owner)| **owner == pid as u32);
        let mut opens = own.filter_map(|((fh, node), _)| self.handles.get(*fh, *node).ok());
        opens.any(|open| is_locked(&open.file))
            || lock(&self.locks.owners).values().any(|o| o.pid == pid as u32 && is_locked(&o.description))
    }

    fn flock(self: &Arc<Self>, call: &Call<'_>, open: &Arc<Open>, kind: i32, waits: bool) -> Outcome {
        let (now, wait) = match kind {
            libc::F_RDLCK => (FlockOperation::NonBlockingLockShared, FlockOperation::LockShared),
            libc::F_WRLCK => (FlockOperation::NonBlockingLockExclusive, FlockOperation::LockExclusive),
            libc::F_UNLCK => (FlockOperation::NonBlockingUnlock, FlockOperation::Unlock),
            _ => return Err(Refused(Errno::INVAL)),
        };
        match rustix::fs::flock(&*open.file, now) {
            Ok(()) => Ok(Answer::Plain),
            Err(Errno::AGAIN) if waits => {
                let open = open.clone();
                self.later(call, move |_, _, _| {
                    rustix::fs::flock(&*open.file, wait)?;
                    Ok(Answer::Plain)
                });
                Ok(Answer::Later)
            }
            Err(errno) => Err(Refused(errno)),
        }
    }
}
