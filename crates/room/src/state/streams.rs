//! The streams of a room (`relay`): stand-ins for connected sockets whose bytes are pumped.
//!
//! A stand-in that is used often becomes a stream, if home says that its socket is a plain one: the
//! tracer gives those that have it an end of a pair of sockets in its place
//! ([`crate::supervisor::tracer::streaming`]). The open file of the stand-in is kept here
//! meanwhile. Its last close tells home that nobody has the socket any more, as ever; and whenever
//! only home can do what is asked of the socket, the tracer puts it back.

mod across;

use crate::state::fences::Fences;
use crate::state::ways::Ways;
use link::LinkError;
use relay::{Failed, Frame, RoomEnd, RoomPump, SplitEnd, StreamError, StreamId, UNDER_WAY_BYTES_MAX, WINDOW_BYTES};
use room_protocol::Kind;
use room_protocol::message::StandinId;
use rustix::net::RecvFlags;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// So many calls on a stand-in make it worth to stop its process for a moment.
const USES_MIN: u32 = 4;

/// The streams of a room.
#[derive(Debug, Default)]
pub struct RoomStreams {
    /// The ways by which streams go to other rooms.
    pub ways: Ways,
    pump: OnceLock<Mutex<RoomPump>>,
    /// Held while frames are sent, so that they go in their order.
    sending: Mutex<()>,
    table: Mutex<StreamTable>,
    /// The number of streams, to be asked without a lock.
    count: AtomicUsize,
    /// Frames to other rooms.
    fences: Mutex<Fences>,
    /// The number of things that the room has learnt from home.
    learnt: AtomicU64,
    closing: Mutex<Closing>,
    /// Home has closed a stream.
    has_closed: Condvar,
}

/// Streams that went to another room, and that home is to close.
#[derive(Debug, Default)]
struct Closing {
    awaited: HashSet<StreamId>,
}

#[derive(Debug, Default)]
struct StreamTable {
    open: HashMap<StandinId, OpenStream>,
    /// The inodes of the pairs' ends that guests have.
    inodes: HashMap<u64, StandinId>,
    uses: HashMap<StandinId, StandinUse>,
    last_epoch: u32,
    /// Streams that are over, and of which nobody has taken notice yet.
    over: Vec<Failed>,
}

#[derive(Debug)]
struct OpenStream {
    id: StreamId,
    /// The open file of the stand-in.
    file: Arc<OwnedFd>,
    inode: u64,
    /// Its end was reported.
    is_over: bool,
    /// The way to the room of its peer, if home has named one.
    way: Option<u64>,
    /// Its bytes have gone to another room at some time.
    has_crossed: bool,
}

/// How busy a stand-in is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StandinUse {
    /// So many calls were made on it.
    Counted(u32),
    /// Home was asked whether it may be a stream, or it is one.
    Asked,
    /// The descriptor stays a stand-in.
    Never,
}

/// A stream that is to be opened.
#[derive(Debug)]
pub struct NewStream {
    /// The stand-in that becomes a stream.
    pub standin: StandinId,
    /// The end of the pair that guests get.
    pub guests_end: Arc<OwnedFd>,
    end: RoomEnd,
    inode: u64,
}

impl NewStream {
    /// Makes the pair for a stand-in.
    ///
    /// # Errors
    /// The kernel has no sockets left.
    pub fn new(standin: StandinId) -> Result<NewStream, StreamError> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let failed = |source| StreamError::Socket { doing: "making a pair of sockets", source };
        let (ours, guests) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(failed)?;
        let inode = rustix::fs::fstat(&guests).map_err(failed)?.st_ino;
        Ok(NewStream { standin, guests_end: Arc::new(guests), end: RoomEnd::new(ours, WINDOW_BYTES)?, inode })
    }
}

