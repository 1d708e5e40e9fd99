//! Sends frames of one process to its room: its image, and pages.

use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use checkpoint::{BodyError, Run};
use control_protocol::moves::Stage;
use image::{Area, Image};
use os::inject::Memory;
use room_protocol::{Kind, page_frames};

impl MigrationSession {
    pub fn frame(&self, kind: Kind, parts: &[&[u8]]) -> Result<(), BodyError> {
        self.room.link.send_frame(kind, parts)
    }

    /// Sends an image: it is there before what is told next.
    pub fn send_image(&self, image: &Image) -> Result<(), BodyError> {
        let bytes = image.encode().map_err(|e| BodyError::NotMigratable(e.to_string()))?;
        page_frames::parts(self.pid, &bytes).try_for_each(|(head, part)| self.frame(Kind::Image, &[&head, part]))
    }

    pub fn send_batches(
        &self,
        runs: &[Run],
        areas: &[Area],
        memory: &Memory,
        fresh: bool,
        unreadable: Option<&mut Vec<Run>>,
    ) -> Result<(), MoveError> {
        let stage = if self.timings.borrow().is_frozen() { Stage::Still } else { Stage::Ahead };
        self.progress.begin(stage, runs.iter().map(|(_, bytes)| bytes).sum());
        let batch_bytes = || self.bulk.borrow().batch_bytes();
        let send = |runs: &[Run], pages: &[u8]| self.send_pages(runs, pages);
        if fresh {
            let dense = checkpoint::huge_page_ranges(self.pid, runs, areas)?;
            dense
                .chunks(page_frames::LATER_RUNS)
                .try_for_each(|part| self.frame(Kind::HugePageHints, &[&page_frames::pages_head(self.pid, part)]))?;
        }
        let pages = checkpoint::PagesToSend { runs, memory, areas, fresh, unreadable };
        let sent = checkpoint::each_batch(pages, batch_bytes, send);
        sent.or_else(|e| self.check_wanted().and(Err(e.into())))
    }

    /// Sends pages, but for those that the room has from an earlier stay.
    pub fn send_pages(&self, runs: &[Run], pages: &[u8]) -> Result<(), BodyError> {
        // A process that goes over a slow link may come back over one.
        if self.room.page_cache.wants(self.bulk.borrow().is_slow()) || !self.stocked.borrow().is_empty() {
            self.room.page_cache.note(self.pid, runs, pages);
        }
        let Some(divided) = self.stocked.borrow().divide(runs, pages) else { return self.send_all(runs, pages) };
        self.frame(Kind::PeerPages, &[&page_frames::pages_head(self.pid, &divided.there)])?;
        self.count_stocked(divided.there.iter().map(|run| run.1).sum());
        if divided.rest.is_empty() { Ok(()) } else { self.send_all(&divided.rest, &divided.bytes) }
    }

    fn send_all(&self, runs: &[Run], pages: &[u8]) -> Result<(), BodyError> {
        self.make_way(pages.len() as u64).map_err(|e| BodyError::NotMigratable(e.to_string()))?;
        self.count(pages.len() as u64);
        let parts = [&page_frames::pages_head(self.pid, runs), pages];
        let wire_bytes = self.room.link.send_pages(&mut self.bulk.borrow_mut(), Kind::Pages, &parts)?;
        self.progress.count_wire(wire_bytes);
        Ok(())
    }
}
