//! One process on its way: between home and a room, or between two rooms. Each session has a thread
//! to itself: the kernel wants all requests of a tracer from one thread, and lets the process go on
//! should that thread end, as it does after a move that failed.
//!
//! Two bodies exist during a move, and one of them is stopped. The session decides which one goes
//! on: before the commit point every failure leaves the process where it was.

use crate::deputy::record::Phase;
use crate::describe::memory_sharing::MemorySharing;
use crate::migration::error::MoveError;
use crate::migration::group_try::GroupTry;
use crate::migration::postcopy_results::PostcopyResults;
use crate::migration::timings::PhaseTimings;
use crate::room::event::{RoomEvent, ends};
use crate::room::orders::Order;
use crate::room::progress::MoveProgress;
use crate::room::sessions::UnderWay;
use crate::room::state::Room;
use checkpoint::{BodyError, CachedPages, PeerPages};
use control_protocol::moves::{HopReport, How, MoveOptions, Stage};
use link::Bulk;
use migration_plan::protocol::{HomeCommand, Protocol, Side};
use migration_plan::{Pace, Parts};
use os::signals::{Signal, Waiting};
use room_protocol::ToRoom;
use room_protocol::message::onward::Sibling;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The most tries to move a process that forks or closes files at the wrong moment.
pub const TRIES_MAX: usize = 5;

/// The reason when the steward of the room that the process leaves gives up.
pub const CALLED_OFF: &str = "the room that it leaves has called it off";
/// The longest that the room may take for one step, its transfer apart.
const STEP_WITHIN: Duration = Duration::from_secs(20);

/// A process on its way; the registry of sessions forgets this value when it is dropped.
pub struct MigrationSession {
    pub room: Arc<Room>,
    pub pid: i32,
    pub from: Receiver<RoomEvent>,
    pub timings: RefCell<PhaseTimings>,
    pub progress: Arc<MoveProgress>,
    /// The stream of pages; the sender of pages that follow takes it over.
    pub bulk: RefCell<Bulk>,
    /// Events that came while the session waited for another one.
    pub heard: RefCell<VecDeque<RoomEvent>>,
    /// Results of post-copies that are over.
    pub loans: PostcopyResults,
    /// Bytes of pages that were sent and are not in place yet.
    pub on_the_way: Cell<u64>,
    /// Pages that the room has from an earlier stay of the process.
    pub stocked: RefCell<PeerPages>,
    /// A process of another room with the same memory, until the room has been told of it.
    pub sibling: RefCell<Option<Sibling>>,
    /// Pages that are at home from before the process left, if the room was told of them.
    pub leftover: RefCell<Option<CachedPages>>,
    /// The owner of the process, and the answer that the room owes.
    pub protocol: Cell<Protocol>,
    /// The number of the talk with the steward of the room that the process comes from.
    pub talk: Cell<u32>,
    /// The user who wants the process to leave home; 0 for root and for the policy.
    pub asker_uid: Cell<u32>,
    /// Files that home holds for the process on its way to the room.
    pub reserved: RefCell<Vec<homefs::server::Reserved>>,
    /// Files that the process has mapped in the room, and that home's processes may open now.
    pub let_go: RefCell<Vec<image::File>>,
    /// The node may host the process even with root's rights.
    pub as_root: Cell<bool>,
    /// With which processes it may share memory when it leaves home.
    pub sharing: RefCell<MemorySharing>,
    /// The try in which it leaves home with others that share memory with it.
    pub group: RefCell<Option<Rc<GroupTry>>>,
}

impl MigrationSession {
    pub fn begin(
        room: &Arc<Room>,
        pid: i32,
        from_side: Side,
        pace: Pace,
        progress: Arc<MoveProgress>,
    ) -> Result<MigrationSession, MoveError> {
        let (to, from) = channel();
        let mut all = room.sessions.lock_settled(pid)?;
        if all.contains_key(&pid) {
            return Err(MoveError::Moving);
        }
        room.sessions.begin_running();
        all.insert(
            pid,
            UnderWay {
                to,
                returning: false,
                residue_pending: false,
                wanted_home: None,
                signals: Waiting::of(pid),
                progress: progress.clone(),
            },
        );
        Ok(MigrationSession {
            room: room.clone(),
            pid,
            from,
            timings: RefCell::default(),
            progress,
            bulk: RefCell::new(Bulk::new(pace)),
            heard: RefCell::default(),
            loans: PostcopyResults::default(),
            on_the_way: Cell::new(0),
            stocked: RefCell::default(),
            sibling: RefCell::default(),
            leftover: RefCell::default(),
            protocol: Cell::new(Protocol::new(from_side)),
            talk: Cell::new(0),
            asker_uid: Cell::default(),
            as_root: Cell::default(),
            sharing: RefCell::default(),
            group: RefCell::default(),
            reserved: RefCell::default(),
            let_go: RefCell::default(),
        })
    }