impl RoomStreams {
    fn table(&self) -> MutexGuard<'_, StreamTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the pump; `None` if the kernel has no descriptors left.
    fn pump(&self) -> Option<MutexGuard<'_, RoomPump>> {
        if self.pump.get().is_none() {
            let made = RoomPump::new(UNDER_WAY_BYTES_MAX).inspect_err(|e| tracing::error!("{e}")).ok()?;
            let _ = self.pump.set(Mutex::new(made));
        }
        Some(self.pump.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells whether there is any stream.
    pub fn is_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Gives the stream of which a guest's socket with this inode is the end, if it is one.
    pub fn of_inode(&self, inode: u64) -> Option<StandinId> {
        if self.is_any() { self.table().inodes.get(&inode).copied() } else { None }
    }

    /// Counts a call on a stand-in. Tells whether home is to be asked now if it may be a stream.
    pub fn uses(&self, standin: StandinId) -> bool {
        if standin.is_file() {
            return false;
        }
        let mut table = self.table();
        let found = table.uses.entry(standin).or_insert(StandinUse::Counted(0));
        match found {
            StandinUse::Counted(calls) if *calls + 1 >= USES_MIN => {
                *found = StandinUse::Asked;
                true
            }
            StandinUse::Counted(calls) => {
                *calls += 1;
                false
            }
            StandinUse::Asked | StandinUse::Never => false,
        }
    }

    /// Notes that a stand-in stays one.
    pub fn keep(&self, standin: StandinId) {
        self.table().uses.insert(standin, StandinUse::Never);
    }

    /// Notes that a stand-in did not become a stream this time.
    pub fn count_again(&self, standin: StandinId) {
        self.table().uses.insert(standin, StandinUse::Counted(0));
    }

    /// Notes that a stream is a stand-in again, which may become one again if its calls are many.
    pub fn count_again_if_asked(&self, standin: StandinId) {
        let mut table = self.table();
        let found = table.uses.get_mut(&standin).filter(|found| **found == StandinUse::Asked);
        found.into_iter().for_each(|found| *found = StandinUse::Counted(0));
    }

    /// Forgets a stand-in that nobody has any more.
    pub fn forget(&self, standin: StandinId) {
        self.table().uses.remove(&standin);
    }

    /// Opens a stream: its guests have their end. `file`: the open file of the stand-in.
    pub fn open(&self, new: NewStream, file: Arc<OwnedFd>) {
        let NewStream { standin, end, inode, .. } = new;
        let id = {
            let mut table = self.table();
            table.last_epoch = table.last_epoch.wrapping_add(1);
            let id = StreamId { standin: standin.0, epoch: table.last_epoch };
            table.open.insert(standin, OpenStream { id, file, inode, is_over: false, way: None, has_crossed: false });
            table.inodes.insert(inode, standin);
            self.count.store(table.open.len(), Ordering::Release);
            id
        };
        tracing::debug!("stand-in {} is a stream", standin.0);
        let Some(mut pump) = self.pump() else { return };
        pump.say(id, Frame::Open(WINDOW_BYTES));
        let added = pump.add(id, end);
        drop(pump);
        if let Err(e) = added {
            self.table().over.push((id, e));
        }
        self.wake();
    }

    /// Gives the open file of the stand-in that is this stream.
    pub fn file(&self, standin: StandinId) -> Option<Arc<OwnedFd>> {
        self.table().open.get(&standin).map(|open| open.file.clone())
    }

    /// Notes that a guest shuts its direction of writing. `false`: the stream is to become a
    /// stand-in before, because its bytes do not go home.
    pub fn shut(&self, standin: StandinId) -> bool {
        let Some(id) = self.id(standin) else { return false };
        let Some(mut pump) = self.pump() else { return false };
        if pump.partner(id).is_some() {
            return false;
        }
        let _ = pump.part(id);
        let over = pump.act(id, |end, turn| end.shut(turn));
        drop(pump);
        self.table().over.extend(over);
        self.wake();
        true
    }

    fn id(&self, standin: StandinId) -> Option<StreamId> {
        self.table().open.get(&standin).map(|open| open.id)
    }

    /// Gives the stream of this room that is the other end of the same connection, if the bytes of
    /// both stay in the room.
    pub fn partner(&self, standin: StandinId) -> Option<StandinId> {
        let id = self.id(standin)?;
        Some(StandinId(self.pump()?.partner(id)?.standin))
    }

    /// Gives the inode of the end that guests have.
    pub fn inode(&self, standin: StandinId) -> Option<u64> {
        self.table().open.get(&standin).map(|open| open.inode)
    }

    /// Ends two streams whose bytes stayed in the room, and whose guests stand still: home gets
    /// what is under way between them. Each comes with the end that its guests have, if any has it.
    pub fn end_joined(&self, ends: [(StandinId, Option<OwnedFd>); 2]) {
        let taken = ends.map(|(standin, end)| self.take(standin).map(|open| (open.id, open, end)));
        let [Some((one, _one_open, one_end)), Some((other, _other_open, other_end))] = taken else { return };
        tracing::debug!("streams {} and {} are split", one.standin, other.standin);
        let Some(mut pump) = self.pump() else { return };
        // From here on nothing comes to them.
        let split = |id, end: Option<OwnedFd>| SplitEnd { id, in_pair: end.as_ref().map(unread).unwrap_or_default() };
        let (one, other) = (split(one, one_end), split(other, other_end));
        let ids = [one.id, other.id];
        if let Err(e) = pump.split(one, other) {
            tracing::warn!("streams {ids:?} are split: {e}");
        }
        ids.into_iter().for_each(|id| pump.say(id, Frame::Close));
    }

    /// Ends a stream whose guests stand still: home has all that they wrote, and what they have not
    /// read. `guests_end`: the end that they have. Gives the stream if it has gone to another room:
    /// [`RoomStreams::await_closed`] waits until home has all of it.
    #[must_use]
    pub fn end(&self, standin: StandinId, guests_end: Option<&OwnedFd>) -> Option<StreamId> {
        let OpenStream { id, has_crossed, file: _file, .. } = self.take(standin)?;
        let mut pump = self.pump()?;
        // A stream that fails here fails below.
        let _ = pump.part(id);
        // From here on nothing comes to it.
        let unread = guests_end.and_then(|end| os::streams::unread_bytes(end.as_fd()).ok()).unwrap_or(0);
        tracing::debug!("stream {} is a stand-in again, {unread} bytes unread", standin.0);
        if let Err(e) = pump.remove(id, |end, turn| end.send_all(unread, turn)) {
            tracing::warn!("stream {id:?} ends: {e}");
        }
        if has_crossed {
            self.closing().awaited.insert(id);
        }
        pump.say(id, Frame::Close);
        pump.wake();
        has_crossed.then_some(id)
    }

    /// Ends a stream that no guest has any more.
    pub fn close(&self, standin: StandinId) {
        let Some(OpenStream { id, file: _file, .. }) = self.take(standin) else { return };
        tracing::debug!("stream {} is closed", standin.0);
        let Some(mut pump) = self.pump() else { return };
        let _ = pump.part(id);
        let _ = pump.remove(id, |_, _| Ok(()));
        pump.say(id, Frame::Close);
        pump.wake();
    }

    /// Takes a stream out of the table, with the open file of its stand-in.
    fn take(&self, standin: StandinId) -> Option<OpenStream> {
        let mut table = self.table();
        let open = table.open.remove(&standin)?;
        table.inodes.remove(&open.inode);
        self.count.store(table.open.len(), Ordering::Release);
        Some(open)
    }

    /// Obeys a frame of home's.
    ///
    /// # Errors
    /// Home sent what is no frame, or broke the protocol: the reason, in words.
    pub fn obey(&self, body: &[u8]) -> Result<(), String> {
        let (id, frame) = Frame::decode(body).map_err(|e| e.to_string())?;
        if matches!(frame, Frame::Data { .. } | Frame::Last { .. } | Frame::End(_)) {
            self.learn();
        }
        match frame {
            Frame::Join(other) => self.join(id, other),
            Frame::Way(way) => self.note_way(id, way),
            Frame::Across(peer) => self.cross(id, peer, true),
            Frame::Await(peer) => self.cross(id, peer, false),
            Frame::Part => self.part(id),
            Frame::Closed => {
                self.closing().awaited.remove(&id);
                self.has_closed.notify_all();
            }
            frame => return self.obey_home(id, frame),
        }
        Ok(())
    }

    fn obey_home(&self, id: StreamId, frame: Frame<'_>) -> Result<(), String> {
        let over = self.pump().map(|mut pump| pump.obey(id, frame)).unwrap_or_default();
        if let Some((_, StreamError::OutOfOrder(e))) = over.first() {
            return Err(e.to_string());
        }
        self.table().over.extend(over);
        self.wake();
        Ok(())
    }

    fn join(&self, one: StreamId, other: StreamId) {
        let Some(mut pump) = self.pump() else { return };
        if pump.join(one, other) {
            tracing::debug!("streams {} and {} are joined", one.standin, other.standin);
        } else {
            for id in [one, other] {
                pump.act(id, |end, _| {
                    end.release();
                    Ok(())
                });
            }
        }
        pump.wake();
    }

    fn wake(&self) {
        self.pump().into_iter().for_each(|pump| pump.wake());
    }

    /// Sends home all that guests have written until now, as far as the credit allows.
    pub fn flush(&self, uplink: &link::Sender) {
        // Frames of a stream that has just ended wait still.
        if self.pump.get().is_none() {
            return;
        }
        let _turn = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let over = self.pump().map(|mut pump| pump.turn()).unwrap_or_default();
        if !over.is_empty() {
            self.table().over.extend(over);
            self.wake();
        }
        while let Some(frame) = self.pump().and_then(|mut pump| pump.take_frame()) {
            match uplink.send(Kind::Stream, 0, 0, &[&frame]) {
                // A link that fails is noticed by its receiver.
                Ok(()) | Err(LinkError::Socket { .. } | LinkError::Closed) => {}
                Err(e) => tracing::error!("sending bytes of a stream home: {e}"),
            }
        }
    }

    /// Takes the streams that are over, each once, and why they are.
    pub fn take_over(&self) -> Vec<(StandinId, StreamError)> {
        let mut table = self.table();
        let mut taken = Vec::new();
        for (id, why) in std::mem::take(&mut table.over) {
            let standin = StandinId(id.standin);
            let open = table.open.get_mut(&standin).filter(|open| open.id == id);
            if open.is_some_and(|open| !std::mem::replace(&mut open.is_over, true)) {
                taken.push((standin, why));
            }
        }
        taken
    }

    /// Gives a descriptor that becomes readable when there is something to pump.
    pub fn waits_on(&self) -> Option<OwnedFd> {
        self.pump()?.waits_on().try_clone_to_owned().ok()
    }

    /// Gives the time after which there may be something to pump, if any.
    pub fn timeout(&self) -> Option<Duration> {
        let pump = self.pump()?.timeout();
        pump.into_iter().chain(self.fences().timeout()).min()
    }
}

/// Takes the bytes that were left unread in a guest's end, which gets another file next.
fn unread(end: &OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; os::streams::unread_bytes(end.as_fd()).unwrap_or(0)];
    let mut taken = 0;
    while taken < bytes.len() {
        match rustix::net::recv(end, &mut bytes[taken..], RecvFlags::DONTWAIT) {
            Ok((n, _)) if n > 0 => taken += n,
            _ => break,
        }
    }
    bytes.truncate(taken);
    bytes
}
