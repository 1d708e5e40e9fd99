//! Takes the state of a body that has been stopped: its image and its pages fill the deputy.

use crate::migration::error::MoveError;
use crate::migration::idle::IDLE_WITHIN;
use crate::migration::inbound::early_stop::EarlyStop;
use crate::migration::inbound::known_memories::KnownMemories;
use crate::migration::inbound::prelaid::PrelaidMemory;
use crate::migration::session::MigrationSession;
use crate::restore::deputy_restore::{DeputyMemory, DeputyRestore};
use crate::restore::edges::Edges;
use crate::restore::locks::Locks;
use crate::room::event::RoomEvent;
use crate::room::page_frame::Pages;
use checkpoint::{BodyError, Run};
use image::Image;
use os::areas::Area;
use room_protocol::ToRoom;
use room_protocol::message::onward::Said;
use room_protocol::message::{LockedFile, MemoryId};

/// A deputy that has all of its program's state.
pub struct Received {
    /// The filled deputy, before the commit point.
    pub restore: DeputyRestore,
    /// Processes that share memory with this one, and have to come as well.
    pub others: Vec<i32>,
}

/// A body on its way into its deputy.
struct InboundMove<'a> {
    session: &'a MigrationSession,
    /// Memories that processes which came before have already.
    known: &'a mut KnownMemories,
    /// The process comes for a call that only home can serve.
    must_come: bool,
    /// The image so far, encoded.
    image: Vec<u8>,
    /// Open files that may have locks of their own.
    locked: Vec<LockedFile>,
    /// Notices that had come to the room when the body stood still.
    noticed: u64,
    memories: Vec<MemoryId>,
    others: Vec<i32>,
    /// Memory that came ahead, until the deputy that has it is filled.
    laid: Option<PrelaidMemory>,
    /// The deputy, if it was stopped before the image was here.
    early: Option<EarlyStop>,
    /// The deputy that is filled, once the image is whole.
    restore: Option<DeputyRestore>,
}

impl MigrationSession {
    /// Fills the deputy with what the room sends of the stopped body; `laid` has come ahead. On
    /// failure the deputy is as it was.
    pub fn receive(
        &self,
        must_come: bool,
        laid: Option<PrelaidMemory>,
        known: &mut KnownMemories,
    ) -> Result<Received, MoveError> {
        let mut inbound = InboundMove {
            session: self,
            known,
            must_come,
            image: Vec::new(),
            locked: Vec::new(),
            noticed: 0,
            memories: Vec::new(),
            others: Vec::new(),
            laid,
            early: None,
            restore: None,
        };
        let taken = os::fault::at("recall").map_err(MoveError::from).and_then(|()| inbound.take_all());
        self.done("pages");
        inbound.end(taken)
    }

    /// Checks that the stopped deputy has nothing in its memory but the blob and what was `laid`
    /// out. One whose body still fetches pages from it has these, too.
    fn check_memory(&self, areas: &[Area], laid: &[(u64, u64)]) -> Result<(), BodyError> {
        let table = self.room.table();
        let deputy = table.deputies.get(&self.pid).ok_or(BodyError::Exited)?;
        if deputy.lends { Ok(()) } else { Ok(deputy.proof.check_memory(areas, laid)?) }
    }
}

