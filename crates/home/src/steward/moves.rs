//! Processes that go to the room while they run, and come home again. Each move has a thread to
//! itself: the kernel wants all requests of a tracer from one thread, and should that thread end,
//! as it does after a move that failed, lets the process go on.
//!
//! Of the two bodies that there are during a move one is stopped, and which one goes on is decided
//! here: before the commit point everything that fails leaves the process where it was.

mod advance;
mod ahead;
mod awaited;
mod back;
mod barred;
mod called;
mod course;
mod descriptor_kind;
mod early;
mod edges;
mod error;
mod filling;
mod following;
mod halted;
mod hand_over;
mod homeward;
mod implant;
mod leftover;
mod loans;
mod locks;
mod memory_group;
mod names;
mod observe;
mod others;
mod out;
mod pages;
mod pairs;
mod picture;
mod receive;
mod reopened;
mod sharing;
mod steward_link;
mod tasks;
mod used;
mod watch;
mod written;

pub use awaited::Awaited;
pub use called::{Called, bring_home};
pub use error::MoveError;
pub use hand_over::Beyond;
pub use pages::Pages;
pub use picture::{picture, stays};
pub use receive::receive;
pub use sharing::{Commons, take_over};
pub use steward_link::PACKET_BYTES;

use super::orders::Order;
use super::shared::Shared;
use back::Why;
use checkpoint::{Leftover, PageHash, Stocked};
use control_protocol::moves::{How, Leg, Wish};
use course::Course;
use link::Bulk;
use loans::Loans;
use migration_plan::protocol::{Protocol, Said, Side, Told};
use migration_plan::{Costs, Experience, Pace, Parts};
use os::signals::{Signal, Waiting};
use os::warm::Standby;
use room_protocol::message::{Common, CommonPair, CommonPipe, LockedFile, MemoryId};
use room_protocol::{Refusal, ToRoom};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use watch::Gauge;

/// How long the room may take for one step, its transfer apart.
const STEP_WITHIN: Duration = Duration::from_secs(20);

/// What the room says to a move.
#[derive(Debug)]
pub enum Heard {
    /// The empty body is there, or not.
    Placed(Result<(), Refusal>),
    /// So many bytes of pages more are in place there.
    Taken(u64),
    /// These pages are there from an earlier stay.
    Stocked(Vec<(u64, PageHash)>),
    /// Its memory is laid out, or not.
    LaidOut(Result<(), String>),
    /// The body stands, or not.
    Rebuilt(Result<(), String>),
    /// The body is about to be stopped; so many bytes it has of its own.
    Leaving(u64),
    /// The body, which has these threads, stands still, and nothing is under way for it here any
    /// more; so many notices had come there.
    Standing(Vec<i32>, u64),
    /// Home is to have these open files from now on.
    Share(Vec<Common>, Vec<CommonPipe>, Vec<CommonPair>),
    /// It has memory in common with these, which have to come as well, and these are its memories.
    Shares(Vec<i32>, Vec<MemoryId>),
    /// These of its open files may have locks of their own.
    Locked(Vec<LockedFile>),
    /// A part of the image; it is the last.
    Part(Vec<u8>, bool),
    /// Pages: where they lie, and their bytes.
    Pages(Pages),
    /// Pages that may be the same when it stops; which order wanted them.
    Advance(u32, Pages),
    /// These are here from before it left, and the same still.
    There(Vec<checkpoint::Run>),
    /// These come, and are full.
    Dense(Vec<checkpoint::Run>),
    /// These follow when it runs here.
    Later(Vec<checkpoint::Run>),
    /// Everything was sent (but what follows), or why not.
    Whole(Result<(), Refusal>),
    /// Everything that follows was sent, or why not.
    Drained { loan: u32, result: Result<(), String> },
    /// Nothing is missing of it here any more, or why it will be for ever.
    Complete(Result<(), String>),
    /// Nothing is left of the body there.
    Left,
    /// Of a way to another room.
    Onward(room_protocol::message::onward::Said),
    /// The other steward says so, in this try.
    Beyond(u32, steward_link::Word),
    /// It gives a deputy.
    Given(Box<steward_link::Given>),
    /// It says nothing more in this try.
    Silence(u32),
    /// The body runs there.
    Runs(Instant),
}

