//! File locks. A POSIX lock belongs to a process: each owner in the room gets an open file
//! description of its own at home. Its locks (F_OFD_*) conflict with all others, at home and in
//! other rooms. A flock belongs to the open file, at home as in the room.

use super::deadlocks::Awaited;
use super::dispatch::{Answer, Call, Outcome, Refused};
use super::handles::{Kind, Open};
use super::nodes::reopen;
use super::{Server, lock, proc_path, sys};
use crate::proto::{FileLock, LK_FLOCK, LK_OF_OPEN_FILE, LkIn, LkOut, ReplyBuf};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

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

/// A locked range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedRange {
    /// Whether the lock is exclusive.
    pub exclusive: bool,
    /// First byte of the range.
    pub start: i64,
    /// Number of bytes; 0 means to the end of the file.
    pub bytes: i64,
}

impl LockedRange {
    fn of(lock: &libc::flock) -> LockedRange {
        LockedRange { exclusive: lock.l_type == libc::F_WRLCK as i16, start: lock.l_start, bytes: lock.l_len }
    }

    /// Gives the last byte of the range.
    fn last(&self) -> i64 {
        if self.bytes == 0 { i64::MAX } else { self.start.saturating_add(self.bytes - 1) }
    }

    /// Tells whether two owners cannot hold both locks.
    fn conflicts(&self, other: &LockedRange) -> bool {
        (self.exclusive || other.exclusive) && self.start <= other.last() && other.start <= self.last()
    }
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

/// Reads the locks of an open file description from the kernel (proc_pid_fdinfo(5)).
fn locks_on(file: &OwnedFd) -> Vec<LockedRange> {
    lines_of_locks(file).iter().map(|line| lock_of_line(line)).collect()
}

fn lines_of_locks(file: &OwnedFd) -> Vec<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).unwrap_or_default();
    info.lines().filter(|line| line.starts_with("lock:")).map(str::to_owned).collect()
}

/// Rewrites a line of a lock, behind its number, as that of a lock of this kind that `pid` has set.
fn shown_line(line: &str, kind: &str, pid: i32) -> Option<String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, _, _, advisory, mode, _, file, start, end] = words.as_slice() else { return None };
    Some(format!("{kind:<6} {advisory:<9} {mode} {pid} {file} {start} {end}"))
}

/// Parses `lock: 1: OFDLCK ADVISORY READ -1 fe:01:1234 128 128`. A malformed line counts as a lock
/// of the whole file.
fn lock_of_line(line: &str) -> LockedRange {
    const ALL: LockedRange = LockedRange { exclusive: true, start: 0, bytes: 0 };
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [.., kind, _, _, start, end] = words.as_slice() else { return ALL };
    let start: Option<i64> = start.parse().ok();
    let bytes = match *end {
        "EOF" => Some(0),
        end => end.parse::<i64>().ok().zip(start).map(|(end, start)| end - start + 1),
    };
    match (start, bytes) {
        (Some(start), Some(bytes)) => LockedRange { exclusive: *kind != "READ", start, bytes },
        _ => ALL,
    }
}

/// The lock owners of a room.
#[derive(Default)]
pub(super) struct Locks {
    owners: Mutex<HashMap<(u64, u64), Owner>>,
    /// Open files with a flock, by handle and node.
    flocks: Mutex<HashMap<(u64, u64), Flock>>,
    /// Handles of open files that a process at home has now, too, with their locks.
    given: Mutex<HashSet<u64>>,
    /// The owners that wait for a record lock.
    pub(super) waiting: Mutex<HashMap<u64, Awaited>>,
}

impl Locks {
    /// Removes the locks of an owner, because its process closed a descriptor of the file.
    pub(super) fn release_owner(&self, node: u64, owner: u64) {
        lock(&self.owners).remove(&(node, owner));
    }

    /// Removes the locks of a closed open file: its own, and those of processes, in case the room
    /// does not report single closes.
    pub(super) fn release_handle(&self, node: u64, fh: u64) {
        self.release_flock(fh, node);
        lock(&self.owners).retain(|(n, _), owner| *n != node || !owner.handles.contains(&fh));
    }

