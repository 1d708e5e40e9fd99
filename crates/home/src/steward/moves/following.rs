//! Post-copy: the process runs at its new place, and its pages follow. Out: they lie in its deputy,
//! whose memory stays so long. Home: they lie in the body, which stays stopped in the room so long.
//! If who has them dies, the process cannot go on: it ends as if killed, and says so.

use super::filling::Filling;
use super::out::send_pages;
use super::{Heard, Move, MoveError};
use crate::steward::channel;
use crate::steward::deputies::{Job, Purpose};
use crate::steward::orders::Order;
use crate::steward::shared::Shared;
use checkpoint::{BodyError, Lender, Lent, Pager};
use image::Area;
use link::Bulk;
use migration_plan::{Pace, Ranges};
use os::inject::Memory;
use os::pages::Own;
use os::pidfd::PidFd;
use room_protocol::message::Call;
use room_protocol::{Kind, ToRoom, page_frames};
use std::io::Write;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Pages of a process that went out, on their way to its body.
pub struct Following {
    pid: i32,
    lender: Arc<Lender>,
    thread: JoinHandle<Result<(), BodyError>>,
    /// All memory of the original: start and end.
    all: Vec<(u64, u64)>,
}

impl Following {
    /// What the deputy keeps.
    pub fn kept(&self) -> &[(u64, u64)] {
        &self.all
    }

    /// The number by which the room knows it.
    pub fn loan(&self) -> u32 {
        self.lender.loan()
    }

    /// It was not moved.
    pub fn call_off(self, room: &Shared) {
        self.lender.stop();
        room.lenders.end(self.pid);
        let _ = self.thread.join();
    }
}

impl Move {
    /// Tells the room which pages follow, and answers when it asks for some. `all`: all memory of
    /// the process.
    pub(super) fn follow(
        &self,
        later: Ranges,
        areas: &[Area],
        all: Vec<(u64, u64)>,
    ) -> Result<Option<Following>, BodyError> {
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
        let (own, gauge) = (Own::of(pid)?, self.gauge.clone());
        let mut bulk = self.bulk.replace(Bulk::new(Pace::default()));
        let lend = move || {
            let frame = |kind, parts: &[&[u8]]| {
                let gone = || BodyError::Stays("the link to the room is gone".into());
                let sent = room.downlink.get().ok_or_else(gone)?.send(kind, 0, 0, parts);
                sent.map_err(|e| BodyError::Stays(format!("the link to the room: {e}")))
            };
            lends.run(&memory, &own, &areas, |lent| match lent {
                Lent::Pages(batch) => {
                    if room.leftovers.wants(bulk.is_slow()) {
                        room.leftovers.note(pid, batch.runs, batch.bytes);
                    }
                    let parts = [&page_frames::pushed_head(pid, batch.runs, batch.zeros), batch.bytes];
                    send_pages(&room, &gauge, &mut bulk, Kind::Pushed, &parts)
                }
                Lent::Vacant(runs) => frame(Kind::Vacant, &[&page_frames::pages_head(pid, runs)]),
            })
        };
        let thread = std::thread::Builder::new().name("lender".into()).spawn(lend);
        let thread = thread.map_err(|e| os::Error::new("starting a thread", e))?;
        Ok(Some(Following { pid, lender, thread, all }))
    }

    /// The body runs: the rest of its pages goes too. Nothing of its memory is left here in the
    /// end.
    pub(super) fn send_rest(&self, following: Following) {
        following.lender.push();
        self.drains();
        let lender = following.lender.clone();
        self.gauge.follow(move || {
            let (all, left, _) = lender.progress();
            (all - left, left)
        });
        let sent = following.thread.join().unwrap_or(Err(BodyError::Gone));
        self.room.lenders.end(self.pid);
        let (all, left, asked) = following.lender.progress();
        self.course.borrow_mut().count(all - left);
        self.course.borrow_mut().follow(all, asked);
        self.done("follow");
        if let Err(e) = sent {
            self.room.break_off(self.pid, &e.to_string());
        }
        self.room.forget_memory(self.pid, &following.all);
        self.done("forget");
    }

