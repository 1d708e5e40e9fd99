//! What the warden's threads share.

use super::devices::Devices;
use super::guests::{Guests, Waiting, Who};
use super::ledger::Ledger;
use super::marshal::Back;
use super::tracer::Orders;
use link::LinkError;
use os::ptrace::HostTid;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use wire::message::{Call, CallId, StandinId};
use wire::{Kind, ToHome};

/// A room, as its warden's threads see it.
pub struct Shared {
    /// To the home.
    pub uplink: link::Sender,
    /// Who lives here.
    guests: Mutex<Guests>,
    /// What the home has been asked.
    pending: Mutex<HashMap<CallId, Pending>>,
    next_call: AtomicU64,
    /// To the tracer.
    pub orders: Orders,
    /// What is to be put into guests' memory.
    pub memory: Memory,
    /// Processes on their way in.
    pub cargo: super::cargo::Cargo,
    /// What bodies used.
    pub ledger: Ledger,
    /// The home's /dev.
    pub devices: Devices,
    /// Device of the stand-ins' file system.
    pub standins: super::standins::Device,
}

/// What is to be done when the home has answered.
#[derive(Debug)]
pub enum Pending {
    /// Answer a guest's call that waits at its listener.
    Notified {
        /// Where.
        waiting: Waiting,
        /// Where the bytes go that the call wrote.
        back: Vec<Back>,
        /// The hosting kernel makes the same call, if home's succeeded.
        then_here: bool,
        /// The call consumes something (a child's end, a signal sent): its result must not get lost.
        exact: bool,
    },
    /// Answer a request for a stand-in.
    Standin(super::standins::Asked),
    /// The number of something new that the tracer waits for.
    Birth {
        /// The thread that makes it.
        host: HostTid,
    },
    /// Home has answered; the result is the tracer's to give.
    Missed {
        /// The thread.
        host: HostTid,
        /// The result.
        result: i64,
    },
    /// The caller was interrupted at its listener, and is held by the tracer until it is known whether the call was made.
    Held {
        /// The thread.
        host: HostTid,
        /// Where the bytes go that the call wrote.
        back: Vec<Back>,
    },
}

/// Bytes that a call wrote, on their way into a guest's memory.
#[derive(Debug)]
pub struct Written {
    /// The call.
    pub id: CallId,
    /// Its result.
    pub result: i64,
    /// Whose memory.
    pub host: HostTid,
    /// Where to.
    pub back: Vec<Back>,
    /// The bytes.
    pub out: Vec<u8>,
}

/// A queue of them.
#[derive(Debug, Default)]
pub struct Memory {
    queue: Mutex<VecDeque<Written>>,
    came: Condvar,
}

impl Memory {
    /// Puts one at the end.
    pub fn give(&self, written: Written) {
        lock(&self.queue).push_back(written);
        self.came.notify_one();
    }

    /// Waits for the next one.
    pub fn take(&self) -> Option<Written> {
        let mut queue = lock(&self.queue);
        while queue.is_empty() {
            queue = self.came.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.pop_front()
    }
}

/// Where a call is whose caller was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// Home has nothing to do with it.
    NotHome,
    /// Home is running it.
    Running(CallId),
    /// Home has run it.
    Done(i64),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// A room without guests.
    pub fn new(uplink: link::Sender, orders: Orders, standins: super::standins::Device) -> Shared {
        let next_call = AtomicU64::new(1);
        let memory = Memory::default();
        let cargo = super::cargo::Cargo::default();
        Shared {
            uplink,
            guests: Mutex::default(),
            pending: Mutex::default(),
            next_call,
            orders,
            memory,
            cargo,
            ledger: Ledger::default(),
            devices: Devices::default(),
            standins,
        }
    }

    /// Where the memory goes that a call wrote.
    pub fn memory_of(&self, id: CallId) -> Option<(HostTid, Vec<Back>)> {
        match lock(&self.pending).get(&id)? {
            Pending::Notified { waiting, back, .. } => Some((waiting.host_tid, back.clone())),
            Pending::Held { host, back } => Some((*host, back.clone())),
            _ => None,
        }
    }

