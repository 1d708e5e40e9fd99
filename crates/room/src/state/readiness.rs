//! What is known of the readiness of stand-ins. Home tells every change of what is watched, and
//! with every result the state after it, in one order; so what was told last holds, except where
//! processes at home use the same open file: what they take is not told.

use crate::sandbox::spares::is_own;
use room_protocol::message::StandinId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct State {
    /// What home told last, once it watches.
    known: Option<u16>,
    /// The kernel's handle, if somebody waits or has waited.
    handle: Option<u64>,
    /// Something of it waits in the room to be taken.
    unclaimed: bool,
}

/// The stand-ins that were ever polled.
#[derive(Debug, Default)]
pub struct Readiness {
    states: Mutex<HashMap<StandinId, State>>,
}

impl Readiness {
    fn lock(&self) -> MutexGuard<'_, HashMap<StandinId, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody polls for `events`, and waits if there is a handle: what is ready, or `None` if
    /// home must be asked.
    pub fn polled(&self, standin: StandinId, events: u16, handle: Option<u64>) -> Option<u16> {
        let mut states = self.lock();
        let state = states.entry(standin).or_default();
        state.handle = handle.or(state.handle);
        let here = if state.unclaimed { libc::POLLIN as u16 } else { 0 };
        if here & events != 0 {
            return Some(state.known.unwrap_or(0) | here);
        }
        state.known.filter(|known| is_own(standin) || known & events == 0)
    }

    /// Keeps what home says of this stand-in from now on; whether it has said nothing yet.
    pub fn begins(&self, standin: StandinId) -> bool {
        self.lock().entry(standin).or_default().known.is_none()
    }

    /// Returns the readiness that home told last, with input that waits here; `None` if home has
    /// never told any.
    pub fn known(&self, standin: StandinId) -> Option<u16> {
        let states = self.lock();
        let state = states.get(&standin)?;
        state.known.map(|known| if state.unclaimed { known | libc::POLLIN as u16 } else { known })
    }

    /// Something of it waits in the room, or no more: whom to wake.
    pub fn unclaimed(&self, standin: StandinId, any: bool) -> Option<u64> {
        let mut states = self.lock();
        let state = states.entry(standin).or_default();
        state.unclaimed = any;
        state.handle.filter(|_| any)
    }

    /// Home says so because something happened: whom to wake. Somebody may wait for the event
    /// itself (EPOLLET), so also if the bits are the same.
    pub fn changed(&self, standin: StandinId, events: u16) -> Option<u64> {
        let mut states = self.lock();
        let state = states.get_mut(&standin)?;
        state.known = Some(events);
        state.handle
    }

    /// Home says so with a result: whom to wake, if it is ready for more than before.
    pub fn returned(&self, standin: StandinId, events: u16) -> Option<u64> {
        let mut states = self.lock();
        let state = states.get_mut(&standin)?;
        let more = state.known.is_none_or(|known| events & !known != 0);
        state.known = Some(events);
        state.handle.filter(|_| more)
    }

    /// The stand-in is closed.
    pub fn forget(&self, standin: StandinId) {
        self.lock().remove(&standin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u16 = 1;
    const OUT: u16 = 4;

    #[test]
    fn what_was_told_holds() {
        let readiness = Readiness::default();
        let own = StandinId(1 << 31);
        assert_eq!(readiness.polled(own, IN, None), None);
        assert_eq!(readiness.returned(own, OUT), None);
        assert_eq!(readiness.polled(own, IN, Some(7)), Some(OUT));
        assert_eq!(readiness.changed(own, IN | OUT), Some(7));
        assert_eq!(readiness.changed(own, IN | OUT), Some(7));
        assert_eq!(readiness.returned(own, OUT), None);
        assert_eq!(readiness.returned(own, IN | OUT), Some(7));
        assert_eq!(readiness.polled(own, IN, None), Some(IN | OUT));
    }

    #[test]
    fn what_is_watched_first_is_asked_for_once() {
        let (readiness, own) = (Readiness::default(), StandinId(1 << 31));
        assert!(readiness.begins(own) && readiness.begins(own));
        assert_eq!(readiness.returned(own, OUT), None);
        assert_eq!((readiness.begins(own), readiness.known(own)), (false, Some(OUT)));
    }

    #[test]
    fn what_home_shares_is_asked_for_before_it_is_called_ready() {
        let readiness = Readiness::default();
        let placed = StandinId(1);
        readiness.polled(placed, IN, None);
        readiness.changed(placed, IN);
        assert_eq!(readiness.polled(placed, IN, None), None);
        assert_eq!(readiness.polled(placed, OUT, None), Some(IN));
    }
}
