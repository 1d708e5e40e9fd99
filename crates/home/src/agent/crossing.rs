//! Streams whose two ends are in different rooms of this home: their bytes go from room to room,
//! and home is out of the path.
//!
//! Each room has a steward of its own, and the two stewards agree, over a socket of theirs
//! ([`crate::room::crossing_talk`]). Of each pair of rooms the one with the lower number drives
//! ([`drive`]), and the other one follows ([`follow`]).
//!
//! 1. The driver has a way made between the rooms, if there is none yet ([`crate::room::ways`]).
//! 2. Both rooms are held until nothing of either stream is at home. The driver looks at its own
//!    stream before and after the other steward has looked at that one's: what left the first may
//!    have been on its way to the second.
//! 3. The second room crosses over first ([`Frame::Await`], [`Frame::Crossed`]), then the first one
//!    ([`Frame::Across`]), which tells the second one by the way that it may send.
//! 4. When a room sends home again, for whatever reason, its steward tells the other one, which has
//!    its room do the same. Each home end goes on when both have said what they know
//!    ([`HomeEnd::peer_parted`]). After a pause the driver tries again.

use crate::room::crossing_talk::{CrossWord, FoundStream, Talk};
use crate::room::joins::ConnectionNames;
use crate::room::state::Room;
use crate::room::streams::SoughtStream;
use control_protocol::paths;
use control_protocol::steward::{StreamSought, ToSteward};
use os::socket;
use relay::{Frame, Part, StreamId};
use room_protocol::ToRoom;
use room_protocol::message::onward::{Lane, WayOrder};
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long two streams are held at most.
const HOLD_MAX: Duration = Duration::from_millis(60);
/// How long two streams go on before they are held again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the other end of a stream is sought.
const SEEKS_MAX: u32 = 5;
/// How often two held streams are looked at.
const LOOK: Duration = Duration::from_millis(1);
/// How long a room may take to cross over.
const CROSSED_WITHIN: Duration = Duration::from_secs(5);

/// Looks in a thread of its own for the other end of a new stream in this home's other rooms, and
/// has the two cross over.
pub fn seek(room: &Arc<Room>, sought: SoughtStream) {
    let SoughtStream { id, names } = sought;
    if !is_wanted() {
        return;
    }
    let others = other_stewards(room);
    if others.is_empty() {
        return;
    }
    seek_among(room, id, names, others);
}

/// Asks these stewards, in a thread of its own, until one has the other end of a stream or none
/// has: the one that gets it later will ask.
fn seek_among(room: &Arc<Room>, id: StreamId, names: ConnectionNames, others: Vec<PathBuf>) {
    let task = room.clone();
    let seek = move || {
        for _ in 0..SEEKS_MAX {
            let is_here = |path: &PathBuf| matches!(seek_in(&task, id, &names, path), Sought::Here);
            if !others.iter().any(is_here) {
                return;
            }
            std::thread::sleep(PAUSE);
            if !is_open(&task, id) {
                return;
            }
        }
    };
    start(seek);
}

fn start(work: impl FnOnce() + Send + 'static) {
    if let Err(e) = std::thread::Builder::new().name("crossing".into()).spawn(work) {
        tracing::warn!("no thread to have a stream cross over: {e}");
    }
}

/// Tells whether streams go from node to node: not if ternd has `TERN_STREAMS_ACROSS=off` in its
/// environment, with which a defect can be told from one of the streams.
fn is_wanted() -> bool {
    std::env::var_os("TERN_STREAMS_ACROSS").is_none_or(|value| value != "off")
}

/// The sockets of the stewards of this home's other rooms.
fn other_stewards(room: &Room) -> Vec<PathBuf> {
    let own = room.args.socket();
    let Ok(entries) = std::fs::read_dir(paths::rooms_dir(&room.args.run_dir)) else { return Vec::new() };
    let all = entries.flatten().map(|entry| entry.path());
    all.filter(|path| path.extension().is_some_and(|e| e == "steward") && *path != own).collect()
}

/// The result of asking one steward.
enum Sought {
    /// The other steward does not have the other end, or drives itself.
    Elsewhere,
    /// The other steward has the end, and the two did not agree: a moment later they may.
    Here,
    /// One of the two streams is gone.
    Over,
}

