//! Locks that a process took while it was away, on files that it opened there: this home's server
//! holds them for it, and its deputy takes them over when it comes home. Those of an open file
//! (flock(2), F_OFD_SETLK) it gets with that: the server's is the open file then, not one that is
//! opened anew.

use crate::room::state::Room;
use checkpoint::{BodyError, Inside};
use homefs::server::LockedRange;
use homefs::server::{HeldLocks, Server};
use image::{File, Image, Opened};
use os::pidfd::PidFd;
use room_protocol::message::{LockedFile, OpenAtHome};
use rustix::fs::OFlags;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a reader may keep a lock that came between.
const READERS_WITHIN: Duration = Duration::from_secs(2);

/// All of one process.
#[derive(Default)]
pub struct Locks {
    /// Files, by their places in the image, with locks of their own.
    open: Vec<(u32, OwnedFd)>,
    held: Vec<HeldLocks>,
    server: Option<Arc<Server>>,
}

impl Locks {
    /// Of the process of this image. One that it holds for itself alone changes its owner only if
    /// it must (`must_come`): it is shared between two calls of the deputy then. Who wants it alone
    /// does not get it in between; who wants to share it may.
    pub fn of(room: &Room, image: &Image, locked: &[LockedFile], must_come: bool) -> Result<Locks, BodyError> {
        let Some(server) = room.link.files() else { return Ok(Locks::default()) };
        let pid = image.process.pid;
        let uid = room.table().deputies.get(&pid).map_or(u32::MAX, |deputy| deputy.credentials.uid[1]);
        let mut locks = Locks { server: Some(server.clone()), ..Locks::default() };
        for locked in locked {
            let shows = image.descriptors.iter().find(|d| d.fd == locked.fd).map(|d| d.opened);
            let Some(Opened::File { file, .. }) = shows else { continue };
            let Some(known) = image.files.get(file as usize).filter(|_| !locks.is_open(file)) else { continue };
            locks.open.extend(open_with_lock(server, locked.at_home, known, uid)?.map(|found| (file, found)));
        }
        let held = server.held_locks(image.process.pid).map_err(|why| BodyError::NotMigratable(format!("it {why}")))?;
        if !must_come && held.iter().any(HeldLocks::is_exclusive) {
            let why = "it has locked a file for itself alone while it was away, and such a lock cannot change its owner unseen";
            return Err(BodyError::NotMigratable(why.into()));
        }
        if held.iter().any(|held| !has_open(image, held)) {
            return Err(BodyError::NotMigratable("it has a file locked that it has not open for reading".into()));
        }
        Ok(Locks { held, ..locks })
    }

    /// Puts the open files that have locks of their own in the place of those that were opened anew
    /// in the stopped deputy.
    pub fn put_open(&self, pid: i32, inside: &mut Inside, opened: &mut [i32]) -> Result<(), BodyError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let pidfd = PidFd::open(pid)?;
        for (file, found) in &self.open {
            let Some(place) = opened.get_mut(*file as usize) else { continue };
            let given = checkpoint::give(inside, &pidfd, &[found.as_fd()])?;
            let anew = std::mem::replace(place, given.first().copied().unwrap_or(-1));
            inside.call(libc::SYS_close, [anew as u64, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// The image's file has a lock of its own.
    pub fn is_open(&self, file: u32) -> bool {
        self.open.iter().any(|(known, _)| *known == file)
    }

    /// They are the stopped deputy's from now on, which has all files of the image at their
    /// numbers. None of its descriptors may be closed after this: its locks of that file would go.
    pub fn take_along(self, inside: &mut Inside, image: &Image) -> Result<(), BodyError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let pid = image.process.pid;
        let mut upgrades = Vec::new();
        for held in &self.held {
            let fd = opened(pid, image, held)
                .ok_or_else(|| BodyError::NotMigratable("it has a file locked that it has not open".into()))?;
            held.let_readers_in().map_err(|e| os::Error::new("letting go of a lock", e))?;
            for range in &held.ranges {
                set(inside, fd, libc::F_RDLCK, range)?;
                upgrades.extend(range.exclusive.then_some((fd, *range)));
            }
        }
        // It would lock itself out.
        if let Some(server) = self.server {
            server.forget_locks(pid);
        }
        drop(self.held);
        let begun = Instant::now();
        upgrades.into_iter().try_for_each(|(fd, range)| {
            while let Err(e) = set(inside, fd, libc::F_WRLCK, &range) {
                if begun.elapsed() > READERS_WITHIN {
                    return Err(e);
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            Ok(())
        })
    }
}

/// What the server has open for an open file of the room's, of a process of user `uid`, as that is
/// open now; none if it has no lock of its own.
pub fn open_with_lock(
    server: &Server,
    at_home: OpenAtHome,
    file: &File,
    uid: u32,
) -> Result<Option<OwnedFd>, BodyError> {
    let found = server
        .open_with_lock(at_home.node, at_home.fh, uid)
        .map_err(|why| BodyError::NotMigratable(format!("it {why}")))?;
    let Some(found) = found else { return Ok(None) };
    let failed = |e: rustix::io::Errno| os::Error::new("looking at a locked file", e);
    let now = rustix::fs::fcntl_getfl(&found).map_err(failed)?;
    let wanted = OFlags::from_bits_retain(file.flags as u32);
    let inode = rustix::fs::fstat(&found).map_err(failed)?.st_ino;
    if (now ^ wanted).intersects(OFlags::ACCMODE) || ![0, inode].contains(&file.inode) {
        return Err(BodyError::NotMigratable(
            "it has locked a file, and home has another open, or in another way".into(),
        ));
    }
    rustix::fs::fcntl_setfl(&found, wanted).map_err(failed)?;
    Ok(Some(found))
}

fn reads(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_WRONLY
}

/// By one of its descriptors it can read that file.
fn has_open(image: &Image, held: &HeldLocks) -> bool {
    image.descriptors.iter().any(|descriptor| match descriptor.opened {
        Opened::File { file, .. } => {
            image.files.get(file as usize).is_some_and(|f| f.inode == held.inode && reads(f.flags))
        }
        _ => false,
    })
}

/// Finds the descriptor of a held lock.
fn opened(pid: i32, image: &Image, held: &HeldLocks) -> Option<i32> {
    let files = image.descriptors.iter().filter(|d| matches!(d.opened, Opened::File { .. })).map(|d| d.fd);
    files.into_iter().find(|fd| {
        let found = std::fs::metadata(format!("/proc/{pid}/fd/{fd}"));
        os::process::fd_info(pid, *fd).is_ok_and(|info| reads(info.flags))
            && found.is_ok_and(|m| (m.ino(), m.dev()) == (held.inode, held.device))
    })
}

/// Sets a lock as the process would: `struct flock` (fcntl(2)) holds type and whence, start,
/// length, process.
fn set(inside: &mut Inside, fd: i32, kind: i32, range: &LockedRange) -> Result<(), BodyError> {
    let words = [kind as u64 | (libc::SEEK_SET as u64) << 16, range.start as u64, range.bytes as u64, 0];
    let mut batch = inside.batch();
    let lock = batch.put(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
    batch.must("taking a lock along", libc::SYS_fcntl, [fd as u64, libc::F_SETLK as u64, lock, 0, 0, 0]);
    Ok(inside.run(&batch).map(drop)?)
}