    /// Tells whether a lock was set through this open file.
    pub(super) fn is_locked_through(&self, fh: u64) -> bool {
        lock(&self.owners).values().any(|owner| owner.handles.contains(&fh))
    }

    pub(super) fn is_given(&self, fh: u64) -> bool {
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

    fn find(&self, node: u64, owner: u64) -> Option<Arc<OwnedFd>> {
        lock(&self.owners).get(&(node, owner)).map(|o| o.description.clone())
    }

    /// Finds the process of the other owner that has this lock. The kernel does not tell whose the
    /// lock of an open file description is.
    fn pid_of(&self, node: u64, owner: u64, held: &LockedRange) -> Option<u32> {
        let owners = lock(&self.owners);
        let mut others = owners.iter().filter(|((n, o), _)| *n == node && *o != owner);
        others.find(|(_, other)| locks_on(&other.description).contains(held)).map(|(_, other)| other.pid)
    }

    /// Lists the other owners, all of them processes, whose locks conflict with this one.
    pub(super) fn holders(&self, owner: u64, node: u64, wanted: &LockedRange) -> Vec<u64> {
        let owners = lock(&self.owners);
        let others = owners.iter().filter(|((n, o), other)| *n == node && *o != owner && !other.of_open_file);
        let keeps = |held: &LockedRange| held.conflicts(wanted);
        others.filter(|(_, other)| locks_on(&other.description).iter().any(keeps)).map(|((_, o), _)| *o).collect()
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
            _ => self.locks.pid_of(call.node.id, get.owner, &LockedRange::of(&range)).unwrap_or_default(),
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
            let Some(description) = self.flock_description(call, &set, &open)? else { return Ok(Answer::Plain) };
            return self.flock(call, description, set.lk.kind as i32, waits);
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

    /// Gives the description that carries this owner's locks on this node.
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
        let description = Arc::new(self.open_for_locks(open)?);
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

    /// Gives the description that carries an open file's flock; `None` if there is none and the
    /// request only unlocks.
    fn flock_description(&self, call: &Call<'_>, set: &LkIn, open: &Open) -> Result<Option<Arc<OwnedFd>>> {
        let key = (set.fh, call.node.id);
        let mut flocks = lock(&self.locks.flocks);
        if let Some(flock) = flocks.get_mut(&key) {
            // The kernel does not tell the process when a lock is removed.
            flock.pid = if set.lk.pid == 0 { flock.pid } else { set.lk.pid };
            return Ok(Some(flock.description.clone()));
        }
        if set.lk.kind as i32 == libc::F_UNLCK {
            return Ok(None);
        }
        let description = Arc::new(self.open_for_locks(open)?);
        flocks.insert(key, Flock { description: description.clone(), pid: set.lk.pid });
        Ok(Some(description))
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
        let flock = lock(&self.locks.flocks).get(&(fh, node)).map(|flock| flock.description.clone());
        let flock = flock.filter(|description| !locks_on(description).is_empty());
        let owners = lock(&self.locks.owners);
        let mut own = owners.values().filter(|owner| owner.of_open_file && owner.handles.contains(&fh));
        let records = own.find(|owner| !locks_on(&owner.description).is_empty()).map(|owner| &owner.description);
        let locked = match (&flock, records) {
            (None, None) => return Ok(None),
            (Some(description), None) | (None, Some(description)) => description,
            (Some(_), Some(_)) => return Err("has locked a file in two ways (flock and F_OFD_SETLK)"),
        };
        let found = locked.try_clone().map_err(|_| "has locked a file, and no more can be opened")?;
        lock(&self.locks.given).insert(fh);
        Ok(Some(found))
    }

    /// Gives the locks of its own that a process of the room holds on files of home, except those
    /// of open files that a process at home has now. They are kept until [`Server::forget_locks`].
    ///
    /// # Errors
    /// A description of a lock that another process cannot take over.
    pub fn held_locks(&self, pid: i32) -> std::result::Result<Vec<HeldLocks>, &'static str> {
        if self.holds_flock(pid) {
            return Err("has locked a file while it was away (flock), and has it no more");
        }
        let owners = lock(&self.locks.owners);
        let mut held = Vec::new();
        for owner in owners.values().filter(|owner| owner.pid == pid as u32) {
            let locks = locks_on(&owner.description);
            if locks.is_empty() || (owner.of_open_file && owner.handles.iter().any(|fh| self.locks.is_given(*fh))) {
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
    pub fn has_record_locks(&self, pid: i32, inode: u64) -> bool {
        let owners = lock(&self.locks.owners);
        let mut own = owners.values().filter(|owner| owner.pid == pid as u32 && !owner.of_open_file);
        own.any(|owner| {
            let is_it = rustix::fs::fstat(&*owner.description).map_or(true, |stat| stat.st_ino == inode);
            is_it && !locks_on(&owner.description).is_empty()
        })
    }

    /// Shows the locks that a process of the room has on the file of this number, as the kernel
    /// shows them of a process that has set them itself (proc_pid_fdinfo(5)).
    pub fn shown_locks(&self, pid: i32, inode: u64) -> String {
        let is_it = |file: &OwnedFd| rustix::fs::fstat(file).is_ok_and(|stat| stat.st_ino == inode);
        let owners = lock(&self.locks.owners);
        let own = owners.values().filter(|owner| owner.pid == pid as u32 && is_it(&owner.description));
        let records = own.flat_map(|owner| {
            let shown = if owner.of_open_file { ("OFDLCK", -1) } else { ("POSIX", pid) };
            lines_of_locks(&owner.description).into_iter().map(move |line| (line, shown))
        });
        let flocks = lock(&self.locks.flocks);
        let own = flocks.values().filter(|flock| flock.pid == pid as u32 && is_it(&flock.description));
        let whole = own
            .flat_map(|flock| lines_of_locks(&flock.description).into_iter().map(move |line| (line, ("FLOCK", pid))));
        let all = records.chain(whole).filter_map(|(line, (kind, pid))| shown_line(&line, kind, pid));
        all.enumerate().map(|(number, line)| format!("lock:\t{}: {line}\n", number + 1)).collect()
    }

    /// Forgets the locks of a process: another process has them now.
    pub fn forget_locks(&self, pid: i32) {
        lock(&self.locks.owners).retain(|_, owner| owner.pid != pid as u32 || owner.of_open_file);
    }

    fn holds_flock(&self, pid: i32) -> bool {
        let flocks = lock(&self.locks.flocks);
        let mut own = flocks.iter().filter(|((fh, _), flock)| flock.pid == pid as u32 && !self.locks.is_given(*fh));
        own.any(|(_, flock)| !locks_on(&flock.description).is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_read_as_the_kernel_shows_them() {
        let range = |exclusive, start, bytes| LockedRange { exclusive, start, bytes };
        let shown = [
            ("lock:\t1: OFDLCK ADVISORY  READ -1 fe:01:1234 128 128", range(false, 128, 1)),
            ("lock:\t2: OFDLCK ADVISORY  WRITE -1 fe:01:1234 1073741826 1073742335", range(true, 1_073_741_826, 510)),
            ("lock:\t3: OFDLCK ADVISORY  WRITE -1 fe:01:1234 0 EOF", range(true, 0, 0)),
            ("lock:\tnonsense", range(true, 0, 0)),
        ];
        for (line, expected) in shown {
            assert_eq!(lock_of_line(line), expected, "{line}");
        }
    }

    #[test]
    fn a_lock_is_shown_as_its_owners() {
        let line = "lock:\t2: OFDLCK ADVISORY  WRITE -1 fe:01:1234 3 7";
        let posix = "POSIX  ADVISORY  WRITE 50 fe:01:1234 3 7";
        assert_eq!(shown_line(line, "POSIX", 50).as_deref(), Some(posix));
        assert_eq!(shown_line("lock:\tnonsense", "POSIX", 50), None);
    }
}