/// Asks one steward for the other end of a stream, and has the two cross over if it has that.
fn seek_in(room: &Arc<Room>, id: StreamId, names: &ConnectionNames, path: &std::path::Path) -> Sought {
    let Some(own) = room.args.room_id() else { return Sought::Elsewhere };
    let sought = StreamSought { room: own, own: names.own.clone(), peer: names.peer.clone() };
    let Ok(bytes) = postcard::to_stdvec(&ToSteward::Stream(sought)) else { return Sought::Elsewhere };
    let Ok(socket) = socket::connect(path) else { return Sought::Elsewhere };
    if socket::send(socket.as_fd(), &[IoSlice::new(&bytes)], &[], 0).is_err() {
        return Sought::Elsewhere;
    }
    let talk = Arc::new(Talk::new(socket));
    let Some(CrossWord::Found(found)) = hear(room, &talk) else { return Sought::Elsewhere };
    if !room.link.streams.crossings.begin(id, &talk) {
        return Sought::Here;
    }
    let driven = drive(room, id, &talk, &found);
    gone(room, id);
    room.link.streams.crossings.end(id, &talk);
    match driven {
        Ok(()) => Sought::Over,
        Err(why) => {
            tracing::debug!("stream {id:?} and {:?} of {}: {why}", found.id(), found.node);
            Sought::Here
        }
    }
}

/// Tells whether a stream is there, and both its directions are open.
fn is_open(room: &Room, id: StreamId) -> bool {
    room.link.streams.act(id, |end, _| Ok(!end.is_over())).unwrap_or(false)
}

/// Has two streams cross over again and again, until one of them is gone.
fn drive(room: &Room, id: StreamId, talk: &Talk, found: &FoundStream) -> Result<(), String> {
    loop {
        let way = reach(room, talk, found)?;
        if hold(room, id, talk)? {
            talk.begin_round();
            talk.say(&CrossWord::Await { standin: id.standin, epoch: id.epoch, way })?;
            if await_crossed(room, talk)? {
                talk.cross(way);
                cross(room, id, way, Frame::Across(found.id()));
                await_parted(room, id, talk)?;
            } else {
                // Nothing was sent by this room.
                talk.say(&CrossWord::Parted { taken: 0 })?;
                release(room, id);
                while hear(room, talk).ok_or("the other steward is gone")? != CrossWord::Done {}
            }
        }
        let begun = Instant::now();
        while talk.await_word(PAUSE.saturating_sub(begun.elapsed())) {
            pause_word(room, talk)?;
        }
        if !is_open(room, id) {
            return Ok(());
        }
    }
}

/// Takes what the other steward says while both streams go by way of home: questions of its room.
fn pause_word(room: &Room, talk: &Talk) -> Result<(), String> {
    match talk.hear() {
        Some(CrossWord::Fence { way, number }) => room.tell(&ToRoom::Fence { way, number }),
        _ => return Err("the other steward does not have the stream any more".into()),
    }
    Ok(())
}

/// Has the room make the way to the other one, unless there is one. Gives its number.
fn reach(room: &Room, talk: &Talk, found: &FoundStream) -> Result<u64, String> {
    let ways = &room.link.streams.crossings.ways;
    if let Some(new) = ways.begin(found.room)? {
        let (ticket, way) = (new.ticket, new.number);
        talk.say(&CrossWord::Admit { ticket, way, from: room.args.host.clone() })?;
        let lane = Lane { ticket, node: found.node.clone(), address: found.address, room: found.room.0 };
        room.tell(&ToRoom::Way { way, order: WayOrder::Connect(lane) });
    }
    ways.await_open(found.room)
}

/// Holds both streams until nothing of either is at home. Tells whether that came in time; else
/// both go on.
fn hold(room: &Room, id: StreamId, talk: &Talk) -> Result<bool, String> {
    hold_own(room, id);
    talk.say(&CrossWord::Hold)?;
    let begun = Instant::now();
    while begun.elapsed() < HOLD_MAX {
        std::thread::sleep(LOOK);
        if is_quiet(room, id)? {
            talk.say(&CrossWord::IsQuiet)?;
            match hear(room, talk) {
                Some(CrossWord::Quiet(true)) if is_quiet(room, id)? => return Ok(true),
                Some(CrossWord::Quiet(_)) => {}
                _ => return Err("the other steward does not have the stream any more".into()),
            }
        }
    }
    release(room, id);
    talk.say(&CrossWord::Release)?;
    Ok(false)
}

/// Waits until the other room has crossed over; `false`: it has parted at once.
fn await_crossed(room: &Room, talk: &Talk) -> Result<bool, String> {
    match hear(room, talk) {
        Some(CrossWord::Crossed) => Ok(true),
        Some(CrossWord::Parted { .. }) => Ok(false),
        _ => Err("the other steward is gone".into()),
    }
}

/// Waits until both rooms send home again.
fn await_parted(room: &Room, id: StreamId, talk: &Talk) -> Result<(), String> {
    loop {
        match hear(room, talk) {
            Some(CrossWord::Parted { taken }) => peer_parted(room, id, Some(Part { taken })),
            Some(CrossWord::Done) => return Ok(()),
            _ => return Err("the other steward is gone".into()),
        }
    }
}

