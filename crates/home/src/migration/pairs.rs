//! Pairs of sockets that were made in a room, and become home's: made anew here, set to and holding
//! the same.

use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use crate::room::state::Room;
use checkpoint::{BodyError, Inside};
use os::pairs;
use os::pidfd::PidFd;
use room_protocol::message::{CommonPair, PairEnd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Both ends of a pair.
pub type Pair = [OwnedFd; 2];

impl MigrationSession {
    /// The deputy of whoever made the pair makes it, so that both ends say so (SO_PEERCRED); if
    /// that has ended, the one of the process that leaves.
    pub fn make_pair(&self, pair: &CommonPair) -> Result<Pair, MoveError> {
        let CommonPair { kind, maker, ends } = pair;
        if !matches!(*kind, libc::SOCK_STREAM | libc::SOCK_DGRAM | libc::SOCK_SEQPACKET) {
            return Err(MoveError::Room(format!("there are no sockets of kind {kind}")));
        }
        if ends.iter().flatten().any(|end| end.content.len() > pairs::MESSAGES_MAX) {
            return Err(MoveError::Room("more messages wait in a socket than it may tell".into()));
        }
        let by = maker.filter(|pid| self.is_away(*pid)).unwrap_or(self.pid);
        let made = make(&self.room, by, *kind)?;
        let [first, second] = made.each_ref().map(AsFd::as_fd);
        for (end, other, told) in [(first, second, &ends[0]), (second, first, &ends[1])] {
            told.as_ref().map_or(Ok(()), |told| fill(end, other, told))?;
        }
        for (end, told) in [first, second].into_iter().zip(ends) {
            told.as_ref().map_or(Ok(()), |told| pairs::shut(end, told.shut))?;
        }
        Ok(made)
    }
}

fn make(room: &Room, by: i32, kind: i32) -> Result<Pair, BodyError> {
    let pidfd = PidFd::open(by)?;
    room.visit_deputy(by, |inside| {
        let kind = (kind | libc::SOCK_CLOEXEC) as u64;
        let made = |at| (libc::SYS_socketpair, [libc::AF_UNIX as u64, kind, 0, at, 0, 0]);
        make_two(inside, &pidfd, "making a pair of sockets", made)
    })
}

/// Options last: with some each message tells who has sent it.
fn fill(end: BorrowedFd<'_>, other: BorrowedFd<'_>, told: &PairEnd) -> Result<(), BodyError> {
    pairs::deliver(other, &told.content)?;
    if told.reset {
        // The other end is closed with this unread.
        pairs::deliver(end, &[vec![0]])?;
    }
    Ok(pairs::set_options(end, &told.options)?)
}

/// Has the deputy make two descriptors by a call that puts their numbers where it is told. Only
/// this process keeps them.
pub fn make_two(
    inside: &mut Inside,
    pidfd: &PidFd,
    doing: &'static str,
    call: impl FnOnce(u64) -> (i64, [u64; 6]),
) -> Result<[OwnedFd; 2], BodyError> {
    let mut batch = inside.batch();
    let at = batch.space(8);
    let (nr, args) = call(at);
    batch.must(doing, nr, args);
    inside.run(&batch)?;
    let both = inside.memory().word(at)?;
    let numbers = [both as i32, (both >> 32) as i32];
    let ends = pidfd.get_fd(numbers[0]).and_then(|first| Ok([first, pidfd.get_fd(numbers[1])?]));
    let mut batch = inside.batch();
    for fd in numbers {
        batch.may(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
    }
    inside.run(&batch)?;
    Ok(ends?)
}