impl InboundMove<'_> {
    /// Hears the room until everything was sent.
    fn take_all(&mut self) -> Result<(), MoveError> {
        loop {
            match self.session.hear()? {
                RoomEvent::Whole(whole) => return Ok(whole?),
                event => self.take(event)?,
            }
        }
    }

    fn take(&mut self, event: RoomEvent) -> Result<(), MoveError> {
        match event {
            RoomEvent::Part(part, last) => self.take_part(&part, last)?,
            RoomEvent::Leaving(own_bytes) => self.session.note_leaving(own_bytes),
            RoomEvent::Share(common) => self.session.share_and_tell(&common),
            RoomEvent::Standing(tids, noticed) => {
                self.noticed = noticed;
                if self.restore.is_none() && self.early.is_none() {
                    self.early = self.session.stop_early(tids, self.laid.as_ref());
                }
            }
            RoomEvent::Locked(files) => self.locked = files,
            RoomEvent::Shares(others, memories) => (self.others, self.memories) = (others, memories),
            RoomEvent::Later(runs) => self.restore()?.expect_later(&runs)?,
            RoomEvent::HugePageHints(runs) => self.restore()?.expect_dense(&runs)?,
            RoomEvent::Onward(Said::Gone(runs)) => self.restore()?.discard(&runs)?,
            RoomEvent::Pages(pages) => self.take_pages(&pages)?,
            RoomEvent::There(runs) => self.take_leftover(&runs)?,
            _ => {}
        }
        Ok(())
    }

    /// Takes a part of the image, if that stays within its bound.
    fn take_part(&mut self, part: &[u8], last: bool) -> Result<(), MoveError> {
        if self.image.len() + part.len() > image::IMAGE_BYTES_MAX {
            return Ok(());
        }
        self.image.extend(part);
        // The deputy is made ready while the room looks for the pages.
        if last { self.restore().map(drop) } else { Ok(()) }
    }

    fn take_pages(&mut self, pages: &Pages) -> Result<(), MoveError> {
        let session = self.session;
        let bytes = pages.bytes().len() as u64;
        let ready = self.restore();
        session.count(bytes);
        session.check_wanted().and(ready)?.write(&pages.runs, pages.bytes())?;
        session.room.tell(&ToRoom::Taken { pid: session.pid, bytes });
        Ok(())
    }

    /// Writes pages that are here from before the process left.
    fn take_leftover(&mut self, runs: &[Run]) -> Result<(), MoveError> {
        let session = self.session;
        let ready = self.restore();
        let restore = session.check_wanted().and(ready)?;
        session.write_leftover(runs, |runs, pages| Ok(restore.write(runs, pages)?))
    }

    /// The deputy that is filled; the image is whole when anything asks for it.
    fn restore(&mut self) -> Result<&mut DeputyRestore, MoveError> {
        let restore = match self.restore.take() {
            Some(restore) => restore,
            None => {
                self.session.done("image");
                let begun = self.begin_restore()?;
                self.session.done("lay out");
                begun
            }
        };
        Ok(self.restore.insert(restore))
    }

    /// Stops the deputy, if it was not before, and lays the body's memory out in it, beside its
    /// own; what of that has come ahead stays.
    fn begin_restore(&mut self) -> Result<DeputyRestore, MoveError> {
        let (session, pid) = (self.session, self.session.pid);
        let image = Image::decode(&self.image).map_err(|e| MoveError::Room(e.to_string()))?;
        let mut wanted: Vec<i32> = image.threads.iter().map(|t| t.tid).collect();
        wanted.sort_unstable();
        if image.process.pid != pid {
            return Err(MoveError::Room("the image is another process'".into()));
        }
        session.let_go_held(&image);
        let locks = Locks::of(&session.room, &image, &self.locked, self.must_come)?;
        os::fault::at("stop deputy")?;
        let (deputy, areas) = match self.early.take() {
            Some(early) if early.serves(&image, &wanted) => (early.deputy, early.areas),
            early => {
                early.map_or(Ok(()), EarlyStop::undo)?;
                session.stop_deputy(&wanted, &image.areas, IDLE_WITHIN)?
            }
        };
        let ahead: Vec<(u64, u64)> =
            self.laid.iter().flat_map(|laid| laid.areas()).map(|area| (area.start, area.end)).collect();
        let is_ahead = |a: &Area| os::pages::subtract(&[(a.start, a.end)], &ahead).is_empty();
        if let Err(why) = session.check_memory(&areas, &ahead) {
            deputy.give_back()?.into_iter().for_each(|t| drop(t.detach(0)));
            return Err(why.into());
        }
        let own: Vec<Area> = areas.iter().filter(|a| a.name != b"[vsyscall]" && !is_ahead(a)).cloned().collect();
        let ahead = self.laid.take().map(PrelaidMemory::into_areas).unwrap_or_default();
        let edges = Edges::of(&session.room, pid, self.noticed);
        let mut restore = DeputyRestore::new(image, deputy, DeputyMemory { own, ahead }, locks, edges);
        let prepared = restore.prepare(&session.room, pid, &self.known.of(&self.memories));
        match prepared.and_then(|()| self.known.learn(&self.memories, |place| restore.memory(place))) {
            Ok(()) => Ok(restore),
            Err(e) => {
                restore.undo()?;
                Err(e.into())
            }
        }
    }

    /// Ends the reception: what was begun in vain is undone.
    fn end(self, taken: Result<(), MoveError>) -> Result<Received, MoveError> {
        let InboundMove { laid, early, restore, others, .. } = self;
        let undone = early.map_or(Ok(()), EarlyStop::undo).map_err(MoveError::from);
        let ended = undone.and_then(|()| match (taken, restore) {
            (Ok(()), Some(restore)) => Ok(Received { restore, others }),
            (Ok(()), None) => Err(MoveError::Room("it sent no pages".into())),
            (Err(e), Some(restore)) => {
                restore.undo()?;
                Err(e)
            }
            (Err(e), None) => Err(e),
        });
        // Until the deputy is stopped, nobody else takes it away again.
        laid.into_iter().for_each(PrelaidMemory::undo);
        ended
    }
}
