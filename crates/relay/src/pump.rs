//! The streams of one room, at one of their two ends.

use crate::{Frame, HomeEnd, RoomEnd, StreamError, StreamId};
use os::fds;
use rustix::event::{Timespec, epoll};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Takes the frames that an end sends.
pub trait Sink {
    /// Sends one frame. The order of the frames is kept.
    fn give(&mut self, id: StreamId, frame: Frame<'_>);
}

/// One end of a stream.
pub trait End {
    /// Gives the socket to be watched.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Moves all bytes that can be moved now, in both directions.
    ///
    /// # Errors
    /// A socket of the stream failed.
    fn advance(&mut self, now: Duration, send: &mut dyn FnMut(Frame<'_>)) -> Result<(), StreamError>;

    /// Obeys a frame of the other end, and moves what can be moved then.
    ///
    /// # Errors
    /// The other end broke the protocol, or a socket of the stream failed.
    fn obey(&mut self, frame: Frame<'_>, now: Duration, send: &mut dyn FnMut(Frame<'_>)) -> Result<(), StreamError>;

    /// Gives the time at which [`End::advance`] is to be called at the latest.
    fn due(&self) -> Option<Duration>;

    /// Tells whether the end is done: nothing more comes from it, and nothing more reaches it.
    fn is_over(&self) -> bool;
}

/// Streams, and what waits for their sockets.
pub struct Pump<E> {
    epoll: OwnedFd,
    bell: OwnedFd,
    streams: HashMap<u64, (StreamId, E)>,
    keys: HashMap<StreamId, u64>,
    /// When to advance which stream, though its socket says nothing.
    due: BTreeMap<Duration, Vec<u64>>,
    last_key: u64,
    begun: Instant,
}

/// The pump of a room.
pub type RoomPump = Pump<RoomEnd>;
/// The pump of a home.
pub type HomePump = Pump<HomeEnd>;

const BELL: u64 = 0;
/// What one look finds at most.
const READY_MAX: usize = 64;

impl<E: End> Pump<E> {
    /// Makes a pump without streams.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn new() -> Result<Pump<E>, StreamError> {
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

    /// Adds a stream.
    ///
    /// # Errors
    /// The socket cannot be watched.
    pub fn add(&mut self, id: StreamId, end: E, sink: &mut dyn Sink) -> Result<(), StreamError> {
        self.last_key += 1;
        let key = self.last_key;
        let events = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, end.socket(), epoll::EventData::new_u64(key), events)
            .map_err(|source| StreamError::Socket { doing: "watching a socket of a stream", source })?;
        self.keys.insert(id, key);
        self.streams.insert(key, (id, end));
        self.advance(key, sink).map_or(Ok(()), |(_, e)| e.map_or(Ok(()), Err))
    }

    /// Gives the end of a stream.
    pub fn get(&mut self, id: StreamId) -> Option<&mut E> {
        self.keys.get(&id).and_then(|key| self.streams.get_mut(key)).map(|(_, end)| end)
    }

    /// Removes a stream.
    pub fn remove(&mut self, id: StreamId) -> Option<E> {
        let (_, end) = self.streams.remove(&self.keys.remove(&id)?)?;
        let _ = epoll::delete(&self.epoll, end.socket());
        Some(end)
    }

    /// Gives the time to wait until [`Pump::turn`] is to be called though no socket says anything.
    pub fn timeout(&self) -> Option<Duration> {
        self.due.keys().next().map(|due| due.saturating_sub(self.begun.elapsed()))
    }

    /// Waits until there is something to do, at most for `timeout`.
    pub fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        let mut polled = [rustix::event::PollFd::new(&self.epoll, rustix::event::PollFlags::IN)];
        let _ = rustix::event::poll(&mut polled, timeout.as_ref());
    }

    /// Does all that there is to do now. Gives the streams that are over, with the error that ended
    /// them, if one did.
    pub fn turn(&mut self, sink: &mut dyn Sink) -> Vec<(StreamId, Option<StreamError>)> {
        let mut over = Vec::new();
        loop {
            let mut events: Vec<epoll::Event> = Vec::with_capacity(READY_MAX);
            let space = rustix::buffer::spare_capacity(&mut events);
            let _ = epoll::wait(&self.epoll, space, Some(&Timespec::default()));
            for event in &events {
                match event.data.u64() {
                    BELL => fds::drain(self.bell.as_fd()),
                    key => over.extend(self.advance(key, sink)),
                }
            }
            if events.len() < READY_MAX {
                break;
            }
        }
        let now = self.begun.elapsed();
        while let Some(entry) = self.due.first_entry().filter(|entry| *entry.key() <= now) {
            for key in entry.remove() {
                over.extend(self.advance(key, sink));
            }
        }
        over
    }

    /// Obeys a frame of the other end. A frame of an unknown stream is late, and means nothing.
    /// Gives the stream if it is over, with the error that ended it.
    pub fn obey(
        &mut self,
        id: StreamId,
        frame: Frame<'_>,
        sink: &mut dyn Sink,
    ) -> Option<(StreamId, Option<StreamError>)> {
        let key = *self.keys.get(&id)?;
        self.with(key, |end, now| end.obey(frame, now, &mut |frame| sink.give(id, frame)))
    }

    fn advance(&mut self, key: u64, sink: &mut dyn Sink) -> Option<(StreamId, Option<StreamError>)> {
        let id = self.streams.get(&key)?.0;
        self.with(key, |end, now| end.advance(now, &mut |frame| sink.give(id, frame)))
    }

    fn with(
        &mut self,
        key: u64,
        act: impl FnOnce(&mut E, Duration) -> Result<(), StreamError>,
    ) -> Option<(StreamId, Option<StreamError>)> {
        let now = self.begun.elapsed();
        let (id, end) = self.streams.get_mut(&key)?;
        let id = *id;
        let failed = act(end, now).err();
        let due = end.due();
        if failed.is_some() || end.is_over() {
            return Some((id, failed));
        }
        if let Some(due) = due {
            self.due.entry(due).or_default().push(key);
        }
        None
    }
}