/// Follows the steward of another room, which has asked for a stream.
pub fn follow(room: &Arc<Room>, socket: OwnedFd, sought: &StreamSought) {
    let talk = Arc::new(Talk::new(socket));
    let names = ConnectionNames { own: sought.peer.clone(), peer: sought.own.clone() };
    let streams = &room.link.streams;
    let found = streams.named(&names);
    let (Some(id), Some(own), Some(address)) = (found, room.args.room_id(), room.args.address) else {
        let _ = talk.say(&CrossWord::None);
        return;
    };
    if own.0 < sought.room.0 {
        let _ = talk.say(&CrossWord::None);
        let path = paths::steward_socket(&room.args.run_dir, sought.room);
        return seek_among(room, id, names, vec![path]);
    }
    let found = FoundStream { room: own, node: room.args.host.clone(), address, standin: id.standin, epoch: id.epoch };
    if talk.say(&CrossWord::Found(found)).is_err() || !streams.crossings.begin(id, &talk) {
        return;
    }
    while let Some(word) = hear(room, &talk) {
        if obey(room, id, &talk, word).is_err() {
            break;
        }
    }
    // Before another conversation about the stream can begin.
    gone(room, id);
    streams.crossings.end(id, &talk);
}

fn obey(room: &Room, id: StreamId, talk: &Talk, word: CrossWord) -> Result<(), String> {
    match word {
        CrossWord::Admit { ticket, way, from } => {
            room.tell(&ToRoom::Way { way, order: WayOrder::Admit { ticket, from } });
        }
        CrossWord::Hold => hold_own(room, id),
        CrossWord::IsQuiet => talk.say(&CrossWord::Quiet(is_quiet(room, id)?))?,
        CrossWord::Release => release(room, id),
        CrossWord::Await { standin, epoch, way } => {
            talk.begin_round();
            talk.cross(way);
            cross(room, id, way, Frame::Await(StreamId { standin, epoch }));
            match talk.await_crossed(CROSSED_WITHIN) {
                Some(true) => talk.say(&CrossWord::Crossed)?,
                // The driver has heard so.
                Some(false) => {}
                None => return Err("the room does not cross over".into()),
            }
        }
        CrossWord::Parted { taken } => {
            peer_parted(room, id, Some(Part { taken }));
            if talk.note_peer() {
                talk.say(&CrossWord::Done)?;
            }
        }
        _ => return Err("the other steward says what it may not".into()),
    }
    Ok(())
}

fn is_quiet(room: &Room, id: StreamId) -> Result<bool, String> {
    let quiet = room.link.streams.act(id, |end, turn| Ok(end.is_held() && end.is_quiet(turn)));
    room.link.streams.flush(&room.link);
    quiet.ok_or_else(|| "the stream is gone".to_owned())
}

fn say(room: &Room, id: StreamId, frame: Frame<'_>) {
    room.link.streams.say(id, frame);
    room.link.streams.flush(&room.link);
}

fn hold_own(room: &Room, id: StreamId) {
    let _ = room.link.streams.act(id, |end, turn| {
        end.hold(turn);
        Ok(())
    });
    room.link.streams.flush(&room.link);
}

fn release(room: &Room, id: StreamId) {
    let _ = room.link.streams.act(id, |end, turn| {
        end.release(turn);
        Ok(())
    });
    room.link.streams.flush(&room.link);
}

fn cross(room: &Room, id: StreamId, way: u64, frame: Frame<'_>) {
    let streams = &room.link.streams;
    streams.crossings.crossed().insert(id);
    let _ = streams.act(id, |end, _| {
        end.cross();
        Ok(())
    });
    streams.say(id, Frame::Way(way));
    say(room, id, frame);
}

/// Takes what the other room said when it sent home again; `None`: it is gone. This one's does the
/// same.
fn peer_parted(room: &Room, id: StreamId, part: Option<Part>) {
    let streams = &room.link.streams;
    streams.say(id, Frame::Part);
    let _ = streams.act(id, |end, turn| end.peer_parted(part, turn));
    streams.flush(&room.link);
}

/// The other steward says nothing more.
fn gone(room: &Room, id: StreamId) {
    if room.link.streams.act(id, |end, _| Ok(end.is_crossing())).unwrap_or(false) {
        peer_parted(room, id, None);
    }
    // The room may have been told to hold the stream, and not have answered yet.
    release(room, id);
}

/// Waits for a word; `None` if the other steward is gone.
fn hear(room: &Room, talk: &Talk) -> Option<CrossWord> {
    loop {
        match talk.hear()? {
            CrossWord::Fence { way, number } => room.tell(&ToRoom::Fence { way, number }),
            word => return Some(word),
        }
    }
}
