//! Moves whose outcome somebody waits for.

use super::Shared;
use std::sync::atomic::Ordering;

/// Somebody waits for the outcome of a move: until this is dropped the steward does not end.
pub struct Awaited<'a>(&'a Shared);

impl<'a> Awaited<'a> {
    /// From now on.
    pub fn begin(room: &'a Shared) -> Awaited<'a> {
        room.moves.running.fetch_add(1, Ordering::AcqRel);
        Awaited(room)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.moves.running.fetch_sub(1, Ordering::AcqRel);
        self.0.poller.wake();
    }
}
