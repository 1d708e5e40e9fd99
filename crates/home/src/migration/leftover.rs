//! Pages of a process that comes home, which are here from before it left: the room is told which,
//! and says which of them are the same still.

use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use checkpoint::Run;
use room_protocol::ToRoom;
use room_protocol::page_frames::STOCKED_PAGES;

impl MigrationSession {
    /// Tells the room what there is.
    pub fn offer_leftover(&self) {
        let Some(leftover) = self.room.page_cache.claim(self.pid) else { return };
        for (pages, n) in leftover.hashes(STOCKED_PAGES).zip(0..) {
            self.room.tell(&ToRoom::PeerPages { pid: self.pid, pages, first: n == 0 });
        }
        *self.leftover.borrow_mut() = Some(leftover);
    }

    /// Has `write` write these pages, which the room says are the same still.
    pub fn write_leftover(
        &self,
        runs: &[Run],
        mut write: impl FnMut(&[Run], &[u8]) -> Result<(), MoveError>,
    ) -> Result<(), MoveError> {
        let leftover = self.leftover.borrow();
        let missing = || MoveError::Room("it takes pages for the same that are not here".into());
        for (part, pages) in leftover.as_ref().ok_or_else(missing)?.parts(runs) {
            write(&[part], &pages.ok_or_else(missing)?)?;
            self.count_stocked(leftover.as_ref().map_or(0, |leftover| leftover.left_bytes(part)));
        }
        Ok(())
    }
}
