//! What becomes of a guest on whose account this warden failed: its body is killed, its deputy
//! tells why and ends as if killed, and the room goes on (see [`os::contain`]). The tracer ends it,
//! which drops all state of a body at its end; no thread reads what another left half done.

use crate::state::guests::Who;
use crate::state::orders::Order;
use crate::state::pending::Pending;
use crate::state::shared::Shared;
use os::contain::{Failure, contained_for};
use os::ptrace::HostTid;
use room_protocol::ToHome;
use room_protocol::message::CallId;

impl Shared {
    /// Does `work`, on account of process `pid` if that is known. If it panics, that guest is
    /// ended, or the room where no guest is known.
    pub fn contain<T>(&self, pid: Option<i32>, work: impl FnOnce() -> T) -> Option<T> {
        contained_for(pid, work).inspect_err(|failure| self.failed(failure)).ok()
    }

    /// Ends the guest on whose account this warden has failed.
    pub fn failed(&self, Failure { account, words }: &Failure) {
        let why = format!("the warden failed: {words}");
        match account {
            Some(pid) => {
                tracing::error!("process {pid}: {why}; it ends, and no other does");
                self.orders.give(Order::Lose { pid: *pid, why });
            }
            None => {
                tracing::error!("{why}");
                self.tell(&ToHome::RoomFailed { reason: why });
            }
        }
    }

    /// The process of a thread.
    pub fn process(&self, host: HostTid) -> Option<i32> {
        self.guests().who(host).map(|Who { pid, .. }| pid)
    }

    /// The process of a thread, by its number in the room, as a request of the room's kernel names
    /// who asks.
    pub fn process_of(&self, tid: u32) -> Option<i32> {
        let guests = self.guests();
        let host = guests.host(i32::try_from(tid).ok()?)?;
        guests.who(host).map(|who| who.pid)
    }

    /// The process that waits for the answer with this number.
    pub fn who_asked(&self, id: CallId) -> Option<i32> {
        let host = match self.home.pending().get(&id)? {
            Pending::Standin(asked) => return Some(asked.pid),
            Pending::Proc { pid, .. } => return Some(*pid).filter(|pid| *pid != 0),
            Pending::Notified { waiting, .. } | Pending::Missed { waiting, .. } => waiting.host_tid,
            Pending::Held { host, .. } | Pending::Birth { host } => *host,
            Pending::Unasked | Pending::MayStream(_) => return None,
        };
        self.process(host)
    }
}
