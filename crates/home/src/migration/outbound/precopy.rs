//! Pre-copy from home: pages go to the room while the process runs.

use crate::describe::snapshot::ProcessSnapshot;
use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use crate::room::event::RoomEvent;
use checkpoint::{Ahead, BodyError, Copied, preliminary};
use image::Area;
use migration_plan::Rounds;
use os::inject::Memory;
use os::pidfd::PidFd;
use os::track::{Tracker, USERFAULTFD_FLAGS};
use room_protocol::ToRoom;
use std::time::Instant;

impl MigrationSession {
    /// Sends the memory while the process runs.
    pub fn send_ahead(&self, pidfd: &PidFd, observed: &ProcessSnapshot, rounds: Rounds) -> Result<Ahead, MoveError> {
        os::fault::at("ahead")?;
        let areas = self.begin_layout(observed, true)?;
        let mut ahead = Ahead::new(self.track(pidfd)?, areas);
        self.done("track");
        self.await_layout()?;
        let memory = Memory::of(self.pid)?;
        ahead.send(rounds, |round| {
            let before = self.timings.borrow().page_bytes();
            self.send_batches(round.runs, round.areas, &memory, round.fresh, Some(&mut round.unreadable))?;
            self.await_all_taken()?;
            os::fault::at("round")?;
            self.done("round");
            Ok::<_, MoveError>(self.timings.borrow().page_bytes() - before)
        })?;
        Ok(ahead)
    }

    /// Sends the memory of a small process while it runs, and keeps a copy. `None`: it changes too
    /// quickly even for that.
    pub fn send_copy(&self, observed: &ProcessSnapshot, mut rounds: Rounds) -> Result<Option<Ahead>, MoveError> {
        os::fault::at("ahead")?;
        let areas = self.begin_layout(observed, true)?;
        let sent = self.send_copied(Copied::of(self.pid, &areas), &areas)?;
        Ok(sent.map(|(copied, took_us)| {
            rounds.sent(copied.bytes(), took_us);
            Ahead::copied(copied, areas, rounds.rest_bytes_max())
        }))
    }

    /// Sends the pages that cannot follow a process, those of files' copies, and keeps a copy.
    pub fn send_files(&self, observed: &ProcessSnapshot) -> Result<Option<Ahead>, MoveError> {
        os::fault::at("ahead")?;
        // To look through what the room has from an earlier stay takes longer than to send these.
        let areas = self.begin_layout(observed, false)?;
        let sent = self.send_copied(Copied::of_files(self.pid, &areas), &areas)?;
        Ok(sent.map(|(copied, _)| Ahead::of_files(copied, areas)))
    }

    /// How long it took until they were in place, microseconds.
    fn send_copied(
        &self,
        copied: Result<Copied, BodyError>,
        areas: &[Area],
    ) -> Result<Option<(Copied, u64)>, MoveError> {
        self.await_layout()?;
        let Ok(copied) = copied else { return Ok(None) };
        let begun = Instant::now();
        copied.each(areas, || self.bulk.borrow().batch_bytes(), |runs, pages| self.send_pages(runs, pages))?;
        self.await_all_taken()?;
        self.done("copy");
        Ok(Some((copied, begun.elapsed().as_micros() as u64)))
    }

    /// Has the room lay out the memory of the empty body before the process is stopped. What
    /// changes until then is made to fit.
    pub fn lay_out_there(&self, observed: &ProcessSnapshot) -> Result<(), MoveError> {
        self.begin_layout(observed, true)?;
        self.await_layout()
    }

    /// The areas that are laid out. `stocked`: the room says what it has of them from an earlier
    /// stay.
    fn begin_layout(&self, observed: &ProcessSnapshot, stocked: bool) -> Result<Vec<Area>, MoveError> {
        let image = preliminary(self.pid, observed.image());
        self.send_image(&image)?;
        self.stocked.borrow_mut().clear();
        // Its ticket opens the other room once.
        let sibling = self.sibling.take().filter(|_| stocked).map(Box::new);
        self.room.tell(&ToRoom::LayOut { pid: self.pid, stocked, sibling });
        Ok(image.areas)
    }

    fn await_layout(&self) -> Result<(), MoveError> {
        self.expect(|heard| match heard {
            RoomEvent::LaidOut(result) => Some(result),
            _ => None,
        })?;
        self.done("lay out there");
        Ok(())
    }

    /// The process makes a userfaultfd, of which only we keep a descriptor.
    fn track(&self, pidfd: &PidFd) -> Result<Tracker, MoveError> {
        let uffd = checkpoint::visit(self.pid, |inside| {
            let args = [USERFAULTFD_FLAGS, 0, 0, 0, 0, 0];
            let number = inside.must("watching its writes (userfaultfd)", libc::SYS_userfaultfd, args)?;
            let uffd = pidfd.get_fd(number as i32);
            inside.must("closing its userfaultfd", libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
            Ok(uffd?)
        })?;
        Ok(Tracker::new(uffd, self.pid)?)
    }
}