/// Moves under way, by process.
#[derive(Debug, Default)]
pub struct Moves {
    under_way: Mutex<HashMap<i32, UnderWay>>,
    /// Moves that have not ended: some may have lost their room, and put the process back.
    running: AtomicUsize,
    ended: Condvar,
    /// What moves to this room and from it have taken lately.
    experience: Mutex<Experience>,
    /// Processes of whose former move the room has not said the end yet.
    unsettled: Mutex<HashSet<i32>>,
}

#[derive(Debug)]
struct UnderWay {
    to: Sender<Heard>,
    /// It comes home: signals wait here until it is there (or stays away).
    returning: bool,
    /// It runs where it is to be, and its pages follow.
    drains: bool,
    /// Its body waits to come home.
    wanted_home: Option<Called>,
    gauge: Arc<Gauge>,
    signals: Waiting,
}

impl Moves {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsettled(&self) -> MutexGuard<'_, HashSet<i32>> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the move of `pid` what the room said; `false` if it is not being moved.
    pub fn tell(&self, pid: i32, heard: Heard) -> bool {
        let all = self.lock();
        if ends(&heard).is_some() && !all.contains_key(&pid) {
            self.unsettled().remove(&pid);
        }
        all.get(&pid).is_some_and(|under_way| under_way.to.send(heard).is_ok())
    }

    /// Keeps a signal of a process that is coming home; else `tell` tells the room of it. Nobody
    /// begins to come home in between: the room would be told when it has the body collected
    /// already.
    pub fn keep_signal(&self, pid: i32, tid: Option<i32>, info: [u8; 128], tell: impl FnOnce()) {
        let mut all = self.lock();
        match all.get_mut(&pid).filter(|u| u.returning) {
            Some(returning) => drop(returning.signals.add((tid, info))),
            None => tell(),
        }
    }

    /// A frame of pages of `pid` has come, so large on the wire.
    pub fn count_wire(&self, pid: i32, bytes: u64) {
        if let Some(under_way) = self.lock().get(&pid) {
            under_way.gauge.count_wire(bytes);
        }
    }

    /// What the next one to there, in this way, is expected to take, of a process of such parts.
    pub fn costs(&self, to: &str, how: &str, parts: Parts) -> Costs {
        self.experience.lock().unwrap_or_else(PoisonError::into_inner).costs(to, how, parts)
    }

    fn has_ended(&self, leg: &Leg) {
        let frozen = (leg.frozen_bytes, leg.freeze_us);
        let mut experience = self.experience.lock().unwrap_or_else(PoisonError::into_inner);
        experience.moved(&leg.to, &leg.how, leg.parts, frozen);
    }

    /// Whether any move has not ended.
    pub fn are_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// The room is gone: nobody waits for it any longer.
    pub fn end(&self) {
        self.lock().clear();
        self.ended.notify_all();
    }

    /// A process runs at its place, and its pages follow.
    fn drains(&self, pid: i32) -> bool {
        self.lock().get(&pid).is_some_and(|u| u.drains)
    }

    /// Waits while a process runs at its place and its pages follow; whether it is free to be moved
    /// then.
    fn wait_drained(&self, pid: i32) -> bool {
        let drains = |all: &mut HashMap<i32, UnderWay>| all.get(&pid).is_some_and(|u| u.drains);
        let all = self.ended.wait_while(self.lock(), drains).unwrap_or_else(PoisonError::into_inner);
        !all.contains_key(&pid)
    }
}

/// What a message of the room's is the end of.
fn ends(heard: &Heard) -> Option<Said> {
    match heard {
        Heard::Whole(_) => Some(Said::Whole),
        Heard::Left => Some(Said::Left),
        _ => None,
    }
}

