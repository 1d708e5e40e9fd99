//! The home ends of a room's streams (`relay`), and the sockets that may have one.
//!
//! A thread of its own pumps bytes that the true sockets have received to the room. The thread that
//! receives the room's messages writes the room's bytes into the sockets, at their place in the
//! order of the messages: a call that the room asks for next finds them there.

use crate::room::crossing_talk::TalkEvent;
use crate::room::crossings::Crossings;
use crate::room::joins::{ConnectionNames, Joins};
use crate::room::link::RoomLink;
use crate::room::state::Room;
use control_protocol::queues::StreamWay;
use os::process;
use relay::{Account, End as _, Frame, HomeEnd, HomePump, Part, StreamError, StreamId, Turn, UNDER_WAY_BYTES_MAX};
use room_protocol::message::StandinId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long the pump's thread waits at most: a room that is gone is noticed then.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How long a closed stream waits for bytes that went to its room and come again.
const SETTLED_WITHIN: Duration = Duration::from_secs(4);

/// The largest window that a room may open a stream with.
const WINDOW_BYTES_MAX: u32 = 16 << 20;

/// The home ends of all streams of a room.
#[derive(Default)]
pub struct HomeStreams {
    pump: OnceLock<Mutex<HomePump>>,
    /// Held while frames are sent, so that they go in their order.
    sending: Mutex<()>,
    /// There has been a stream.
    is_used: AtomicBool,
    /// The streams that are open.
    open: Mutex<HashMap<StandinId, StreamId>>,
    /// Those of which each is the other's peer.
    joins: Mutex<Joins>,
    /// Those that go to other rooms.
    pub crossings: Crossings,
}

