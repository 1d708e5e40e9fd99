//! The ways to other rooms of the same home, by which streams go straight from room to room.

use link::{LinkError, Sender};
use room_protocol::Kind;
use room_protocol::message::onward::Ticket;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ways that other rooms may make at once.
const EXPECTED_MAX: usize = 256;

/// The ways of a room, by number.
#[derive(Default)]
pub struct Ways {
    open: Mutex<HashMap<u64, Arc<Sender>>>,
    expected: Mutex<HashMap<Ticket, ExpectedWay>>,
}

impl std::fmt::Debug for Ways {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ways").field(&self.lock().keys()).finish()
    }
}

/// A way that another room is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedWay {
    /// The number of the way.
    pub way: u64,
    /// The node that makes it.
    pub from: String,
}

impl Ways {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Sender>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expected(&self) -> MutexGuard<'_, HashMap<Ticket, ExpectedWay>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that another room may make a way.
    pub fn expect(&self, ticket: Ticket, way: ExpectedWay) {
        let mut expected = self.expected();
        if expected.len() < EXPECTED_MAX {
            expected.insert(ticket, way);
        }
    }

    /// Gives the way that comes with this ticket from this node, once.
    pub fn take_expected(&self, ticket: &Ticket, from: &str) -> Option<u64> {
        let mut expected = self.expected();
        expected.get(ticket).filter(|way| way.from == from)?;
        expected.remove(ticket).map(|way| way.way)
    }

    /// Notes that a way is there.
    pub fn open(&self, way: u64, link: Arc<Sender>) {
        self.lock().insert(way, link);
    }

    /// Tells whether a way is there.
    pub fn is_open(&self, way: u64) -> bool {
        self.lock().contains_key(&way)
    }

    /// Forgets a way that broke.
    pub fn forget(&self, way: u64) {
        self.lock().remove(&way);
    }

    /// Sends a frame of a stream. The stream keeps a frame that goes by a broken way.
    pub fn send(&self, way: u64, frame: &[u8]) {
        let Some(link) = self.lock().get(&way).cloned() else { return };
        match link.send(Kind::Stream, 0, 0, &[frame]) {
            // The receiver notices a link that fails.
            Ok(()) | Err(LinkError::Socket { .. } | LinkError::Closed) => {}
            Err(e) => tracing::error!("sending bytes of a stream to another room: {e}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_lets_its_node_in_once() {
        let ways = Ways::default();
        ways.expect([1; 16], ExpectedWay { way: 7, from: "n2".into() });
        assert_eq!(ways.take_expected(&[1; 16], "n3"), None);
        assert_eq!(ways.take_expected(&[2; 16], "n2"), None);
        assert_eq!(ways.take_expected(&[1; 16], "n2"), Some(7));
        assert_eq!(ways.take_expected(&[1; 16], "n2"), None);
    }
}