/// A move under way; the registry forgets it at its end.
struct Move {
    room: Arc<Shared>,
    pid: i32,
    from: Receiver<Heard>,
    course: RefCell<Course>,
    gauge: Arc<Gauge>,
    /// The stream of its pages; whoever sends what follows gets it.
    bulk: RefCell<Bulk>,
    /// What was heard while something else was waited for.
    heard: RefCell<VecDeque<Heard>>,
    /// Of which loans it was heard that they are over.
    loans: Loans,
    /// Bytes of pages that were sent, and of these those that are not in place yet.
    on_the_way: Cell<u64>,
    /// What the room has of it from an earlier stay.
    stocked: RefCell<Stocked>,
    /// What is here from before it left, if the room was told so.
    leftover: RefCell<Option<Leftover>>,
    /// Who has the process, and what the room owes.
    protocol: Cell<Protocol>,
    /// Of one that comes from another room: the number of the talk with the steward there.
    talk: Cell<u32>,
    /// Of one that leaves home: the user who wants it; 0 if that is root, or the policy.
    asker_uid: Cell<u32>,
    /// Files of /dev/shm that it has mapped in the room, and that home's processes may open now.
    let_go: RefCell<Vec<image::File>>,
    /// The node there may host it even with root's rights.
    as_root: Cell<bool>,
}

impl Move {
    fn begin(
        room: &Arc<Shared>,
        pid: i32,
        (from_side, returning): (Side, bool),
        pace: Pace,
        gauge: Arc<Gauge>,
    ) -> Result<Move, MoveError> {
        let (to, from) = channel();
        let mut all = room.moves.lock();
        if all.contains_key(&pid) {
            return Err(MoveError::Moving);
        }
        if room.moves.unsettled().contains(&pid) {
            return Err(MoveError::Unsettled);
        }
        room.moves.running.fetch_add(1, Ordering::AcqRel);
        all.insert(
            pid,
            UnderWay {
                to,
                returning,
                drains: false,
                wanted_home: None,
                signals: Waiting::of(pid),
                gauge: gauge.clone(),
            },
        );
        Ok(Move {
            room: room.clone(),
            pid,
            from,
            course: RefCell::default(),
            gauge,
            bulk: RefCell::new(Bulk::new(pace)),
            heard: RefCell::default(),
            loans: Loans::default(),
            on_the_way: Cell::new(0),
            stocked: RefCell::default(),
            leftover: RefCell::default(),
            protocol: Cell::new(Protocol::new(from_side)),
            talk: Cell::new(0),
            asker_uid: Cell::default(),
            as_root: Cell::default(),
            let_go: RefCell::default(),
        })
    }

    /// If no less than so much is left of it at the stop, that follows when it runs there, bytes.
    fn follow_bytes(&self, to: &str, wish: Wish) -> u64 {
        let costs = || self.room.moves.costs(to, "stop", Parts::default()).limited(wish.pace.rate);
        match wish.how {
            How::Post => 0,
            How::Auto | How::Pre => costs().stop_bytes_max(wish.max_freeze_us),
            How::Stop | How::Flush => u64::MAX,
        }
    }

    /// Tells the room something that decides who runs.
    fn decide(&self, told: Told, message: &ToRoom) -> Result<(), MoveError> {
        let mut protocol = self.protocol.get();
        if let Err(e) = protocol.tell(told) {
            tracing::error!("process {}: {e:?} out of order", self.pid);
            return Err(MoveError::Moving);
        }
        self.protocol.set(protocol);
        self.room.tell(message);
        Ok(())
    }

    /// Home has all: the commit point of a way home.
    fn arrived(&self) {
        let mut protocol = self.protocol.get();
        protocol.arrived();
        self.protocol.set(protocol);
    }

    fn note(&self, heard: &Heard) {
        // Whoever waits for something else hears of it, too: of a try that was given up, pages may
        // still be on the way.
        if let Heard::Taken(bytes) = heard {
            self.on_the_way.set(self.on_the_way.get().saturating_sub(*bytes));
        }
        match heard {
            Heard::Stocked(pages) => self.stocked.borrow_mut().add(pages.iter().copied()),
            Heard::Onward(room_protocol::message::onward::Said::Stocked { bytes }) => self.count_stocked(*bytes),
            _ => {}
        }
        self.loans.note(heard);
        let mut protocol = self.protocol.get();
        ends(heard).into_iter().for_each(|said| protocol.hear(said));
        self.protocol.set(protocol);
    }

    /// A step is done.
    fn done(&self, step: &'static str) {
        self.course.borrow_mut().done(step);
    }

    /// How it went.
    fn leg(&self, to: &str, how: &str) -> Leg {
        Leg { wire_bytes: self.gauge.wire_bytes(), ..self.course.borrow().leg(to, how) }
    }

