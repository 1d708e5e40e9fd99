//! The locks that processes of the room hold on files of home.

use super::deadlocks::{Awaited, Waits};
use super::kernel_locks::{LockedRange, lines_of_locks, locks_on, shown_line};
use super::mutex::lock;
use crate::proto::{LK_OF_OPEN_FILE, LkIn};
use crate::sys;
use rustix::fs::FlockOperation;
use rustix::io::Result;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// A process or an open file of the room that has record locks.
struct Owner {
    description: Arc<OwnedFd>,
    writable: bool,
    /// Process id in home's numbers, for F_GETLK.
    pid: u32,
    /// The handles through which the owner locked.
    handles: Vec<u64>,
    /// Whether the locks are an open file's, not a process'.
    of_open_file: bool,
}

/// An open file with a lock of its own (flock(2)).
struct Flock {
    description: Arc<OwnedFd>,
    /// The process that set the lock last.
    pid: u32,
}

/// The locks that a process of the room holds on a file of home. They last at least as long as this
/// value.
pub struct HeldLocks {
    /// Inode number of the file.
    pub inode: u64,
    /// Device number of the file.
    pub device: u64,
    /// The locked ranges.
    pub ranges: Vec<LockedRange>,
    description: Arc<OwnedFd>,
}

impl HeldLocks {
    /// Tells whether a lock is exclusive.
    pub fn is_exclusive(&self) -> bool {
        self.ranges.iter().any(|range| range.exclusive)
    }

    /// Turns all locks into shared ones.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn let_readers_in(&self) -> std::io::Result<()> {
        for range in self.ranges.iter().filter(|range| range.exclusive) {
            let (l_type, l_whence) = (libc::F_RDLCK as i16, libc::SEEK_SET as i16);
            let mut lock = libc::flock { l_type, l_whence, l_start: range.start, l_len: range.bytes, l_pid: 0 };
            sys::ofd_lock(self.description.as_fd(), libc::F_OFD_SETLK, &mut lock)?;
        }
        Ok(())
    }
}

/// The lock owners of a room.
#[derive(Default)]
pub(crate) struct Locks {
    owners: Mutex<HashMap<(u64, u64), Owner>>,
    /// Open files with a flock, by handle and node.
    flocks: Mutex<HashMap<(u64, u64), Flock>>,
    /// Handles of open files that a process at home has now, too, with their locks.
    given: Mutex<HashSet<u64>>,
    waits: Waits,
}

impl Locks {
    /// Removes the locks of an owner, because its process closed a descriptor of the file.
    pub(crate) fn release_owner(&self, node: u64, owner: u64) {
        lock(&self.owners).remove(&(node, owner));
    }

    /// Removes the locks of a closed open file: its own, and those of processes, in case the room
    /// does not report single closes.
    pub(crate) fn release_handle(&self, node: u64, fh: u64) {
        self.release_flock(fh, node);
        lock(&self.owners).retain(|(n, _), owner| *n != node || !owner.handles.contains(&fh));
    }

    /// Tells whether a lock was set through this open file.
    pub(crate) fn is_locked_through(&self, fh: u64) -> bool {
        lock(&self.owners).values().any(|owner| owner.handles.contains(&fh))
    }

    pub(crate) fn is_given(&self, fh: u64) -> bool {
        lock(&self.given).contains(&fh)
    }

    /// Removes the flock of an open file, even if a request still waits for one, unless a process
    /// at home has the open file now.
    fn release_flock(&self, fh: u64, node: u64) {
        let flock = lock(&self.flocks).remove(&(fh, node));
        if !lock(&self.given).remove(&fh)
            && let Some(flock) = flock
        {
            let _ = rustix::fs::flock(&*flock.description, FlockOperation::Unlock);
        }
    }

    /// Finds the description that carries an owner's locks.
    pub(crate) fn find(&self, node: u64, owner: u64) -> Option<Arc<OwnedFd>> {
        lock(&self.owners).get(&(node, owner)).map(|o| o.description.clone())
    }

