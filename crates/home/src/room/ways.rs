//! The ways between this steward's room and other rooms of the home, by which streams go from room
//! to room.

use control_protocol::steward::RoomId;
use room_protocol::message::onward::Ticket;
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a room may take to reach another one.
const MADE_WITHIN: Duration = Duration::from_secs(5);

/// The ways that this steward has had its room make.
#[derive(Debug, Default)]
pub struct Ways {
    by_room: Mutex<HashMap<RoomId, KnownWay>>,
    changed: Condvar,
}

/// A way that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewWay {
    /// The ticket, which nobody can guess.
    pub ticket: Ticket,
    /// The number of the way.
    pub number: u64,
}

#[derive(Clone, Debug)]
struct KnownWay {
    number: u64,
    state: WayState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WayState {
    /// The room tries to reach the other one.
    Made,
    /// Streams may go by it.
    Open,
    /// The reason why there is none.
    Broken(String),
}

impl Ways {
    fn lock(&self) -> MutexGuard<'_, HashMap<RoomId, KnownWay>> {
        self.by_room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a way to a room, unless there is one.
    ///
    /// # Errors
    /// The kernel gives no numbers that nobody can guess.
    pub fn begin(&self, room: RoomId) -> Result<Option<NewWay>, String> {
        let mut ways = self.lock();
        if ways.get(&room).is_some_and(|way| !matches!(way.state, WayState::Broken(_))) {
            return Ok(None);
        }
        let new = NewWay::random().map_err(|e| format!("making a ticket: {e}"))?;
        ways.insert(room, KnownWay { number: new.number, state: WayState::Made });
        Ok(Some(new))
    }

    /// Waits until the way to a room is there, and gives its number.
    ///
    /// # Errors
    /// The other room is out of reach.
    pub fn await_open(&self, room: RoomId) -> Result<u64, String> {
        let is_made = |ways: &mut HashMap<RoomId, KnownWay>| ways.get(&room).is_some_and(|w| w.state == WayState::Made);
        let waited = self.changed.wait_timeout_while(self.lock(), MADE_WITHIN, is_made);
        let (mut ways, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match ways.get(&room).cloned() {
            Some(KnownWay { number, state: WayState::Open }) => Ok(number),
            Some(KnownWay { state: WayState::Broken(why), .. }) => Err(why),
            _ => {
                ways.remove(&room);
                Err("the way to the other room was not made in time".into())
            }
        }
    }

    /// Takes what the room has said of a way.
    pub fn note(&self, number: u64, result: Result<(), String>) {
        let mut ways = self.lock();
        if let Some(way) = ways.values_mut().find(|way| way.number == number) {
            way.state = result.map_or_else(WayState::Broken, |()| WayState::Open);
        }
        self.changed.notify_all();
    }
}

impl NewWay {
    fn random() -> std::io::Result<NewWay> {
        let mut source = std::fs::File::open("/dev/urandom")?;
        let (mut ticket, mut number) = (Ticket::default(), [0; 8]);
        source.read_exact(&mut ticket)?;
        source.read_exact(&mut number)?;
        Ok(NewWay { ticket, number: u64::from_le_bytes(number) })
    }
}
