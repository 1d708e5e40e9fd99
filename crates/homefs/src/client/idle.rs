//! Read-only files that the room has closed and that home still has open. A file opened again
//! within a short time needs no round trip. The code is pure; time is an argument.
//!
//! To home, an idle file is one that the room keeps open: its lease stays. When the lease is
//! broken, or the file's attributes change (its last name may be gone), the room closes the file at
//! home. Only files whose content the room may cache are kept. The room's kernel has checked the
//! permissions of the opening process (`default_permissions`); still, each idle file is only used
//! for the user and group that opened it.

use crate::proto::{FMODE_EXEC, InHeader, Opcode, OpenIn, ReleaseIn, Request};
use rustix::fs::OFlags;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// The time for which a closed file stays open at home. It is short, because the file keeps a file
/// system of home busy (umount(2)).
pub(super) const KEPT: Duration = Duration::from_secs(2);
/// The most idle files. A compilation reads about a hundred headers.
const MOST_IDLE: usize = 256;
/// `unique` of requests that the kernel does not know. The kernel's own numbers are even, and that
/// of an interrupt is odd: one more than that of its request, which is at least 2.
const OWN_UNIQUE: u64 = 1;

/// An open: the user, the group, and the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    mount: u16,
    node: u64,
    uid: u32,
    gid: u32,
    /// Whether the file is opened to be executed. Home decides whether the room may.
    executes: bool,
}

impl Opening {
    /// Gives the open of this request, if an idle file may answer it.
    pub(super) fn of(mount: u16, request: &Request<'_>) -> Option<Opening> {
        let open = (request.opcode == Some(Opcode::Open)).then(|| request.args().take::<OpenIn>().ok())??;
        let flags = OFlags::from_bits_retain(open.flags);
        let special = OFlags::ACCMODE | OFlags::TRUNC | OFlags::DIRECT;
        let InHeader { nodeid: node, uid, gid, .. } = request.header;
        let executes = open.flags & FMODE_EXEC != 0;
        (flags & special == OFlags::RDONLY).then_some(Opening { mount, node, uid, gid, executes })
    }
}

struct Idle {
    opening: Opening,
    fh: u64,
    since: Instant,
}

/// The room's read-only files: those that are open, and those that only home has open, the latest
/// closed last.
#[derive(Default)]
pub(super) struct Files {
    open: HashMap<(u16, u64), Opening>,
    idle: VecDeque<Idle>,
}

/// A file that home must close.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) mount: u16,
    node: u64,
    fh: u64,
}

impl Release {
    fn of(idle: &Idle) -> Release {
        Release { mount: idle.opening.mount, node: idle.opening.node, fh: idle.fh }
    }

    /// Builds the request that closes the file at home. Nobody waits for its reply.
    pub(super) fn request(&self) -> Vec<u8> {
        let body = ReleaseIn { fh: self.fh, ..Default::default() };
        let len = (size_of::<InHeader>() + size_of::<ReleaseIn>()) as u32;
        let opcode = Opcode::Release as u32;
        let header = InHeader { len, opcode, unique: OWN_UNIQUE, nodeid: self.node, ..Default::default() };
        [header.as_bytes(), body.as_bytes()].concat()
    }
}

impl Files {
    /// Notes that home has opened the file.
    pub(super) fn opened(&mut self, opening: Opening, fh: u64) {
        self.open.insert((opening.mount, fh), opening);
    }

    /// Takes an idle file for this open.
    pub(super) fn take(&mut self, opening: Opening) -> Option<u64> {
        let at = self.idle.iter().rposition(|idle| idle.opening == opening)?;
        let fh = self.idle.remove(at)?.fh;
        self.opened(opening, fh);
        Some(fh)
    }

    /// Notes that the room has closed the file. `Ok` if the file is idle from now on, with the file
    /// that must go to make room for it, if any.
    pub(super) fn closed(&mut self, mount: u16, fh: u64, now: Instant) -> Result<Option<Release>, Unknown> {
        let opening = self.open.remove(&(mount, fh)).ok_or(Unknown)?;
        self.idle.push_back(Idle { opening, fh, since: now });
        let surplus = self.idle.len() > MOST_IDLE;
        Ok(surplus.then(|| self.idle.pop_front()).flatten().map(|idle| Release::of(&idle)))
    }