    fn hear(&self) -> Result<Heard, MoveError> {
        self.hear_within(STEP_WITHIN)
    }

    fn hear_within(&self, patience: Duration) -> Result<Heard, MoveError> {
        let kept = self.heard.borrow_mut().pop_front();
        kept.map_or_else(|| self.hear_next(patience), Ok)
    }

    /// So many bytes of pages are on their way.
    fn count(&self, bytes: u64) {
        self.course.borrow_mut().count(bytes);
        self.gauge.sent(bytes);
    }

    /// So many bytes of pages need not be sent.
    fn count_stocked(&self, bytes: u64) {
        self.course.borrow_mut().count_stocked(bytes);
        self.gauge.sent(bytes);
    }

    /// Before the commit point.
    fn check_wanted(&self) -> Result<(), MoveError> {
        if self.gauge.is_called_off() { Err(MoveError::CalledOff) } else { Ok(()) }
    }

    /// So many bytes of pages are about to be sent: waits until the room has taken enough of those
    /// before.
    fn make_way(&self, bytes: u64) -> Result<(), MoveError> {
        self.check_wanted()?;
        self.await_way(|on_the_way| on_the_way + bytes <= room_protocol::page_frames::WINDOW_BYTES)?;
        self.on_the_way.set(self.on_the_way.get() + bytes);
        Ok(())
    }

    /// Waits until no more bytes of pages are on the way than may be, or none.
    fn await_way(&self, may_be: impl Fn(u64) -> bool) -> Result<(), MoveError> {
        while self.on_the_way.get() > 0 && !may_be(self.on_the_way.get()) {
            match self.hear_next(STEP_WITHIN)? {
                Heard::Taken(_) => {}
                other => self.heard.borrow_mut().push_back(other),
            }
        }
        Ok(())
    }

    /// Waits until the room has all pages: what is sent next does not queue behind them.
    fn await_all_taken(&self) -> Result<(), MoveError> {
        self.await_way(|_| false)
    }

    fn hear_next(&self, patience: Duration) -> Result<Heard, MoveError> {
        let patience = os::fault::patience(patience);
        let heard = self.from.recv_timeout(patience);
        heard.inspect(|heard| self.note(heard)).map_err(|e| {
            MoveError::Silent(match e {
                RecvTimeoutError::Timeout => format!("within {} s", patience.as_secs()),
                RecvTimeoutError::Disconnected => "it is gone".into(),
            })
        })
    }

    /// Waits for what `wanted` picks; a refusal is the room's.
    fn expect(&self, wanted: impl Fn(Heard) -> Option<Result<(), String>>) -> Result<(), MoveError> {
        loop {
            if let Some(result) = wanted(self.hear()?) {
                return result.map_err(MoveError::Room);
            }
        }
    }

    /// The room is there, as far as is known here.
    fn has_room(&self) -> Result<(), MoveError> {
        match self.room.moves.lock().contains_key(&self.pid) {
            true => Ok(()),
            false => Err(MoveError::Silent("it is gone".into())),
        }
    }

    /// It runs, and its pages follow: who wants to move it waits for them.
    fn drains(&self) {
        if let Some(under_way) = self.room.moves.lock().get_mut(&self.pid) {
            under_way.drains = true;
        }
    }

    /// Signals wait from now on: the room is about to be told to stop the body.
    fn hold_signals(&self) {
        if let Some(under_way) = self.room.moves.lock().get_mut(&self.pid) {
            under_way.returning = true;
        }
    }

    /// These came before those that wait.
    fn put_signals_back(&self, signals: Vec<Signal>) {
        if let Some(under_way) = self.room.moves.lock().get_mut(&self.pid) {
            under_way.signals.put_back(signals);
        }
    }

    /// It stays away: signals that waited go to it, and those that come from now on.
    fn send_signals_on(&self) {
        let mut all = self.room.moves.lock();
        let Some(under_way) = all.get_mut(&self.pid) else { return };
        under_way.returning = false;
        for (tid, info) in under_way.signals.take() {
            self.room.tell(&ToRoom::Signal { pid: self.pid, tid, info: info.to_vec() });
        }
    }

