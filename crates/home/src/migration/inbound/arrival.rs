//! The commit point of a way home, and what follows it: the deputy becomes the program again.

use crate::deputy::homecoming::Announcement;
use crate::migration::cpu_time_away::Away;
use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use crate::restore::deputy_restore::DeputyRestore;
use crate::restore::written::Written;
use crate::room::orders::Order;
use checkpoint::{BodyError, Pager};
use os::ptrace::Stopped;
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// The pager that brings the pages that follow, if any do.
pub type Rest = Option<Arc<Pager>>;

/// A process that is whole at home: its threads, stopped, and the CPU time that it used elsewhere.
pub struct Finished {
    threads: Vec<Stopped>,
    away: Option<Away>,
}

impl MigrationSession {
    /// Does all that is left to be done before the commit point.
    pub fn make_ready(&self, filling: &mut DeputyRestore) -> Result<Rest, BodyError> {
        filling.take_descriptors(self.pid)?;
        self.page_later(filling)
    }

    /// The commit point: what the room holds is not needed any more, but the pages that follow.
    pub fn arrive(&self, rest: &Rest) -> Result<(), MoveError> {
        os::fault::past("arrived");
        self.arrived();
        // As long as it stands still: what it writes itself comes after that.
        let announcement = self.room.table().deputies.get_mut(&self.pid).and_then(|d| d.announcement.take());
        announcement.into_iter().for_each(Announcement::make);
        let (done, is_done) = mpsc::channel();
        let memory = rest.as_ref().and_then(|pager| pager.duplicate());
        self.room.poller.order(Order::Dismiss { pid: self.pid, memory, done });
        is_done.recv().map_err(|_| MoveError::Silent("the steward ends".into()))
    }

    /// Makes the deputy its program again; the process still stands still. `None`: it was killed.
    pub fn finish(&self, filling: DeputyRestore) -> Option<Finished> {
        let away = Away::of(self.pid, filling.image());
        let signals = self.take_signals();
        self.done("dismiss");
        os::fault::past("dismissed");
        let written = Written::of(&filling.image().files);
        match filling.finish(&self.room, self.pid, &signals) {
            Ok(threads) => {
                written.let_go(&self.room);
                Some(Finished { threads, away: away.ok() })
            }
            Err(e) => {
                // Neither body nor deputy any more: it ends, as everybody can see, rather than go
                // on wrongly.
                tracing::error!("process {} could not be put together at home: {e}: it is killed", self.pid);
                // SAFETY: our tracee, not waited for.
                unsafe { libc::kill(self.pid, libc::SIGKILL) };
                None
            }
        }
    }

    /// Lets the process go on. A process that was killed meanwhile ends at home.
    pub fn go(&self, finished: Option<Finished>) {
        let Some(Finished { threads, away }) = finished else { return };
        if let Err(e) = threads.into_iter().try_for_each(|t| t.detach(0)) {
            tracing::warn!("process {} came home, and ends: {e}", self.pid);
        }
        self.done("finish");
        self.timings.borrow_mut().thaw(Instant::now());
        // One that is gone uses no more.
        away.into_iter().for_each(|away| away.keep(&self.room.args.run_dir, self.pid));
    }
}