impl HomeStreams {
    /// Gives the pump; `None` if the kernel has no descriptors left.
    fn pump(&self) -> Option<MutexGuard<'_, HomePump>> {
        if self.pump.get().is_none() {
            let made = HomePump::new(UNDER_WAY_BYTES_MAX).inspect_err(|e| tracing::error!("{e}")).ok()?;
            let _ = self.pump.set(Mutex::new(made));
        }
        Some(self.pump.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends the room all that has come for its processes until now, as far as their credit allows.
    pub fn flush(&self, link: &RoomLink) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        let _turn = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, why) in self.pump().map(|mut pump| pump.turn()).unwrap_or_default() {
            self.fail(id, &why);
        }
        if let Some(mut pump) = self.pump() {
            self.joins().advance(&mut pump);
        }
        self.close_settled(link);
        while let Some(frame) = self.pump().and_then(|mut pump| pump.take_frame()) {
            link.send_stream(&frame);
        }
    }

    /// Has `act` act on the home end of a stream; `None` if there is none, or that failed.
    pub fn act<T>(
        &self,
        id: StreamId,
        act: impl FnOnce(&mut HomeEnd, &mut Turn<'_>) -> Result<T, StreamError>,
    ) -> Option<T> {
        let mut done = None;
        let failed = self.pump()?.act(id, |end, turn| {
            done = Some(act(end, turn)?);
            Ok(())
        });
        failed.into_iter().for_each(|(id, why)| self.fail(id, &why));
        done
    }

    /// Sends the room a frame of a stream, with the next [`HomeStreams::flush`].
    pub fn say(&self, id: StreamId, frame: Frame<'_>) {
        self.pump().into_iter().for_each(|mut pump| pump.say(id, frame));
    }

    /// Gives the number of bytes of all streams that the room was sent and no process has taken.
    pub fn under_way(&self) -> u64 {
        if !self.is_used.load(Ordering::Acquire) {
            return 0;
        }
        self.pump().map_or(0, |pump| pump.under_way())
    }

    /// Tells what waits in the room's streams, in at most `most` of them.
    pub fn states(&self, most: usize) -> Vec<StreamState> {
        if !self.is_used.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut found: Vec<(StreamId, StreamState)> = Vec::new();
        if let Some(pump) = self.pump() {
            found.extend(pump.streams().take(most).map(|(id, end)| (id, state(id, end))));
        }
        let joins = self.joins();
        found.into_iter().map(|(id, state)| StreamState { names: joins.names(id).cloned(), ..state }).collect()
    }

    /// Gives the stream of this room with these names.
    pub fn named(&self, names: &ConnectionNames) -> Option<StreamId> {
        self.joins().named(names)
    }

    /// Closes streams whose last bytes have come.
    fn close_settled(&self, link: &RoomLink) {
        let closing: Vec<(StreamId, Instant)> = self.crossings.closing().iter().map(|(id, at)| (*id, *at)).collect();
        for (id, since) in closing {
            let is_settled = self.act(id, |end, _| Ok(end.is_settled())).unwrap_or(true);
            if is_settled || since.elapsed() > SETTLED_WITHIN {
                if !is_settled {
                    tracing::warn!("bytes of stream {id:?} did not come home in time");
                }
                self.crossings.closing().remove(&id);
                self.remove(id, link);
            }
        }
    }

    /// Removes the home end of a stream, once the true socket has all of it.
    fn remove(&self, id: StreamId, link: &RoomLink) {
        act_as_itself(link);
        let has_crossed = self.crossings.take_crossed(id);
        self.crossings.hang_up(id);
        let Some(mut pump) = self.pump() else { return };
        match pump.remove(id, |end, _| end.settle()) {
            Ok(Some(end)) if end.waiting_bytes() > 0 => {
                tracing::error!("{} bytes of stream {id:?} found no room in its socket", end.waiting_bytes());
            }
            // An error of the socket stays there for the process to find.
            Ok(_) => {}
            Err(e) => tracing::debug!("stream {id:?} ends with an error: {e}"),
        }
        if has_crossed {
            pump.say(id, Frame::Closed);
        }
    }

    fn joins(&self) -> MutexGuard<'_, Joins> {
        self.joins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the time after which there may be something to pump, if any.
    fn timeout(&self) -> Option<Duration> {
        let pump = self.pump()?.timeout();
        pump.into_iter().chain(self.joins().timeout()).min()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<StandinId, StreamId>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the room make the calls on this stream at home again, where they find what is wrong.
    fn fail(&self, id: StreamId, why: &relay::StreamError) {
        tracing::debug!("stream {id:?}: {why}");
        if let Some(mut pump) = self.pump() {
            pump.say(id, Frame::Fault);
        }
    }
}

/// One stream at one moment, as home knows it.
#[derive(Debug)]
pub struct StreamState {
    /// Number of the stream: that of its stand-in, and which of its streams.
    pub id: u64,
    /// The bytes that wait in either direction.
    pub account: Account,
    /// The way that its bytes take.
    pub way: StreamWay,
    /// Bytes in the receive queue of the true socket.
    pub unread: u64,
    /// Bytes in the send queue of the true socket.
    pub unsent: u64,
    /// Names of its two ends, if the kernel told them.
    pub names: Option<ConnectionNames>,
}

/// A stream whose other end may be in another room of this home.
#[derive(Debug)]
pub struct SoughtStream {
    /// The stream that this room has.
    pub id: StreamId,
    /// The names of its two ends.
    pub names: ConnectionNames,
}

fn state(id: StreamId, end: &HomeEnd) -> StreamState {
    let bytes = |bytes: os::Result<usize>| bytes.unwrap_or(0) as u64;
    // Two streams that are joined stay held.
    let way = match (end.is_crossing(), end.is_held()) {
        (true, _) => StreamWay::OtherRoom,
        (false, true) => StreamWay::Room,
        (false, false) => StreamWay::Home,
    };
    StreamState {
        id: id.packed(),
        account: end.account(),
        way,
        unread: bytes(os::streams::unread_bytes(end.socket())),
        unsent: bytes(os::streams::unsent_bytes(end.socket())),
        names: None,
    }
}

/// Obeys a frame of the room. Gives a new stream whose other end is to be sought.
///
/// # Errors
/// The room broke the protocol: why it is to end.
pub fn obey(room: &Room, body: &[u8]) -> Result<Option<SoughtStream>, String> {
    let node = &room.args.host;
    let (id, frame) = Frame::decode(body).map_err(|e| format!("node {node} sent a frame that is none: {e}"))?;
    let streams = &room.link.streams;
    let mut sought = None;
    match frame {
        Frame::Open(window) => sought = open(room, id, window.min(WINDOW_BYTES_MAX)),
        Frame::Close => close(room, id),
        frame => {
            let failed = streams.pump().map(|mut pump| pump.obey(id, frame)).unwrap_or_default();
            if let Some((_, relay::StreamError::OutOfOrder(e))) = failed.first() {
                return Err(format!("node {node} broke the protocol of streams: {e}"));
            }
            failed.iter().for_each(|(id, why)| streams.fail(*id, why));
            match frame {
                Frame::Crossed => streams.crossings.note(id, TalkEvent::Crossed),
                Frame::Parted(taken) => streams.crossings.note(id, TalkEvent::Parted(Part { taken })),
                _ => {}
            }
        }
    }
    if let Some(pump) = streams.pump() {
        pump.wake();
    }
    Ok(sought)
}

fn open(room: &Room, id: StreamId, window: u32) -> Option<SoughtStream> {
    let standin = StandinId(id.standin);
    let streams = &room.link.streams;
    // The room has it, and will say when nobody does any more.
    if !room.table().anchors.contains_key(&standin) {
        act_as_itself(&room.link);
        let holder = room.table().holder(0, standin);
        holder.into_iter().for_each(|(pid, fd)| room.anchor(pid, fd, standin));
    }
    let file = room.table().anchors.get_mut(&standin).map(|anchor| {
        let was_watched = std::mem::take(&mut anchor.watched);
        (anchor.file.clone(), was_watched)
    });
    streams.open().insert(standin, id);
    let mut pump = streams.pump()?;
    let Some((file, was_watched)) = file else {
        pump.say(id, Frame::Fault);
        return None;
    };
    if was_watched {
        room.poller.unwatch(file.as_fd());
    }
    streams.is_used.store(true, Ordering::Release);
    let names = streams.joins().opened(id, file.as_fd());
    if let Err(e) = pump.add(id, HomeEnd::new(file, window)) {
        tracing::warn!("{e}");
        pump.say(id, Frame::Fault);
        return None;
    }
    names.map(|names| SoughtStream { id, names })
}

/// Writes all that the room has written to a stream into the true socket, if it is one, whatever
/// its buffer holds: home is to shut the socket.
pub fn settle(room: &Room, standin: StandinId) {
    let streams = &room.link.streams;
    let Some(id) = streams.open().get(&standin).copied() else { return };
    act_as_itself(&room.link);
    let failed = streams.pump().and_then(|mut pump| pump.act(id, |end, _| end.settle()));
    failed.into_iter().for_each(|(id, why)| streams.fail(id, &why));
}

/// Takes the rights to enlarge a buffer beyond what a user may.
fn act_as_itself(link: &RoomLink) {
    if let Some(files) = link.files()
        && let Err(e) = files.act_as_itself()
    {
        tracing::error!("taking the rights to enlarge a buffer: {e}");
    }
}

/// Ends a stream: what the process writes next comes behind what the true socket has then.
fn close(room: &Room, id: StreamId) {
    let streams = &room.link.streams;
    streams.open().retain(|_, open| *open != id);
    if let Some(mut pump) = streams.pump() {
        streams.joins().closed(id, &mut pump);
    }
    if streams.act(id, |end, _| Ok(end.is_settled())).unwrap_or(true) {
        streams.remove(id, &room.link);
    } else {
        streams.crossings.closing().insert(id, Instant::now());
    }
}

/// Pumps until the room is gone.
pub fn serve(room: &Weak<Room>) {
    let waits_on = match room.upgrade().and_then(|room| waits_on(&room)) {
        Some(waits_on) => waits_on,
        None => return tracing::error!("no descriptor to wait for streams by"),
    };
    loop {
        let Some(streams) = room.upgrade() else { return };
        let timeout = streams.link.streams.timeout();
        drop(streams);
        wait(&waits_on, timeout.unwrap_or(WAIT_MAX).min(WAIT_MAX));
        let Some(room) = room.upgrade() else { return };
        room.contain(None, || room.link.streams.flush(&room.link));
        if room.is_lost() {
            return;
        }
    }
}

fn waits_on(room: &Room) -> Option<OwnedFd> {
    let pump = room.link.streams.pump()?;
    pump.waits_on().try_clone_to_owned().ok()
}

fn wait(waits_on: &OwnedFd, timeout: Duration) {
    let timeout = Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: i64::from(timeout.subsec_nanos()) };
    let _ = poll(&mut [PollFd::new(waits_on, PollFlags::IN)], Some(&timeout));
}