    fn take_signals(&self) -> Vec<Signal> {
        self.room.moves.lock().get_mut(&self.pid).map(|u| u.signals.take()).unwrap_or_default()
    }
}

impl Drop for Move {
    fn drop(&mut self) {
        self.withdraw_leftover();
        let mut all = self.room.moves.lock();
        self.from.try_iter().for_each(|heard| self.note(&heard));
        // A room that is gone has forgotten it already, and says nothing more.
        let ended = all.remove(&self.pid);
        if ended.is_some() && !self.protocol.get().is_settled() {
            self.room.moves.unsettled().insert(self.pid);
        }
        drop(all);
        if let Some(called) = ended.and_then(|ended| ended.wanted_home) {
            self.room.poller.order(Order::BringHome(called));
        }
        self.room.moves.running.fetch_sub(1, Ordering::AcqRel);
        // It may have waited for this alone to end.
        self.room.poller.wake();
        self.room.moves.ended.notify_all();
    }
}

/// A request to move a process out of home.
#[derive(Clone, Copy, Debug)]
pub struct OutwardRequest {
    /// How its memory shall go.
    pub wish: Wish,
    /// The user who wants it; 0: root, or the policy.
    pub asker_uid: u32,
}

/// Moves a process of this home, which runs here, to the room. `tool`: who waits for it.
pub fn out(room: &Arc<Shared>, pid: i32, request: OutwardRequest, tool: Option<OwnedFd>) -> Result<Leg, String> {
    let left = in_a_thread(room, &room.args.host, tool, move |room, gauge| out::run(room, pid, request, gauge));
    learn(room, request.wish, left.map_err(|e| e.to_string()))
}

/// How a process was passed on.
pub enum Passed {
    /// It runs there.
    There(Leg),
    /// It runs here, and can only go through home, in words.
    Detour(String),
}

/// Passes a process on to another room.
pub fn pass(room: &Arc<Shared>, pid: i32, beyond: Beyond, wish: Wish, tool: Option<OwnedFd>) -> Result<Passed, String> {
    let node = beyond.node.clone();
    let passed = in_a_thread(room, &node, tool, move |room, gauge| hand_over::run(room, pid, &beyond, wish, gauge));
    match passed {
        Ok(leg) => learn(room, wish, Ok(leg)).map(Passed::There),
        Err(e) if hand_over::is_final(&e) => Err(e.to_string()),
        Err(e) => Ok(Passed::Detour(e.to_string())),
    }
}

/// Brings a process home from the room.
///
/// `family`: with those with which it shares memory, if there are any.
pub fn home(room: &Arc<Shared>, pid: i32, (wish, family): (Wish, bool), tool: Option<OwnedFd>) -> Result<Leg, String> {
    let why = if family { Why::Wished } else { Why::Alone };
    let came = in_a_thread(room, "home", tool, move |room, gauge| back::run(room, pid, wish, why, gauge));
    learn(room, wish, came.map_err(|e| e.to_string()))
}

/// A pace that was set says nothing about the next one.
fn learn(room: &Shared, wish: Wish, moved: Result<Leg, String>) -> Result<Leg, String> {
    moved.inspect(|leg| {
        if wish.pace == Pace::default() {
            room.moves.has_ended(leg);
        }
    })
}

fn in_a_thread(
    room: &Arc<Shared>,
    to: &str,
    tool: Option<OwnedFd>,
    run: impl FnOnce(&Arc<Shared>, Arc<Gauge>) -> Result<Leg, MoveError> + Send + 'static,
) -> Result<Leg, MoveError> {
    let (there, gauge) = (room.clone(), Arc::<Gauge>::default());
    let (ended, end) = channel();
    let moves = {
        let gauge = gauge.clone();
        move || {
            let moved = run(&there, gauge);
            // What went wrong may have left threads stopped, which the kernel lets go when their
            // tracer ends.
            let is_well = moved.is_ok();
            // Nobody else waits at the other end.
            drop(ended.send(moved));
            is_well
        }
    };
    let thread = Standby::start().map_err(|e| MoveError::Silent(format!("no thread to move it: {e}")))?;
    thread.run_until(c"move", moves);
    watch::wait(&gauge, to, tool.as_ref(), &end, || room.silent_ms()).ok_or(MoveError::Unexpected)?
}