    /// Gives the number of bytes from which on pages that are left at the stop follow later
    /// (post-copy).
    pub fn follow_bytes(&self, to: &str, options: MoveOptions) -> u64 {
        let costs = || self.room.sessions.costs(to, "stop", Parts::default()).limited(options.pace.rate);
        match options.how {
            How::Post => 0,
            How::Auto | How::Pre => costs().stop_bytes_max(options.max_freeze_us),
            How::Stop | How::Flush => u64::MAX,
        }
    }

    /// Sends the room a command that decides which body runs. An error: the command is out of
    /// order.
    pub fn decide(&self, told: HomeCommand, message: &ToRoom) -> Result<(), MoveError> {
        let mut protocol = self.protocol.get();
        if let Err(e) = protocol.tell(told) {
            tracing::error!("process {}: {e:?} out of order", self.pid);
            return Err(MoveError::Moving);
        }
        self.protocol.set(protocol);
        self.room.tell(message);
        Ok(())
    }

    /// Commits a way home: home has all state of the process.
    pub fn arrived(&self) {
        let mut protocol = self.protocol.get();
        protocol.arrived();
        self.protocol.set(protocol);
    }

    pub fn note(&self, heard: &RoomEvent) {
        // Whoever waits for something else hears of it, too: of a try that was given up, pages may
        // still be on the way.
        if let RoomEvent::Taken(bytes) = heard {
            self.on_the_way.set(self.on_the_way.get().saturating_sub(*bytes));
        }
        match heard {
            RoomEvent::PeerPages(pages) => self.stocked.borrow_mut().add(pages.iter().copied()),
            RoomEvent::Onward(room_protocol::message::onward::Said::PeerPages { bytes }) => self.count_stocked(*bytes),
            _ => {}
        }
        self.loans.note(heard);
        let mut protocol = self.protocol.get();
        ends(heard).into_iter().for_each(|said| protocol.hear(said));
        self.protocol.set(protocol);
    }

    /// Ends a step, for the report.
    pub fn done(&self, step: &'static str) {
        self.timings.borrow_mut().done(step);
    }

    /// Notes that the body is about to be stopped, with so much memory of its own.
    pub fn note_leaving(&self, own_bytes: u64) {
        self.done("look there");
        self.progress.begin(Stage::Still, own_bytes);
        self.timings.borrow_mut().freeze(Instant::now());
    }

    /// Reports how the move went.
    pub fn report(&self, to: &str, how: &str) -> HopReport {
        HopReport { wire_bytes: self.progress.wire_bytes(), ..self.timings.borrow().report(to, how) }
    }

    pub fn hear(&self) -> Result<RoomEvent, MoveError> {
        self.hear_within(STEP_WITHIN)
    }

    pub fn hear_within(&self, patience: Duration) -> Result<RoomEvent, MoveError> {
        let kept = self.heard.borrow_mut().pop_front();
        kept.map_or_else(|| self.hear_next(patience), Ok)
    }

    /// Counts bytes of pages that were sent.
    pub fn count(&self, bytes: u64) {
        self.timings.borrow_mut().count(bytes);
        self.progress.sent(bytes);
    }

    /// Counts bytes of pages that need not be sent.
    pub fn count_stocked(&self, bytes: u64) {
        self.timings.borrow_mut().count_stocked(bytes);
        self.progress.sent(bytes);
    }

    /// Fails if the user has called the move off. For use before the commit point.
    pub fn check_wanted(&self) -> Result<(), MoveError> {
        if self.progress.is_called_off() { Err(MoveError::CalledOff) } else { Ok(()) }
    }

    /// Waits until the room has taken enough earlier pages, so that `bytes` more may be sent.
    pub fn make_way(&self, bytes: u64) -> Result<(), MoveError> {
        self.check_wanted()?;
        self.await_way(|on_the_way| on_the_way + bytes <= room_protocol::page_frames::WINDOW_BYTES)?;
        self.on_the_way.set(self.on_the_way.get() + bytes);
        Ok(())
    }

    /// Waits until no bytes of pages are on the way, or as few as `may_be` allows.
    pub fn await_way(&self, may_be: impl Fn(u64) -> bool) -> Result<(), MoveError> {
        while self.on_the_way.get() > 0 && !may_be(self.on_the_way.get()) {
            match self.hear_next(STEP_WITHIN)? {
                RoomEvent::Taken(_) => {}
                other => self.heard.borrow_mut().push_back(other),
            }
        }
        Ok(())
    }

    /// Waits until the room has all pages, so that the next message does not queue behind them.
    pub fn await_all_taken(&self) -> Result<(), MoveError> {
        self.await_way(|_| false)
    }