    /// Who lives here.
    pub fn guests(&self) -> MutexGuard<'_, Guests> {
        lock(&self.guests)
    }

    /// Tells the home something. A link that fails ends the room by its receiver.
    pub fn tell(&self, message: &ToHome) {
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

    /// Notes what the next answer with this number is for.
    pub fn expect(&self, pending: Pending) -> CallId {
        let id = CallId(self.next_call.fetch_add(1, Ordering::Relaxed));
        lock(&self.pending).insert(id, pending);
        id
    }

    /// Does what the answer with this number is for. What `finish` gives back is kept under the number: nobody sees the moment between.
    pub fn answered(&self, id: CallId, finish: impl FnOnce(Pending) -> Option<Pending>) {
        let mut pending = lock(&self.pending);
        match pending.remove(&id) {
            Some(found) => drop(finish(found).map(|kept| pending.insert(id, kept))),
            // Its caller is dead.
            None => tracing::debug!("home answered call {} for which nobody waits", id.0),
        }
    }

    /// What was expected will not come: nobody was asked.
    pub fn withdraw(&self, id: CallId) {
        lock(&self.pending).remove(&id);
    }

    /// A thread ended: nothing is kept for it.
    pub fn forget(&self, ended: HostTid) {
        lock(&self.pending)
            .retain(|_, p| !matches!(p, Pending::Held { host, .. } | Pending::Missed { host, .. } if *host == ended));
    }

    /// Has the home run `call` in the deputy thread of `who`, which blocks these stops of job control meanwhile.
    pub fn call_home(&self, who: Who, blocked: u32, call: Call, pending: Pending) -> CallId {
        let id = self.expect(pending);
        self.tell(&ToHome::Call { id, pid: who.pid, tid: who.tid, blocked, call });
        id
    }

    /// Nobody at home will answer what this process has asked: its deputy is gone, and it is killed. A thread that waits for a stand-in ends only
    /// when it is answered (request_wait_answer in fs/fuse/dev.c).
    pub fn abandon(&self, pid: i32) {
        let threads = self.guests().threads_of(pid);
        let of_process = |pending: &Pending| match pending {
            Pending::Standin(asked) => asked.pid == pid,
            Pending::Notified { waiting: Waiting { host_tid: host, .. }, .. }
            | Pending::Missed { host, .. }
            | Pending::Held { host, .. } => threads.iter().any(|(thread, _)| thread == host),
            // The tracer forgets it with the thread.
            Pending::Birth { .. } => false,
        };
        let abandoned: Vec<Pending> = lock(&self.pending).extract_if(|_, p| of_process(p)).map(|(_, p)| p).collect();
        for pending in abandoned {
            if let Pending::Standin(asked) = pending {
                self.standins.finish(asked, -i64::from(libc::EINTR), &[]);
            }
        }
    }

    /// The number of the request that the kernel knows as `unique`.
    pub fn asked_by(&self, unique: u64) -> Option<CallId> {
        lock(&self.pending)
            .iter()
            .find(|(_, p)| matches!(p, Pending::Standin(a) if a.unique == unique))
            .map(|(id, _)| *id)
    }

    /// A guest's call at a listener was interrupted: if home has answered it, the result; if home is running it, its answer goes to the tracer from now on.
    pub fn hold(&self, caller: HostTid) -> Interrupted {
        let mut pending = lock(&self.pending);
        let of_caller = |p: &Pending| match p {
            Pending::Notified { waiting, .. } => waiting.host_tid == caller,
            Pending::Missed { host, .. } => *host == caller,
            _ => false,
        };
        let Some(id) = pending.iter().find(|(_, p)| of_caller(p)).map(|(id, _)| *id) else {
            return Interrupted::NotHome;
        };
        match pending.remove(&id) {
            Some(Pending::Notified { back, .. }) => {
                pending.insert(id, Pending::Held { host: caller, back });
                Interrupted::Running(id)
            }
            Some(Pending::Missed { result, .. }) => Interrupted::Done(result),
            _ => Interrupted::NotHome,
        }
    }

    /// Which stand-in a guest's descriptor is, if it is one.
    pub fn standin_of(&self, host: HostTid, fd: i32) -> Option<StandinId> {
        let info = os::process::fd_info(host.0, fd).ok()?;
        self.standins.standin(info.mount_id, info.inode)
    }

    /// A call was refused: for `tern why`, and for the log.
    pub fn refused(&self, pid: i32, nr: u32, why: &str) {
        tracing::info!(pid, call = systable::name(nr).unwrap_or("?"), "refused: {why}");
        self.tell(&ToHome::Refused { pid, nr, why: why.to_owned() });
    }
}
