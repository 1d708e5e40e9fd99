//! The registry of migration sessions under way, one for each process that moves.

use crate::migration::error::MoveError;
use crate::room::event::{RoomEvent, ends};
use crate::room::orders::HomeCall;
use crate::room::progress::MoveProgress;
use control_protocol::moves::HopReport;
use migration_plan::{Costs, Experience, Measured, Parts, Route};
use os::signals::Waiting;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a move waits for the room to end the former one.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

/// Sessions under way, by process.
#[derive(Debug, Default)]
pub struct Sessions {
    under_way: Mutex<HashMap<i32, UnderWay>>,
    /// Sessions that have not ended: some may have lost their room, and put the process back.
    running: AtomicUsize,
    ended: Condvar,
    /// Times of the last moves to this room and from it.
    experience: Mutex<Experience>,
    /// Processes whose former move the room has not ended yet.
    unsettled: Mutex<HashSet<i32>>,
    /// Tries to move groups of processes out so far.
    group_tries: AtomicU32,
}

#[derive(Debug)]
pub struct UnderWay {
    pub to: Sender<RoomEvent>,
    /// The process comes home: signals wait here until it has arrived, or stays away.
    pub returning: bool,
    /// The process runs at its new place, and its pages follow.
    pub residue_pending: bool,
    /// The errand for which the body waits to come home.
    pub wanted_home: Option<HomeCall>,
    pub progress: Arc<MoveProgress>,
    pub signals: Waiting,
}

impl Sessions {
    /// All sessions, by process.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<i32, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers a try to move a group of processes out.
    pub fn next_group_try(&self) -> u32 {
        self.group_tries.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives all sessions once the room has ended the former move of process `pid`, which takes it
    /// a moment after home has given that move up. Fails if the room does not end it in time.
    pub fn lock_settled(&self, pid: i32) -> Result<MutexGuard<'_, HashMap<i32, UnderWay>>, MoveError> {
        let owes = |all: &mut HashMap<i32, UnderWay>| !all.contains_key(&pid) && self.unsettled().contains(&pid);
        let waited = self.ended.wait_timeout_while(self.lock(), SETTLED_WITHIN, owes);
        let (all, late) = waited.unwrap_or_else(PoisonError::into_inner);
        if late.timed_out() { Err(MoveError::Unsettled) } else { Ok(all) }
    }

    /// Processes whose former move the room has not ended yet.
    pub fn unsettled(&self) -> MutexGuard<'_, HashSet<i32>> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an event to the session of process `pid`; `false` if there is none.
    pub fn tell(&self, pid: i32, heard: RoomEvent) -> bool {
        let all = self.lock();
        if ends(&heard).is_some() && !all.contains_key(&pid) {
            self.unsettled().remove(&pid);
            self.ended.notify_all();
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

    /// Counts the bytes on the link of a frame of pages of process `pid`.
    pub fn count_wire(&self, pid: i32, bytes: u64) {
        if let Some(under_way) = self.lock().get(&pid) {
            under_way.progress.count_wire(bytes);
        }
    }

    /// Estimates the costs of the next move to this place, in this way, of a process with these
    /// parts.
    pub fn costs(&self, to: &str, how: &str, parts: Parts) -> Costs {
        self.experience.lock().unwrap_or_else(PoisonError::into_inner).costs(Route { to, how }, parts)
    }

    /// Learns from a move that has ended what the next ones will take.
    pub fn learn(&self, leg: &HopReport) {
        let route = Route { to: &leg.to, how: &leg.how };
        let measured = Measured { parts: leg.parts, frozen_bytes: leg.frozen_bytes, freeze_us: leg.freeze_us };
        let mut experience = self.experience.lock().unwrap_or_else(PoisonError::into_inner);
        experience.moved(route, measured);
    }

    /// Tells whether any move has not ended.
    pub fn are_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Keeps the steward from ending until [`Sessions::end_running`].
    pub fn begin_running(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends what [`Sessions::begin_running`] began, and wakes those that wait for a session to end.
    pub fn end_running(&self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
        self.ended.notify_all();
    }

    /// Ends all sessions, because the room is gone.
    pub fn end(&self) {
        self.lock().clear();
        self.ended.notify_all();
    }

    /// Tells whether process `pid` runs while its pages follow.
    pub fn residue_pending(&self, pid: i32) -> bool {
        self.lock().get(&pid).is_some_and(|u| u.residue_pending)
    }

    /// Waits until all pages of process `pid` have followed; tells whether it is free to be moved
    /// then.
    pub fn wait_for_residue(&self, pid: i32) -> bool {
        let pending = |all: &mut HashMap<i32, UnderWay>| all.get(&pid).is_some_and(|u| u.residue_pending);
        let all = self.ended.wait_while(self.lock(), pending).unwrap_or_else(PoisonError::into_inner);
        !all.contains_key(&pid)
    }
}