    /// Has the pages that follow brought to the deputy, when it is the program again.
    pub(super) fn page_later(&self, filling: &mut Filling) -> Result<Option<Arc<Pager>>, BodyError> {
        let later = filling.take_later();
        if later.is_empty() {
            return Ok(None);
        }
        let memory = filling.watch_missing(self.pid, &later)?;
        let huge = filling.wanted_huge(&later);
        let (pid, asking, ending) = (self.pid, self.room.clone(), self.room.clone());
        let want = move |range| asking.tell(&ToRoom::Fetch { pid, ranges: vec![range] });
        let ended = move |result: Result<(), String>| {
            let is_there = result.is_ok();
            // Who does not wait has killed it.
            let _ = ending.moves.tell(pid, Heard::Complete(result));
            if let Some(Err(e)) = is_there.then(|| checkpoint::make_huge(pid, &huge)) {
                tracing::debug!("process {pid}: {e}");
            }
        };
        let pager = Pager::start(memory, later, want, ended)?;
        self.room.pagers().insert(pid, pager.clone());
        self.done("watch");
        Ok(Some(pager))
    }

    /// The process runs at home: the rest of its pages comes too.
    pub(super) fn receive_rest(&self, pager: &Arc<Pager>) -> Result<(), MoveError> {
        self.room.tell(&ToRoom::Push { pid: self.pid });
        self.drains();
        let brings = pager.clone();
        self.gauge.follow(move || (brings.progress().0, brings.missing_bytes()));
        let outcome = loop {
            match self.hear() {
                Ok(Heard::Complete(result)) | Ok(Heard::Drained { result: result @ Err(_), .. }) => break result,
                Err(e @ MoveError::Silent(_)) if self.room.is_lost() => break Err(e.to_string()),
                // A link that stands still is given up by itself, after a while.
                Ok(_) | Err(_) => {}
            }
        };
        self.room.pagers().remove(&self.pid);
        let (bytes, faults) = pager.progress();
        self.course.borrow_mut().count(bytes);
        self.course.borrow_mut().follow(bytes, faults * page_frames::PAGE_BYTES as u64);
        self.done("follow");
        if let Err(why) = outcome {
            self.kill_for(&why)?;
            pager.fail(&why);
            let lost = format!("its memory was still on {}, and is lost: it was killed ({why})", self.room.args.host);
            return Err(BodyError::Stays(lost).into());
        }
        let (done, is_done) = std::sync::mpsc::channel();
        self.room.poller.order(Order::Settled { pid: self.pid, done });
        is_done.recv().map_err(|_| MoveError::Silent("the steward ends".into()))
    }

    /// It ends as if killed, and its user is told.
    fn kill_for(&self, why: &str) -> Result<(), MoveError> {
        const STDERR: i32 = 2;
        let pidfd = PidFd::open(self.pid)?;
        let words = format!(
            "tern: process {}: its memory on {} is lost ({why}): it ends as if killed\n",
            self.pid, self.room.args.host
        );
        tracing::error!("{}", words.trim_end());
        let stderr = pidfd.get_fd(STDERR);
        pidfd.kill(libc::SIGKILL)?;
        // In a thread of its own: whoever reads may be slow.
        if let Ok(stderr) = stderr {
            let tell = move || drop(std::fs::File::from(stderr).write_all(words.as_bytes()));
            drop(std::thread::Builder::new().name("words".into()).spawn(tell));
        }
        Ok(())
    }
}

impl Shared {
    /// The memory of a process that went out cannot be sent to the end. Whoever misses pages of it
    /// ends: its body, and children that it had meanwhile.
    pub fn break_off(&self, pid: i32, why: &str) {
        if !self.table().deputies.iter().any(|(number, d)| *number == pid || d.misses == Some(pid)) {
            // It was killed, and nobody has a copy.
            return;
        }
        tracing::error!("the memory of process {pid} does not follow it to {}: {why}", self.args.host);
        self.tell(&ToRoom::Broken { pid, why: why.to_owned() });
        let words = format!("tern: the memory of process {pid} is lost ({why}): it ends as if killed\n");
        for (number, deputy) in &mut self.table().deputies {
            if *number == pid || deputy.misses == Some(pid) {
                deputy.end(channel::order(abi::OP_DIE, [libc::SIGKILL as u64, 0], &[]), Some(&words));
            }
        }
    }

    /// The deputy gives its old memory back; if its body has ended, it ends too.
    pub(super) fn forget_memory(&self, pid: i32, all: &[(u64, u64)]) {
        let mut table = self.table();
        for deputy in table.deputies.values_mut().filter(|d| d.misses == Some(pid)) {
            deputy.misses = None;
        }
        let Some(deputy) = table.deputies.get_mut(&pid) else { return };
        deputy.lends = false;
        if let Some(last) = deputy.ends_with.take() {
            return deputy.end(last, None);
        }
        for (start, end) in all {
            let call = Call::new(libc::SYS_munmap, [*start, end - start, 0, 0, 0, 0]);
            if let Some(packet) = channel::call(&call) {
                deputy.give_soon(Job::new(packet, Purpose::Nothing));
            }
        }
    }
}
