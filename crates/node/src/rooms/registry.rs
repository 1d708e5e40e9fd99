//! What the daemon knows of this home's rooms.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use control_protocol::steward::{RoomId, RoomKind};

use crate::hosted::Process;
use crate::locks::lock;
use crate::placement::Refusal;
use crate::turns::Turns;

/// Whose processes a room has, and what they find there. Rooms that differ in that are different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tenancy {
    /// The id of the user.
    pub(crate) owner: u32,
    /// The kind of the room.
    pub(crate) kind: RoomKind,
}

/// The room of one user on one host, if there is one. Who sets it up holds the lock: others wait
/// and share it.
pub(super) type Slot = Arc<Mutex<Option<RoomId>>>;

/// Whether a node is a target.
pub(super) type Verdict = Result<(), Refusal>;

/// A room whose warden is on its way.
pub(super) struct Arrival {
    /// Its steward's process, which has begun.
    pub(super) steward: Process,
    /// Who made the room waits at the other end.
    pub(super) handed: SyncSender<Result<(), String>>,
}

/// This home's rooms.
#[derive(Default)]
pub(crate) struct Rooms {
    /// By host and tenancy.
    pub(super) slots: Mutex<HashMap<(String, Tenancy), Slot>>,
    pub(super) arrivals: Mutex<HashMap<RoomId, Arrival>>,
    /// Rooms that are made at once wait for one another.
    pub(super) turns: Turns,
    /// For each host with a room: when it was surveyed, and whether it is a target.
    pub(super) verdicts: Mutex<HashMap<String, (Instant, Verdict)>>,
    /// Hosts whose room shows this home's wall clock, for theirs is wrong.
    pub(super) shows_clock: Mutex<HashSet<String>>,
    /// Held while a room of another home is taken in: they are counted one by one.
    pub(crate) taking_in: Mutex<()>,
}

impl Rooms {
    pub(super) fn slot(&self, host: &str, tenancy: Tenancy) -> Slot {
        Arc::clone(lock(&self.slots).entry((host.to_owned(), tenancy)).or_default())
    }

    /// Hosts with a room. One that is just being set up need not be among them.
    pub(crate) fn hosts(&self) -> BTreeSet<String> {
        let slots = lock(&self.slots);
        let in_use = slots.iter().filter(|(_, slot)| slot.try_lock().is_ok_and(|room| room.is_some()));
        in_use.map(|((host, _), _)| host.clone()).collect()
    }

    /// This host does not answer any more.
    pub(crate) fn is_silent(&self, host: &str) {
        lock(&self.verdicts).insert(host.to_owned(), (Instant::now(), Err(Refusal::Silent { name: host.to_owned() })));
    }

    /// This host answers: if it was silent, the next who wants to place there surveys it anew.
    pub(crate) fn heard_of(&self, host: &str) {
        let mut verdicts = lock(&self.verdicts);
        if matches!(verdicts.get(host), Some((_, Err(Refusal::Silent { .. })))) {
            verdicts.remove(host);
        }
    }

    /// Why this host was no target, if that was found out lately.
    pub(crate) fn refused_lately(&self, host: &str, age: Duration) -> Option<Refusal> {
        let verdicts = lock(&self.verdicts);
        verdicts.get(host).filter(|(at, _)| at.elapsed() < age).and_then(|(_, verdict)| verdict.clone().err())
    }
}
