//! Pairs of sockets (socketpair(2)) that were made in the room. Only sock_diag(7) tells which
//! sockets are connected, and an image cannot make a connected socket: so both ends become home's,
//! whichever processes have them.

use crate::state::shared::Shared;
use crate::supervisor::sharers::common_files::{CommonFileKind, CommonOpenFile, Commons, Found, Key};
use checkpoint::BodyError;
use os::pairs::{self, Told, Waiting};
use os::pidfd::PidFd;
use os::ptrace::HostTid;
use room_protocol::message::{CommonPair, PairEnd};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;

/// A descriptor of an end, and what it is there.
struct End {
    places: Found,
    file: OwnedFd,
    told: Told,
}

/// Adds the pair of which `key` is an end.
pub fn add(room: &Shared, found: &mut Commons, key: &Key, holders: impl Fn(&Key) -> Found) -> Result<(), BodyError> {
    let places = holders(key);
    let Some((first, _)) = places.first().copied() else { return Ok(()) };
    let stays = |what: &str| {
        BodyError::NotMigratable(format!("descriptor {} is a socket that was made there, {what}", first.fd))
    };
    let diagnosis = room.pairs.diagnosis(first.host)?;
    let end = |places: Found, inode| -> Result<Option<End>, BodyError> {
        let Some((place, _)) = places.first() else { return Ok(None) };
        let file = PidFd::open(place.host.0)?.get_fd(place.fd)?;
        Ok(Some(End { file, told: diagnosis.ask(inode)?, places }))
    };
    let Some(one) = end(places, key.1)? else { return Ok(()) };
    let other = match one.told.peer {
        Some(inode) => end(holders(&(key.0, inode)), inode)?
            .ok_or_else(|| stays("and its other end is on its way in a message"))?
            .into(),
        None => None,
    };
    let is_pair = other.as_ref().is_none_or(|other: &End| other.told.peer == Some(key.1));
    let kind = pairs::kind(one.file.as_fd())?;
    if !is_pair || !matches!(kind, libc::SOCK_STREAM | libc::SOCK_DGRAM | libc::SOCK_SEQPACKET) {
        return Err(stays("and none of a pair"));
    }
    let maker = pairs::maker(one.file.as_fd()).and_then(|host| Some(room.guests().who(HostTid(host))?.pid));
    let place = found.pairs.len();
    found.pairs.push(CommonPair { kind, maker, ends: [None, None] });
    let is_alone = other.is_none();
    for (n, end) in [Some(one), other].into_iter().enumerate() {
        let Some(end) = end else { continue };
        found.others.extend(end.places.iter().map(|(place, _)| place.pid));
        let told = describe(room, &end, PairShape { kind, is_alone }, found.bytes_left()).map_err(|e| match e {
            BodyError::NotMigratable(why) => stays(&format!("and {why}")),
            e => e,
        })?;
        let what = CommonFileKind::PairEnd(place, n == 1, pairs::has_time_limit(&told.options));
        let flags = end.places.first().map_or(0, |(_, info)| info.flags);
        let places = end.places.into_iter().map(|(place, _)| place).collect();
        found.files.push(CommonOpenFile { places, flags, what });
        found.pairs[place].ends[n] = Some(told);
    }
    Ok(())
}

/// The kind and the state that both ends of a pair have in common.
#[derive(Clone, Copy)]
struct PairShape {
    /// Type of the sockets (`SOCK_`).
    kind: i32,
    /// The other end is closed.
    is_alone: bool,
}

/// Describes an end of a pair, whose unread bytes may be so many.
fn describe(room: &Shared, end: &End, pair: PairShape, bytes_max: usize) -> Result<PairEnd, BodyError> {
    let stays = |what: &str| Err(BodyError::NotMigratable(what.into()));
    let (socket, shut) = (end.file.as_fd(), end.told.shut);
    if end.places.iter().any(|(_, info)| info.flags & libc::O_ASYNC != 0) {
        return stays("signals when it is ready (O_ASYNC)");
    }
    if pairs::is_filtered(socket) {
        return stays("has a filter (SO_ATTACH_FILTER)");
    }
    let reset = os::fds::ready(socket) & libc::POLLERR as u16 != 0;
    if reset && (!pair.is_alone || pair.kind != libc::SOCK_STREAM) {
        return stays("has an error that it has not been told of");
    }
    let inode = end.places.first().map_or(0, |(_, info)| info.inode);
    let mut with_empty = room.pairs.with_empty.lock().unwrap_or_else(PoisonError::into_inner);
    let content = match pairs::waiting(socket, pair.kind, shut, bytes_max)? {
        Waiting::Known(content) if content.is_empty() => {
            // What was seen there may have been received; or it is all there is.
            match with_empty.contains(&inode) && os::fds::ready(socket) & libc::POLLIN as u16 != 0 {
                true => return stays("holds an empty message"),
                false => with_empty.remove(&inode),
            };
            content
        }
        Waiting::Known(_) if with_empty.contains(&inode) => return stays("holds an empty message, as far as is known"),
        Waiting::Known(content) => content,
        Waiting::Odd(why) => return stays(why),
        Waiting::Empty => {
            with_empty.insert(inode);
            return stays("holds an empty message");
        }
    };
    Ok(PairEnd { options: pairs::options(socket), content, shut, reset })
}
