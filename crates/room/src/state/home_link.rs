//! The link to the home, and the answers that the room waits for.

use crate::state::calls::after::After;
use crate::state::guests::{Waiting, Who};
use crate::state::pending::{Interrupted, Pending, WrittenQueue};
use crate::state::streams::RoomStreams;
use link::LinkError;
use os::ptrace::HostTid;
use room_protocol::message::{Call, CallId};
use room_protocol::{Kind, ToHome};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The link to the home: messages to it, and the calls that it was asked for.
pub struct HomeLink {
    /// The encrypted link.
    pub uplink: Arc<link::Sender>,
    /// The streams of the room.
    pub streams: RoomStreams,
    /// Bytes that are to be put into guests' memory.
    pub memory: WrittenQueue,
    pending: Mutex<HashMap<CallId, Pending>>,
    next_call: AtomicU64,
}

impl HomeLink {
    /// A link by which home was asked for nothing yet.
    pub fn new(uplink: Arc<link::Sender>) -> HomeLink {
        let next_call = AtomicU64::new(1);
        HomeLink {
            uplink,
            streams: RoomStreams::default(),
            memory: WrittenQueue::default(),
            pending: Mutex::default(),
            next_call,
        }
    }

    /// Tells the home something. A link that fails ends the room by its receiver.
    pub fn tell(&self, message: &ToHome) {
        // Bytes that guests wrote before go before this message.
        self.streams.flush(&self.uplink);
        let sent = match postcard::to_stdvec(message) {
            Ok(bytes) => self.uplink.send(Kind::Message, 0, 0, &[&bytes]),
            Err(e) => {
                tracing::error!("encoding a message to home: {e}");
                return;
            }
        };
        match sent {
            Ok(()) | Err(LinkError::Socket { .. } | LinkError::Closed) => {}
            Err(e) => tracing::error!("telling home: {e}"),
        }
    }

    /// A call was refused: for `tern why`, and for the log.
    pub fn refused(&self, pid: i32, nr: u32, why: &str) {
        tracing::info!(pid, call = systable::name(nr).unwrap_or("?"), "refused: {why}");
        self.tell(&ToHome::Refused { pid, nr, why: why.to_owned() });
    }

    /// Requests that home has not answered yet.
    pub fn pending(&self) -> MutexGuard<'_, HashMap<CallId, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What follows from the result of a call, and whose it is; still waiting at its listener
    /// there, unless it was interrupted.
    pub fn after(&self, id: CallId) -> Option<(HostTid, Option<Waiting>, After)> {
        match self.pending().get(&id)? {
            Pending::Notified { waiting, after, .. } => Some((waiting.host_tid, Some(waiting.clone()), after.clone())),
            Pending::Held { host, after, .. } => Some((*host, None, after.clone())),
            _ => None,
        }
    }

    /// Notes what the next answer with this number is for.
    pub fn expect(&self, pending: Pending) -> CallId {
        let id = CallId(self.next_call.fetch_add(1, Ordering::Relaxed));
        self.pending().insert(id, pending);
        id
    }

    /// Does with what was expected under a number as `go_on` says: it is expected under the new
    /// number that it gets. Nobody sees the moment between.
    pub fn expect_more(&self, id: CallId, go_on: impl FnOnce(&mut Pending) -> bool) -> Option<CallId> {
        let mut pending = self.pending();
        let mut found = pending.remove(&id)?;
        let next = CallId(self.next_call.fetch_add(1, Ordering::Relaxed));
        let goes_on = go_on(&mut found);
        pending.insert(if goes_on { next } else { id }, found);
        goes_on.then_some(next)
    }

    /// Takes what was expected, to finish it outside.
    pub fn expected(&self, id: CallId) -> Option<Pending> {
        self.pending().remove(&id)
    }

    /// Puts back what [`HomeLink::expected`] took.
    pub fn expect_again(&self, id: CallId, pending: Pending) {
        self.pending().insert(id, pending);
    }

    /// Does what the answer with this number is for. What `finish` gives back is kept under the
    /// number: nobody sees the moment between.
    pub fn answered(&self, id: CallId, finish: impl FnOnce(Pending) -> Option<Pending>) {
        let mut pending = self.pending();
        match pending.remove(&id) {
            Some(found) => drop(finish(found).map(|kept| pending.insert(id, kept))),
            // Its caller is dead.
            None => tracing::debug!("home answered call {} for which nobody waits", id.0),
        }
    }

    /// Asks home for a guest's call that is expected, and cancels it at once if the guest was
    /// interrupted meanwhile.
    pub fn ask(&self, id: CallId, who: Who, call: Call) {
        self.tell(&ToHome::Call { id, pid: who.pid, tid: who.tid, call });
        let interrupted = match self.pending().get_mut(&id) {
            Some(Pending::Notified { asked, .. }) => {
                *asked = true;
                false
            }
            Some(Pending::Held { asked, .. }) => !std::mem::replace(asked, true),
            _ => false,
        };
        if interrupted {
            self.tell(&ToHome::Cancel { id });
        }
    }

    /// Has the home run `call` in the deputy thread of `who`, which blocks these stops of job
    /// control meanwhile.
    pub fn call_home(&self, who: Who, call: Call, pending: Pending) -> CallId {
        let id = self.expect(pending);
        self.tell(&ToHome::Call { id, pid: who.pid, tid: who.tid, call });
        id
    }

    /// The number of the request that the kernel knows as `unique`, and the thread that waits for
    /// it.
    pub fn asked_by(&self, unique: u64) -> Option<(CallId, Option<HostTid>)> {
        self.pending().iter().find_map(|(id, pending)| match pending {
            Pending::Standin(asked) if asked.unique == unique => Some((*id, asked.host)),
            _ => None,
        })
    }

    /// A guest's call at a listener was interrupted: if home has answered it, the result; if home
    /// is running it, its answer goes to the tracer from now on.
    pub fn hold(&self, caller: HostTid) -> Interrupted {
        let mut pending = self.pending();
        let of_caller = |p: &Pending| match p {
            Pending::Notified { waiting, .. } | Pending::Missed { waiting, .. } => waiting.host_tid == caller,
            _ => false,
        };
        let Some(id) = pending.iter().find(|(_, p)| of_caller(p)).map(|(id, _)| *id) else {
            return Interrupted::NotHome;
        };
        match pending.remove(&id) {
            Some(Pending::Notified { after, asked, .. }) => {
                pending.insert(id, Pending::Held { host: caller, after, asked });
                Interrupted::Running { id, asked }
            }
            Some(Pending::Missed { result, .. }) => Interrupted::Done(result),
            _ => Interrupted::NotHome,
        }
    }
}