    /// Notes that more than reading depends on this open (a lock), so home must learn when it is
    /// closed.
    pub(super) fn hold(&mut self, mount: u16, fh: u64) {
        self.open.remove(&(mount, fh));
    }

    /// Forgets a file that has changed, or that the room's kernel has forgotten. Gives the idle
    /// opens to close now; the others are closed when the room closes them.
    pub(super) fn forget(&mut self, mount: u16, node: u64) -> Vec<Release> {
        let concerned = |opening: &Opening| opening.mount == mount && opening.node == node;
        self.open.retain(|_, opening| !concerned(opening));
        let (gone, kept): (VecDeque<Idle>, _) =
            std::mem::take(&mut self.idle).into_iter().partition(|idle| concerned(&idle.opening));
        self.idle = kept;
        gone.iter().map(Release::of).collect()
    }

    /// Gives the files that have been idle for [`KEPT`].
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Release> {
        let count = self.idle.iter().take_while(|idle| now.saturating_duration_since(idle.since) >= KEPT).count();
        self.idle.drain(..count).map(|idle| Release::of(&idle)).collect()
    }

    /// Gives the time at which the next idle file expires.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.idle.front().map(|idle| idle.since + KEPT)
    }
}

/// The error for a file that cannot become idle.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Opening = Opening { mount: 1, node: 7, uid: 0, gid: 0, executes: false };

    fn opened_and_closed(files: &mut Files, opening: Opening, fh: u64, now: Instant) {
        files.opened(opening, fh);
        assert!(files.closed(opening.mount, fh, now).is_ok());
    }

    #[test]
    fn a_closed_file_serves_the_next_open_of_the_same_user() {
        let (mut files, now) = (Files::default(), Instant::now());
        opened_and_closed(&mut files, FILE, 3, now);
        assert_eq!(files.take(Opening { uid: 1, ..FILE }), None);
        assert_eq!(files.take(Opening { mount: 0, ..FILE }), None);
        assert_eq!(files.take(Opening { executes: true, ..FILE }), None);
        assert_eq!(files.take(FILE), Some(3));
        assert_eq!(files.take(FILE), None, "it is open");
        assert_eq!(files.closed(1, 3, now), Ok(None));
        assert_eq!(files.take(FILE), Some(3));
    }

    #[test]
    fn changed_or_locked_files_are_closed_at_home() {
        let (mut files, now) = (Files::default(), Instant::now());
        opened_and_closed(&mut files, FILE, 3, now);
        files.opened(FILE, 4);
        assert_eq!(files.forget(1, 8), []);
        assert_eq!(files.forget(1, 7), [Release { mount: 1, node: 7, fh: 3 }]);
        assert_eq!(files.closed(1, 4, now), Err(Unknown), "opened before the change");
        files.opened(FILE, 5);
        files.hold(1, 5);
        assert_eq!(files.closed(1, 5, now), Err(Unknown));
        assert_eq!(files.next_expiry(), None);
    }

    #[test]
    fn old_and_surplus_files_go_the_oldest_first() {
        let (mut files, now) = (Files::default(), Instant::now());
        for fh in 0..MOST_IDLE as u64 {
            opened_and_closed(&mut files, FILE, fh, now + Duration::from_millis(fh));
        }
        files.opened(FILE, 1000);
        assert_eq!(files.closed(1, 1000, now + KEPT), Ok(Some(Release { mount: 1, node: 7, fh: 0 })));
        assert_eq!(files.next_expiry(), Some(now + Duration::from_millis(1) + KEPT));
        assert_eq!(files.expired(now + KEPT + Duration::from_millis(2)).len(), 2);
    }

    #[test]
    fn a_release_is_a_proper_request() {
        let bytes = Release { mount: 1, node: 7, fh: 3 }.request();
        let request = Request::parse(&bytes).unwrap();
        assert_eq!((request.opcode, request.header.nodeid), (Some(Opcode::Release), 7));
        assert_eq!(request.args().take::<ReleaseIn>().unwrap().fh, 3);
    }
}
