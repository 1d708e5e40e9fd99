//! Writes of which a guest hears before home has made them. The code is pure.
//!
//! # Why no guest and no process at home can tell
//!
//! - **Order.** A write that is behind goes home in its place among all that the room sends. Home
//!   makes the write before it takes the next message. So whatever the room says later (a call, a
//!   signal, bytes of a stream, an exit, a request for another file), home has the write by then.
//!   Bytes that go straight to another room wait for home as they do for all that the room learnt
//!   (`room::state::fences`). A process that has heard of the write by any way finds the write.
//! - **Errors.** Home allows writes behind (`fopen::BEHIND`) only for regular files of file
//!   systems on which a write fails for lack of space alone, and where much space is free. If a
//!   write fails all the same, the open file's next write, flush or fsync fails with that error, as
//!   close(2) describes it for a network file system. Home makes no write behind the failed one.
//! - **fsync(2)** is a request like any other. Home makes it after all writes before it.
//! - **A node that dies** leaves home with the beginning of what the program did, in its order.

use crate::proto::{FlushIn, Opcode, Request, WRITE_CACHE, WriteIn};
use std::collections::HashMap;

/// The most bytes that may be behind at one time. The kernel's largest write is 1 MiB.
const MOST_BYTES: usize = 4 << 20;

/// The open files of which home allows writes behind, and what is under way.
#[derive(Debug, Default)]
pub(super) struct Behind {
    files: HashMap<(u16, u64), File>,
    bytes: usize,
    under_way: usize,
    /// Mounts on which too little space is free.
    scarce: Vec<u16>,
}

#[derive(Debug, Default)]
struct File {
    /// The error of a write, until the guest has heard of it.
    failed: Option<i32>,
    /// The guest has heard of an error: it waits for its next write, by which home knows that.
    has_heard: bool,
}

/// A request that is answered before home has served it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    mount: u16,
    fh: u64,
    bytes: u32,
    pub(super) reply: Promised,
}

/// The answer that the guest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promised {
    /// All bytes of a write are written.
    Written(u32),
    /// A descriptor is closed.
    Flushed,
}

/// How to go on with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Home answers the guest.
    Ask,
    /// The guest is answered now, and home serves the request later.
    Promise(Promise),
    /// An earlier write failed: the guest hears of that, and home serves the request all the same
    /// if it closes the file.
    Fail(i32),
}

impl Behind {
    /// Notes that home has opened a file and allows writes behind.
    pub(super) fn opened(&mut self, mount: u16, fh: u64) {
        self.files.insert((mount, fh), File::default());
    }

    /// Notes that the room has closed a file.
    pub(super) fn closed(&mut self, mount: u16, fh: u64) {
        self.files.remove(&(mount, fh));
    }

    /// Decides about a request.
    pub(super) fn course(&mut self, mount: u16, request: &Request<'_>) -> Course {
        let (fh, bytes, reply) = match request.opcode {
            Some(Opcode::Write) => match request.args().take::<WriteIn>() {
                // The kernel writes back pages of a mapping: no guest waits.
                Ok(write) if write.write_flags & WRITE_CACHE == 0 => {
                    (write.fh, write.size, Promised::Written(write.size))
                }
                _ => return Course::Ask,
            },
            Some(Opcode::Flush) => match request.args().take::<FlushIn>() {
                Ok(flush) => (flush.fh, 0, Promised::Flushed),
                Err(_) => return Course::Ask,
            },
            _ => return Course::Ask,
        };
        let Some(file) = self.files.get_mut(&(mount, fh)) else { return Course::Ask };
        if let Some(errno) = file.failed.take() {
            file.has_heard = true;
            return Course::Fail(errno);
        }
        if matches!(reply, Promised::Written(_)) && std::mem::take(&mut file.has_heard) {
            return Course::Ask;
        }
        let fits = bytes == 0 || self.bytes + bytes as usize <= MOST_BYTES;
        if !fits || self.scarce.contains(&mount) {
            return Course::Ask;
        }
        self.bytes += bytes as usize;
        self.under_way += 1;
        Course::Promise(Promise { mount, fh, bytes, reply })
    }

    /// Notes how home has served what was promised: the error, if there was one. A file that is
    /// closed by now loses the error, as a local file does whose pages cannot be written back.
    pub(super) fn settled(&mut self, promise: Promise, error: Option<i32>) {
        self.bytes = self.bytes.saturating_sub(promise.bytes as usize);
        self.under_way = self.under_way.saturating_sub(1);
        if let (Some(errno), Some(file)) = (error, self.files.get_mut(&(promise.mount, promise.fh))) {
            file.failed.get_or_insert(errno);
        }
    }