/// Tells whether a stand-in may be a stream: its open file is a connected stream socket, nothing is
/// odd about it, and only deputies of this room have it.
pub fn may_stream(room: &Room, standin: StandinId) -> bool {
    let Some(file) = socket_of(room, standin) else { return false };
    is_plain_stream(&file) && !is_anybody_elses(room, &file)
}

/// Gives the socket of a stand-in. A socket that came with a process is not held yet, and this does
/// not begin to hold it: the stand-in may be closed by now, and nobody would let its file go.
fn socket_of(room: &Room, standin: StandinId) -> Option<Arc<OwnedFd>> {
    let anchored = room.table().anchors.get(&standin).map(|anchor| anchor.file.clone());
    if anchored.is_some() {
        return anchored;
    }
    let (pid, fd) = room.table().holder(0, standin)?;
    let is_socket =
        process::link(pid, &format!("fd/{fd}")).is_ok_and(|link| link.to_string_lossy().starts_with("socket:"));
    let pidfd = room.table().deputies.get(&pid).filter(|_| is_socket).map(|deputy| deputy.pidfd.clone())?;
    let file = pidfd.get_fd(fd).ok()?;
    // After that: what a program holds that the deputy has executed is not the body's.
    room.check_deputy(pid).is_ok().then(|| Arc::new(file))
}

