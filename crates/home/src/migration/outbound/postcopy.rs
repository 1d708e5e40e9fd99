//! Post-copy out: the process runs in the room, and its pages follow. They lie in its deputy, whose
//! memory stays so long. If the deputy dies, the process cannot go on: it ends as if killed, and
//! says so.

use crate::migration::session::MigrationSession;
use crate::room::state::Room;
use checkpoint::{BodyError, Lender, Lent};
use image::Area;
use link::Bulk;
use migration_plan::{Pace, Ranges};
use os::inject::Memory;
use os::pages::Own;
use room_protocol::{Kind, page_frames};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Pages of a process that went out, on their way to its body.
pub struct OutboundPostcopy {
    pid: i32,
    lender: Arc<Lender>,
    thread: JoinHandle<Result<(), BodyError>>,
    /// All memory of the original: start and end.
    all: Vec<(u64, u64)>,
}

impl OutboundPostcopy {
    /// The memory that the deputy keeps.
    pub fn kept(&self) -> &[(u64, u64)] {
        &self.all
    }

    /// The number by which the room knows it.
    pub fn loan(&self) -> u32 {
        self.lender.loan()
    }

    /// Ends the post-copy of a move that failed.
    pub fn call_off(self, room: &Room) {
        self.lender.stop();
        room.lenders.end(self.pid);
        let _ = self.thread.join();
    }
}

impl MigrationSession {
    /// Tells the room which pages follow, and answers when it asks for some. `all`: all memory of
    /// the process.
    pub fn follow(
        &self,
        later: Ranges,
        areas: &[Area],
        all: Vec<(u64, u64)>,
    ) -> Result<Option<OutboundPostcopy>, BodyError> {
        if later.is_empty() {
            return Ok(None);
        }
        let runs: Vec<checkpoint::Run> = later.iter().map(|(start, end)| (start, end - start)).collect();
        let (room, pid, areas) = (self.room.clone(), self.pid, areas.to_vec());
        let memory = Memory::of(pid)?;
        let lender = room.lenders.begin(pid, later, self.bulk.borrow().pace());
        for part in runs.chunks(page_frames::LATER_RUNS) {
            self.frame(Kind::Later, &[&page_frames::pages_head(pid, part)])?;
        }
        let lends = lender.clone();
        let (own, progress) = (Own::of(pid)?, self.progress.clone());
        let mut bulk = self.bulk.replace(Bulk::new(Pace::default()));
        let lend = move || {
            lends.run(&memory, &own, &areas, |lent| match lent {
                Lent::Pages(batch) => {
                    if room.page_cache.wants(bulk.is_slow()) {
                        room.page_cache.note(pid, batch.runs, batch.bytes);
                    }
                    let parts = [&page_frames::pushed_head(pid, batch.runs, batch.zeros), batch.bytes];
                    room.link.send_pages(&mut bulk, Kind::Pushed, &parts).map(|bytes| progress.count_wire(bytes))
                }
                Lent::Vacant(runs) => room.link.send_frame(Kind::Vacant, &[&page_frames::pages_head(pid, runs)]),
            })
        };
        let thread = std::thread::Builder::new().name("lender".into()).spawn(lend);
        let thread = thread.map_err(|e| os::Error::new("starting a thread", e))?;
        Ok(Some(OutboundPostcopy { pid, lender, thread, all }))
    }

    /// The body runs: the rest of its pages goes too. Nothing of its memory is left here in the
    /// end.
    pub fn send_rest(&self, following: OutboundPostcopy) {
        following.lender.push();
        self.begin_residue();
        let lender = following.lender.clone();
        self.progress.follow(move || {
            let (all, left, _) = lender.progress();
            (all - left, left)
        });
        let sent = following.thread.join().unwrap_or(Err(BodyError::Exited));
        self.room.lenders.end(self.pid);
        let (all, left, asked) = following.lender.progress();
        self.timings.borrow_mut().count(all - left);
        self.timings.borrow_mut().follow(all, asked);
        self.done("follow");
        if let Err(e) = sent {
            self.room.break_off(self.pid, &e.to_string());
        }
        self.room.forget_memory(self.pid, &following.all);
        self.done("forget");
    }
}