    /// Gives the error of an earlier write of this file, which the guest hears of now.
    pub(super) fn take_failure(&mut self, mount: u16, fh: u64) -> Option<i32> {
        let file = self.files.get_mut(&(mount, fh))?;
        let errno = file.failed.take()?;
        file.has_heard = true;
        Some(errno)
    }

    /// Notes whether much space is free on a mount.
    pub(super) fn space(&mut self, mount: u16, is_scarce: bool) {
        self.scarce.retain(|one| *one != mount);
        if is_scarce {
            self.scarce.push(mount);
        }
    }

    /// Gives up all that was promised: home is gone.
    pub(super) fn give_up(&mut self) {
        (self.bytes, self.under_way) = (0, 0);
    }

    /// Tells whether home has served all that was promised.
    pub(super) fn is_settled(&self) -> bool {
        self.under_way == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{IN_HEADER_BYTES, InHeader};
    use zerocopy::IntoBytes;

    fn request(opcode: Opcode, body: &[u8]) -> Vec<u8> {
        let len = (IN_HEADER_BYTES + body.len()) as u32;
        let header = InHeader { len, opcode: opcode as u32, unique: 8, nodeid: 7, ..Default::default() };
        [header.as_bytes(), body].concat()
    }

    fn write(fh: u64, size: u32, write_flags: u32) -> Vec<u8> {
        request(Opcode::Write, WriteIn { fh, size, write_flags, ..Default::default() }.as_bytes())
    }

    fn course(behind: &mut Behind, bytes: &[u8]) -> Course {
        behind.course(1, &Request::parse(bytes).unwrap())
    }

    fn promised(behind: &mut Behind, bytes: &[u8]) -> Promise {
        match course(behind, bytes) {
            Course::Promise(promise) => promise,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_files_that_home_named_are_written_behind() {
        let mut behind = Behind::default();
        assert_eq!(course(&mut behind, &write(3, 10, 0)), Course::Ask);
        behind.opened(1, 3);
        assert_eq!(course(&mut behind, &write(3, 10, WRITE_CACHE)), Course::Ask, "a mapping");
        assert_eq!(course(&mut behind, &write(4, 10, 0)), Course::Ask);
        assert_eq!(promised(&mut behind, &write(3, 10, 0)).reply, Promised::Written(10));
        behind.closed(1, 3);
        assert_eq!(course(&mut behind, &write(3, 10, 0)), Course::Ask);
    }

    #[test]
    fn no_more_is_behind_than_the_window_holds() {
        let mut behind = Behind::default();
        behind.opened(1, 3);
        let first = promised(&mut behind, &write(3, MOST_BYTES as u32, 0));
        assert_eq!(course(&mut behind, &write(3, 1, 0)), Course::Ask);
        assert!(!behind.is_settled());
        behind.settled(first, None);
        assert!(behind.is_settled());
        promised(&mut behind, &write(3, 1, 0));
    }

    #[test]
    fn an_error_is_told_once_by_the_next_call() {
        let mut behind = Behind::default();
        behind.opened(1, 3);
        let flush = request(Opcode::Flush, FlushIn { fh: 3, ..Default::default() }.as_bytes());
        let one = promised(&mut behind, &write(3, 10, 0));
        let two = promised(&mut behind, &write(3, 10, 0));
        behind.settled(one, Some(libc::ENOSPC));
        behind.settled(two, Some(libc::EIO));
        assert_eq!(course(&mut behind, &flush), Course::Fail(libc::ENOSPC));
        assert_eq!(promised(&mut behind, &flush).reply, Promised::Flushed);
        assert_eq!(course(&mut behind, &write(3, 10, 0)), Course::Ask, "home learns that the guest knows");
        let one = promised(&mut behind, &write(3, 10, 0));
        behind.settled(one, Some(libc::EDQUOT));
        assert_eq!(behind.take_failure(1, 3), Some(libc::EDQUOT));
        assert_eq!(behind.take_failure(1, 3), None);
    }

    #[test]
    fn nothing_is_promised_where_space_is_scarce() {
        let mut behind = Behind::default();
        behind.opened(1, 3);
        behind.space(1, true);
        assert_eq!(course(&mut behind, &write(3, 10, 0)), Course::Ask);
        behind.space(1, false);
        promised(&mut behind, &write(3, 10, 0));
    }
}