    pub fn hear_next(&self, patience: Duration) -> Result<RoomEvent, MoveError> {
        let patience = os::fault::patience(patience);
        let heard = self.from.recv_timeout(patience);
        heard.inspect(|heard| self.note(heard)).map_err(|e| {
            MoveError::Silent(match e {
                RecvTimeoutError::Timeout => format!("within {} s", patience.as_secs()),
                RecvTimeoutError::Disconnected => "it is gone".into(),
            })
        })
    }

    /// Waits for the event that `wanted` picks, and gives its result; an error is the room's.
    pub fn expect(&self, wanted: impl Fn(RoomEvent) -> Option<Result<(), String>>) -> Result<(), MoveError> {
        loop {
            if let Some(result) = wanted(self.hear()?) {
                return result.map_err(MoveError::Room);
            }
        }
    }

    /// Waits until the room has an empty body, with its files open. The steward of a room that the
    /// process leaves may call it off.
    pub fn await_placed(&self) -> Result<(), MoveError> {
        loop {
            match self.hear()? {
                RoomEvent::Placed(result) => return Ok(result?),
                RoomEvent::Silence(talk) if talk == self.talk.get() => return Err(MoveError::Room(CALLED_OFF.into())),
                _ => {}
            }
        }
    }

    /// Whether the body of process `pid` runs in this room.
    pub fn is_away(&self, pid: i32) -> bool {
        self.room.table().deputies.get(&pid).is_some_and(|d| d.phase == Phase::Away)
    }

    /// Fails if the room is known to be gone.
    pub fn has_room(&self) -> Result<(), MoveError> {
        match self.room.sessions.lock().contains_key(&self.pid) {
            true => Ok(()),
            false => Err(MoveError::Silent("it is gone".into())),
        }
    }

    /// Marks the process as running while its pages follow: the next move waits for them.
    pub fn begin_residue(&self) {
        if let Some(under_way) = self.room.sessions.lock().get_mut(&self.pid) {
            under_way.residue_pending = true;
        }
    }

    /// Keeps signals from now on, because the room is about to be told to stop the body.
    pub fn hold_signals(&self) {
        if let Some(under_way) = self.room.sessions.lock().get_mut(&self.pid) {
            under_way.returning = true;
        }
    }

    /// Puts signals back before those that have come since.
    pub fn put_signals_back(&self, signals: Vec<Signal>) {
        if let Some(under_way) = self.room.sessions.lock().get_mut(&self.pid) {
            under_way.signals.put_back(signals);
        }
    }

    /// Sends the kept signals to the body, which stays away, and all later ones at once.
    pub fn send_signals_on(&self) {
        let mut all = self.room.sessions.lock();
        let Some(under_way) = all.get_mut(&self.pid) else { return };
        under_way.returning = false;
        for (tid, info) in under_way.signals.take() {
            self.room.tell(&ToRoom::Signal { pid: self.pid, tid, info: info.to_vec() });
        }
    }

    pub fn take_signals(&self) -> Vec<Signal> {
        self.room.sessions.lock().get_mut(&self.pid).map(|u| u.signals.take()).unwrap_or_default()
    }

    /// Tells the room that home has no pages any more, so that the next move does not count on
    /// them.
    pub fn withdraw_leftover(&self) {
        if self.leftover.take().is_some() {
            self.room.tell(&ToRoom::PeerPages { pid: self.pid, pages: Vec::new(), first: true });
        }
    }
}

impl Drop for MigrationSession {
    fn drop(&mut self) {
        self.withdraw_leftover();
        let mut all = self.room.sessions.lock();
        self.from.try_iter().for_each(|heard| self.note(&heard));
        // A room that is gone has forgotten it already, and says nothing more.
        let ended = all.remove(&self.pid);
        if ended.is_some() && !self.protocol.get().is_settled() {
            self.room.sessions.unsettled().insert(self.pid);
        }
        drop(all);
        if let Some(called) = ended.and_then(|ended| ended.wanted_home) {
            self.room.poller.order(Order::BringHome(called));
        }
        self.room.sessions.end_running();
        // The room may have waited for this alone to end.
        self.room.poller.wake();
    }
}

/// Whether process `pid` has ended, reaped or not.
pub fn has_ended(pid: i32) -> bool {
    os::process::status(pid).map_or(true, |status| matches!(status.state, 'Z' | 'X'))
}

/// Checks that the body of process `pid` runs in the room.
pub fn must_be_away(room: &Room, pid: i32) -> Result<(), MoveError> {
    match room.table().deputies.get(&pid).map(|deputy| &deputy.phase) {
        Some(Phase::Away) => Ok(()),
        Some(Phase::Ending) => Err(BodyError::Exited.into()),
        _ if has_ended(pid) => Err(BodyError::Exited.into()),
        _ => Err(MoveError::NotAway),
    }
}
