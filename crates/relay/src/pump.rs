//! The streams of one room, at one of their two ends.

mod across;
mod joined;

pub use across::AcrossTo;
pub use joined::SplitEnd;

use crate::{Frame, HomeEnd, RoomEnd, StreamError, StreamId};
use os::fds;
use rustix::event::{Timespec, epoll};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// One moment in which an end acts.
pub struct Turn<'a> {
    /// The time since the pump was made.
    pub now: Duration,
    /// The number of bytes that the room's streams may have under way beyond those that are.
    pub credit: usize,
    /// Takes the frames that the end sends, in their order.
    pub send: &'a mut dyn FnMut(Frame<'_>),
}

/// One end of a stream.
pub trait End {
    /// Gives the socket to be watched.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Moves all bytes that can be moved now, in both directions.
    ///
    /// # Errors
    /// A socket of the stream failed.
    fn advance(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError>;

    /// Obeys a frame of the other end, and moves what can be moved then.
    ///
    /// # Errors
    /// The other end broke the protocol, or a socket of the stream failed.
    fn obey(&mut self, frame: Frame<'_>, turn: &mut Turn<'_>) -> Result<(), StreamError>;

    /// Gives the time at which [`End::advance`] is to be called at the latest.
    fn due(&self) -> Option<Duration>;

    /// Gives the number of bytes that were sent and that the other end has not taken.
    fn under_way(&self) -> u64;

    /// Gives the number of bytes that this stream alone may have under way beyond those that are.
    fn credit(&self) -> usize;
}

/// A stream that failed, and why. The pump keeps it; the caller removes it.
pub type Failed = (StreamId, StreamError);

/// Streams, and what waits for their sockets.
///
/// # Threads
/// The owner keeps a pump behind a lock, and sends what [`Pump::take_frame`] gives without it: a
/// thread that receives must never wait for one that sends, or two nodes that send much to each
/// other wait for ever.
pub struct Pump<E> {
    epoll: OwnedFd,
    bell: OwnedFd,
    streams: HashMap<u64, Stream<E>>,
    keys: HashMap<StreamId, u64>,
    /// When to advance which stream, though its socket says nothing.
    due: BTreeMap<Duration, Vec<u64>>,
    /// Streams that stopped for want of the room's credit.
    starved: VecDeque<u64>,
    /// Frames to be sent.
    frames: VecDeque<Vec<u8>>,
    /// Streams whose frames are another stream's of this pump.
    partners: HashMap<u64, u64>,
    /// Frames for streams of this pump.
    local: VecDeque<(u64, Vec<u8>)>,
    /// Streams whose frames are for a stream of another room.
    across: HashMap<u64, AcrossTo>,
    /// Frames for streams of other rooms, with their ways.
    across_frames: VecDeque<(u64, Vec<u8>)>,
    /// Streams whose last frames from another room may still be on this way.
    stale: HashMap<u64, u64>,
    /// Streams that go to another room, from which no more frames come.
    peer_parted: HashSet<u64>,
    /// Bytes of all streams that are under way, and how many may be.
    under_way: u64,
    under_way_max: u64,
    last_key: u64,
    begun: Instant,
}

struct Stream<E> {
    id: StreamId,
    end: E,
}

/// The pump of a room.
pub type RoomPump = Pump<RoomEnd>;
/// The pump of a home.
pub type HomePump = Pump<HomeEnd>;

const BELL: u64 = 0;
/// The most events that one look finds.
const READY_MAX: usize = 64;

impl<E> std::fmt::Debug for Pump<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pump").field("streams", &self.keys).field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

impl<E: End> Pump<E> {
    /// Makes a pump without streams. All of them together have at most `under_way_max` bytes under
    /// way.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn new(under_way_max: u64) -> Result<Pump<E>, StreamError> {
        let failed = |source| StreamError::Socket { doing: "making an epoll instance", source };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let bell = fds::event()?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN).map_err(failed)?;
        Ok(Pump {
            epoll,
            bell,
            streams: HashMap::new(),
            keys: HashMap::new(),
            due: BTreeMap::new(),
            starved: VecDeque::new(),
            frames: VecDeque::new(),
            partners: HashMap::new(),
            local: VecDeque::new(),
            across: HashMap::new(),
            across_frames: VecDeque::new(),
            stale: HashMap::new(),
            peer_parted: HashSet::new(),
            under_way: 0,
            under_way_max,
            last_key: BELL,
            begun: Instant::now(),
        })
    }

    /// Gives a descriptor that becomes readable when [`Pump::turn`] has something to do.
    pub fn waits_on(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Wakes the thread that waits for the pump.
    pub fn wake(&self) {
        fds::wake(self.bell.as_fd());
    }

    /// Takes the next frame to be sent.
    pub fn take_frame(&mut self) -> Option<Vec<u8>> {
        self.frames.pop_front()
    }

    /// Adds a stream, whose socket is looked at in the next [`Pump::turn`].
    ///
    /// # Errors
    /// The socket cannot be watched.
    pub fn add(&mut self, id: StreamId, end: E) -> Result<(), StreamError> {
        self.last_key += 1;
        let key = self.last_key;
        let events = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::PRI
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        epoll::add(&self.epoll, end.socket(), epoll::EventData::new_u64(key), events)
            .map_err(|source| StreamError::Socket { doing: "watching a socket of a stream", source })?;
        self.keys.insert(id, key);
        self.streams.insert(key, Stream { id, end });
        Ok(())
    }

    /// Sends a frame of a stream, behind those that wait.
    pub fn say(&mut self, id: StreamId, frame: Frame<'_>) {
        self.frames.push_back([&frame.header(id), frame.content()].concat());
    }

    /// Tells whether there is any stream.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Has `act` act on the end of a stream. Gives the stream if that failed.
    ///
    /// A stream that the pump does not have does nothing.
    pub fn act(
        &mut self,
        id: StreamId,
        act: impl FnOnce(&mut E, &mut Turn<'_>) -> Result<(), StreamError>,
    ) -> Option<Failed> {
        let key = self.keys.get(&id).copied()?;
        let failed = self.with(key, act);
        // A stream that fails here fails again in the next turn.
        self.pass_on();
        failed
    }

    /// Lists the streams with their ends.
    pub fn streams(&self) -> impl Iterator<Item = (StreamId, &E)> {
        self.streams.values().map(|stream| (stream.id, &stream.end))
    }

    /// Gives the number of bytes of all streams that are under way.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Gives the end of a stream.
    pub fn get(&self, id: StreamId) -> Option<&E> {
        self.keys.get(&id).and_then(|key| self.streams.get(key)).map(|stream| &stream.end)
    }

    /// Removes a stream after `last` has acted on its end.
    ///
    /// # Errors
    /// Those of `last`. The stream is removed all the same.
    pub fn remove(
        &mut self,
        id: StreamId,
        last: impl FnOnce(&mut E, &mut Turn<'_>) -> Result<(), StreamError>,
    ) -> Result<Option<E>, StreamError> {
        let Some(key) = self.keys.remove(&id) else { return Ok(None) };
        let done = self.with(key, last);
        self.across.remove(&key);
        self.stale.remove(&key);
        self.peer_parted.remove(&key);
        let Some(stream) = self.streams.remove(&key) else { return Ok(None) };
        self.under_way -= stream.end.under_way();
        let _ = epoll::delete(&self.epoll, stream.end.socket());
        done.map_or(Ok(Some(stream.end)), |(_, e)| Err(e))
    }

    /// Gives the time to wait until [`Pump::turn`] is to be called though no socket says anything.
    pub fn timeout(&self) -> Option<Duration> {
        self.due.keys().next().map(|due| due.saturating_sub(self.begun.elapsed()))
    }

    /// Does all that there is to do now. Gives the streams that failed.
    pub fn turn(&mut self) -> Vec<Failed> {
        let mut failed = Vec::new();
        loop {
            let mut events: Vec<epoll::Event> = Vec::with_capacity(READY_MAX);
            let space = rustix::buffer::spare_capacity(&mut events);
            // An interruption is seen by the next turn.
            let _ = epoll::wait(&self.epoll, space, Some(&Timespec::default()));
            for event in &events {
                match event.data.u64() {
                    BELL => fds::drain(self.bell.as_fd()),
                    key => failed.extend(self.advance(key)),
                }
            }
            if events.len() < READY_MAX {
                break;
            }
        }
        let now = self.begun.elapsed();
        while let Some(entry) = self.due.first_entry().filter(|entry| *entry.key() <= now) {
            for key in entry.remove() {
                failed.extend(self.advance(key));
            }
        }
        failed.extend(self.feed_starved());
        failed.extend(self.pass_on());
        failed
    }

    /// Has streams of this pump obey the frames of their partners.
    fn pass_on(&mut self) -> Vec<Failed> {
        let mut failed = Vec::new();
        while let Some((key, bytes)) = self.local.pop_front() {
            if let Ok((_, frame)) = Frame::decode(&bytes) {
                failed.extend(self.with(key, |end, turn| end.obey(frame, turn)));
            }
        }
        failed
    }

    /// Obeys a frame of the other end. A frame of an unknown stream is late, and means nothing.
    pub fn obey(&mut self, id: StreamId, frame: Frame<'_>) -> Vec<Failed> {
        let Some(key) = self.keys.get(&id).copied() else { return Vec::new() };
        let mut failed: Vec<Failed> = self.with(key, |end, turn| end.obey(frame, turn)).into_iter().collect();
        failed.extend(self.feed_starved());
        failed.extend(self.pass_on());
        failed
    }

    /// Lets streams that stopped for want of the room's credit go on, the first one first.
    fn feed_starved(&mut self) -> Vec<Failed> {
        let mut failed = Vec::new();
        for _ in 0..self.starved.len() {
            if self.under_way >= self.under_way_max {
                break;
            }
            if let Some(key) = self.starved.pop_front() {
                failed.extend(self.advance(key));
            }
        }
        failed
    }

    fn advance(&mut self, key: u64) -> Option<Failed> {
        self.with(key, |end, turn| end.advance(turn))
    }

    fn with(&mut self, key: u64, act: impl FnOnce(&mut E, &mut Turn<'_>) -> Result<(), StreamError>) -> Option<Failed> {
        let Stream { id, end } = self.streams.get_mut(&key)?;
        let (id, before) = (*id, end.under_way());
        let partner = self.partners.get(&key).copied();
        let across = self.across.get(&key).copied();
        let (frames, local, across_frames) = (&mut self.frames, &mut self.local, &mut self.across_frames);
        let mut send = |frame: Frame<'_>| {
            let bytes = |id| [&frame.header(id), frame.content()].concat();
            match (partner, across) {
                (Some(partner), _) => local.push_back((partner, bytes(id))),
                (None, Some(AcrossTo { way, peer })) => across_frames.push_back((way, bytes(peer))),
                (None, None) => frames.push_back(bytes(id)),
            }
        };
        let credit = usize::try_from(self.under_way_max.saturating_sub(self.under_way)).unwrap_or(usize::MAX);
        let done = act(end, &mut Turn { now: self.begun.elapsed(), credit, send: &mut send });
        self.under_way = self.under_way - before + end.under_way();
        if let Err(e) = done {
            return Some((id, e));
        }
        if let Some(due) = end.due() {
            self.due.entry(due).or_default().push(key);
        }
        if self.under_way >= self.under_way_max && end.credit() > 0 && !self.starved.contains(&key) {
            self.starved.push_back(key);
        }
        None
    }
}
