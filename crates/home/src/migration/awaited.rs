//! Sessions whose outcome somebody waits for.

use crate::room::state::Room;

/// Somebody waits for the outcome of a move: until this is dropped the steward does not end.
pub struct Awaited<'a>(&'a Room);

impl<'a> Awaited<'a> {
    /// From now on.
    pub fn begin(room: &'a Room) -> Awaited<'a> {
        room.sessions.begin_running();
        Awaited(room)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.sessions.end_running();
        self.0.poller.wake();
    }
}
