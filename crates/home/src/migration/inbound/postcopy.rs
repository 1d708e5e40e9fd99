//! Post-copy home: the process runs at home, and its pages follow. They lie in the body, which
//! stays stopped in the room so long. If the room is lost, the process cannot go on: it ends as if
//! killed, and says so.

use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use crate::restore::deputy_restore::DeputyRestore;
use crate::room::event::RoomEvent;
use crate::room::orders::Order;
use checkpoint::{BodyError, Pager};
use os::pidfd::PidFd;
use room_protocol::{ToRoom, page_frames};
use std::io::Write;
use std::sync::Arc;

impl MigrationSession {
    /// Has the pages that follow brought to the deputy, when it is the program again.
    pub fn page_later(&self, filling: &mut DeputyRestore) -> Result<Option<Arc<Pager>>, BodyError> {
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
            // A parent that does not wait has killed it.
            let _ = ending.sessions.tell(pid, RoomEvent::Complete(result));
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
    pub fn receive_rest(&self, pager: &Arc<Pager>) -> Result<(), MoveError> {
        self.room.tell(&ToRoom::Push { pid: self.pid });
        self.begin_residue();
        let brings = pager.clone();
        self.progress.follow(move || (brings.progress().0, brings.missing_bytes()));
        let outcome = loop {
            match self.hear() {
                Ok(RoomEvent::Complete(result)) | Ok(RoomEvent::Drained { result: result @ Err(_), .. }) => {
                    break result;
                }
                Err(e @ MoveError::Silent(_)) if self.room.is_lost() => break Err(e.to_string()),
                // A link that stands still is given up by itself, after a while.
                Ok(_) | Err(_) => {}
            }
        };
        self.room.pagers().remove(&self.pid);
        let (bytes, faults) = pager.progress();
        self.timings.borrow_mut().count(bytes);
        self.timings.borrow_mut().follow(bytes, faults * page_frames::PAGE_BYTES as u64);
        self.done("follow");
        if let Err(why) = outcome {
            self.kill_for(&why)?;
            pager.fail(&why);
            let lost = format!("its memory was still on {}, and is lost: it was killed ({why})", self.room.args.host);
            return Err(BodyError::NotMigratable(lost).into());
        }
        let (done, is_done) = std::sync::mpsc::channel();
        self.room.poller.order(Order::Settled { pid: self.pid, done });
        is_done.recv().map_err(|_| MoveError::Silent("the steward ends".into()))
    }

    /// Kills the process, and tells its user why.
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