/// Tells whether a pair of sockets can stand for this socket.
fn is_plain_stream(socket: &Arc<OwnedFd>) -> bool {
    let flags = rustix::fs::fcntl_getfl(socket).map_or(libc::O_ASYNC, |flags| flags.bits().cast_signed());
    let ready = os::fds::ready(socket.as_fd());
    os::streams::is_connected(socket.as_fd())
        && os::streams::is_ordinary(socket.as_fd())
        && flags & libc::O_ASYNC == 0
        && !os::objects::has_time_limit(socket.as_fd())
        && ready & (libc::POLLERR | libc::POLLPRI | libc::POLLHUP | libc::POLLRDHUP).cast_unsigned() == 0
}

/// Tells whether a process has this socket that is no deputy of the room.
fn is_anybody_elses(room: &Room, socket: &Arc<OwnedFd>) -> bool {
    let own = std::process::id().cast_signed();
    let Ok(name) = process::link(own, &format!("fd/{}", socket.as_raw_fd())) else { return true };
    let deputies: std::collections::HashSet<i32> = room.table().deputies.keys().copied().collect();
    let Ok(all) = process::all() else { return true };
    let others = all.into_iter().filter(|pid| *pid != own && !deputies.contains(pid));
    let has = |pid: i32| {
        let descriptors = process::descriptors(pid).unwrap_or_default();
        descriptors.into_iter().any(|fd| process::link(pid, &format!("fd/{fd}")).is_ok_and(|link| link == name))
    };
    others.into_iter().any(has)
}