    /// Finds the process of the other owner that has this lock. The kernel does not tell whose the
    /// lock of an open file description is.
    pub(crate) fn pid_of(&self, node: u64, owner: u64, held: &LockedRange) -> Option<u32> {
        let owners = lock(&self.owners);
        let mut others = owners.iter().filter(|((n, o), _)| *n == node && *o != owner);
        others.find(|(_, other)| locks_on(&other.description).contains(held)).map(|(_, other)| other.pid)
    }

    /// Notes that `owner` is about to wait.
    ///
    /// # Errors
    /// EDEADLK: an owner that holds a part of the range waits for `owner`, directly or through
    /// others.
    pub(crate) fn wait(&self, owner: u64, awaited: Awaited) -> Result<()> {
        self.waits.begin(owner, awaited, |who, what| self.holders(who, what.node, &what.range))
    }

    /// Notes that the owner has the lock, or has given up.
    pub(crate) fn waited(&self, owner: u64, unique: u64) {
        self.waits.end(owner, unique);
    }

    /// Lists the other owners, all of them processes, whose locks conflict with this one.
    fn holders(&self, owner: u64, node: u64, wanted: &LockedRange) -> Vec<u64> {
        let owners = lock(&self.owners);
        let others = owners.iter().filter(|((n, o), other)| *n == node && *o != owner && !other.of_open_file);
        let keeps = |held: &LockedRange| held.conflicts(wanted);
        others.filter(|(_, other)| locks_on(&other.description).iter().any(keeps)).map(|((_, o), _)| *o).collect()
    }

    /// Gives the description that carries the locks of the owner of `set` on this node. `open`
    /// opens the file once more, for a new owner.
    pub(crate) fn owner_description(
        &self,
        node: u64,
        set: &LkIn,
        may_write: bool,
        open: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<Arc<OwnedFd>> {
        let mut owners = lock(&self.owners);
        let key = (node, set.owner);
        if let Some(owner) = owners.get_mut(&key).filter(|o| o.writable || !may_write) {
            if !owner.handles.contains(&set.fh) {
                owner.handles.push(set.fh);
            }
            return Ok(owner.description.clone());
        }
        let description = Arc::new(open()?);
        let owner = Owner {
            description: description.clone(),
            writable: may_write,
            pid: set.lk.pid,
            handles: vec![set.fh],
            of_open_file: set.lk_flags & LK_OF_OPEN_FILE != 0,
        };
        owners.insert(key, owner);
        Ok(description)
    }

    /// Gives the description that carries an open file's flock; `None` if there is none and the
    /// request only unlocks. `open` opens the file once more, for a new lock.
    pub(crate) fn flock_description(
        &self,
        node: u64,
        set: &LkIn,
        open: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<Option<Arc<OwnedFd>>> {
        let key = (set.fh, node);
        let mut flocks = lock(&self.flocks);
        if let Some(flock) = flocks.get_mut(&key) {
            // The kernel does not tell the process when a lock is removed.
            flock.pid = if set.lk.pid == 0 { flock.pid } else { set.lk.pid };
            return Ok(Some(flock.description.clone()));
        }
        if set.lk.kind as i32 == libc::F_UNLCK {
            return Ok(None);
        }
        let description = Arc::new(open()?);
        flocks.insert(key, Flock { description: description.clone(), pid: set.lk.pid });
        Ok(Some(description))
    }

    /// Gives the description that carries the lock of an open file of the room (flock(2),
    /// F_OFD_SETLK), for a process at home. The lock lasts until the file is closed in the room and
    /// by the caller.
    ///
    /// # Errors
    /// The open file has both kinds of locks.
    pub(crate) fn give(&self, node: u64, fh: u64) -> std::result::Result<Option<OwnedFd>, &'static str> {
        let flock = lock(&self.flocks).get(&(fh, node)).map(|flock| flock.description.clone());
        let flock = flock.filter(|description| !locks_on(description).is_empty());
        let owners = lock(&self.owners);
        let mut own = owners.values().filter(|owner| owner.of_open_file && owner.handles.contains(&fh));
        let records = own.find(|owner| !locks_on(&owner.description).is_empty()).map(|owner| &owner.description);
        let locked = match (&flock, records) {
            (None, None) => return Ok(None),
            (Some(description), None) | (None, Some(description)) => description,
            (Some(_), Some(_)) => return Err("has locked a file in two ways (flock and F_OFD_SETLK)"),
        };
        let found = locked.try_clone().map_err(|_| "has locked a file, and no more can be opened")?;
        lock(&self.given).insert(fh);
        Ok(Some(found))
    }

    /// Gives the locks of its own that a process of the room holds on files of home, except those
    /// of open files that a process at home has now. They are kept until [`Locks::forget`].
    ///
    /// # Errors
    /// A description of a lock that another process cannot take over.
    pub(crate) fn held(&self, pid: i32) -> std::result::Result<Vec<HeldLocks>, &'static str> {
        if self.holds_flock(pid) {
            return Err("has locked a file while it was away (flock), and has it no more");
        }
        let owners = lock(&self.owners);
        let mut held = Vec::new();
        for owner in owners.values().filter(|owner| owner.pid == pid as u32) {
            let locks = locks_on(&owner.description);
            if locks.is_empty() || (owner.of_open_file && owner.handles.iter().any(|fh| self.is_given(*fh))) {
                continue;
            }
            if owner.of_open_file {
                return Err("has locked a file while it was away (F_OFD_SETLK), and has it no more");
            }
            let Ok(stat) = rustix::fs::fstat(&*owner.description) else { return Err("has locked a file that is lost") };
            let (inode, device, description) = (stat.st_ino, stat.st_dev, owner.description.clone());
            held.push(HeldLocks { inode, device, ranges: locks, description });
        }
        Ok(held)
    }

