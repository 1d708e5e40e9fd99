//! What becomes of a guest on whose account this steward failed: the guest ends, as if killed, and
//! the room goes on (see [`os::contain`]). The panic may have left the steward's state of that
//! guest half done. So the whole of it is dropped here, its deputy is killed, and the room is told
//! to kill its body.

use crate::closing;
use crate::deputy::watchdog::last_words;
use crate::room::orders::Order;
use crate::room::state::Room;
use os::contain::{Failure, contained_for};
use room_protocol::ToRoom;
use room_protocol::message::CallId;

impl Room {
    /// Does `work`, on account of process `pid` if that is known. If it panics, that guest is ended
    /// (by the poller's thread, which has the rights for it), or the room where no guest is known.
    pub fn contain<T>(&self, pid: Option<i32>, work: impl FnOnce() -> T) -> Option<T> {
        contained_for(pid, work).inspect_err(|failure| self.failed(failure)).ok()
    }

    /// The steward has failed.
    pub fn failed(&self, Failure { account, words }: &Failure) {
        let why = format!("the steward failed: {words}");
        match account {
            Some(pid) => self.poller.order(Order::Lose { pid: *pid, why }),
            None => {
                tracing::error!("{why}");
                self.lost(&why);
            }
        }
    }

    /// Ends a guest, and nobody else.
    pub fn lose(&self, pid: i32, why: &str) {
        let gone = self.table().deputies.remove(&pid);
        self.poller.forget_process(pid);
        self.watchdog.dismiss(pid);
        self.forget_calls(pid);
        self.page_cache.forget(pid);
        self.tell(&ToRoom::Kill { pid });
        // A process that is no deputy yet, or no more, runs at home and is nobody's to kill.
        let Some(deputy) = gone else {
            return tracing::error!("process {pid}: {why}");
        };
        tracing::error!("process {pid} ran on {}: {why}; it ends as if killed, and no other does", self.args.host);
        let words = format!("tern: process {pid} ran on {}: {why}; it ends as if killed\n", self.args.host);
        closing::briefly(move || {
            last_words::say(&deputy.pidfd, &words);
            // A program that gives rights is not the steward's to kill.
            if deputy.proof.check_unchanged().is_ok() {
                let _ = deputy.pidfd.kill(libc::SIGKILL);
            }
        });
    }

    /// Nothing answers the calls of a deputy that has gone. Its body must not wait in the hosting
    /// kernel for what will not come, or it could not even be killed.
    pub fn forget_calls(&self, pid: i32) {
        let unanswered: Vec<CallId> = {
            let mut table = self.table();
            let mut unanswered: Vec<CallId> =
                table.calls.iter().filter(|(_, (p, _))| *p == pid).map(|(id, _)| *id).collect();
            unanswered.extend(table.closes.forget(pid).into_iter().map(|call| call.id));
            table.calls.retain(|_, (p, _)| *p != pid);
            table.waiting.retain(|w| w.pid != pid);
            unanswered
        };
        for id in unanswered {
            self.tell(&ToRoom::Return { id, result: -i64::from(libc::EINTR), out: Vec::new(), ready: None });
        }
    }

    /// The process with a thread of this number, as a request for files names who asks.
    pub fn process_of(&self, tid: i32) -> Option<i32> {
        let table = self.table();
        let has =
            |(pid, deputy): (&i32, &crate::deputy::record::Deputy)| deputy.threads.contains_key(&tid).then_some(*pid);
        table.deputies.iter().find_map(has)
    }
}