    /// Tells whether a process of the room holds record locks of its own on the file with this
    /// inode number. They are released when the process closes any descriptor of the file.
    pub(crate) fn has_records(&self, pid: i32, inode: u64) -> bool {
        let owners = lock(&self.owners);
        let mut own = owners.values().filter(|owner| owner.pid == pid as u32 && !owner.of_open_file);
        own.any(|owner| {
            let is_it = rustix::fs::fstat(&*owner.description).map_or(true, |stat| stat.st_ino == inode);
            is_it && !locks_on(&owner.description).is_empty()
        })
    }

    /// Shows the locks that a process of the room has on the file of this number, as the kernel
    /// shows them of a process that has set them itself (proc_pid_fdinfo(5)).
    pub(crate) fn shown(&self, pid: i32, inode: u64) -> String {
        let is_it = |file: &OwnedFd| rustix::fs::fstat(file).is_ok_and(|stat| stat.st_ino == inode);
        let owners = lock(&self.owners);
        let own = owners.values().filter(|owner| owner.pid == pid as u32 && is_it(&owner.description));
        let records = own.flat_map(|owner| {
            let shown = if owner.of_open_file { ("OFDLCK", -1) } else { ("POSIX", pid) };
            lines_of_locks(&owner.description).into_iter().map(move |line| (line, shown))
        });
        let flocks = lock(&self.flocks);
        let own = flocks.values().filter(|flock| flock.pid == pid as u32 && is_it(&flock.description));
        let whole = own
            .flat_map(|flock| lines_of_locks(&flock.description).into_iter().map(move |line| (line, ("FLOCK", pid))));
        let all = records.chain(whole).filter_map(|(line, (kind, pid))| shown_line(&line, kind, pid));
        all.enumerate().map(|(number, line)| format!("lock:\t{}: {line}\n", number + 1)).collect()
    }

    /// Forgets the locks of a process: another process has them now.
    pub(crate) fn forget(&self, pid: i32) {
        lock(&self.owners).retain(|_, owner| owner.pid != pid as u32 || owner.of_open_file);
    }

    fn holds_flock(&self, pid: i32) -> bool {
        let flocks = lock(&self.flocks);
        let mut own = flocks.iter().filter(|((fh, _), flock)| flock.pid == pid as u32 && !self.is_given(*fh));
        own.any(|(_, flock)| !locks_on(&flock.description).is_empty())
    }
}
