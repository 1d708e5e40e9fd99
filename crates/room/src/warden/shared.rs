//! What the warden's threads share.

use super::after::After;
use super::devices::Devices;
use super::guests::{Guests, Waiting, Who};
use super::ledger::Ledger;
use super::spares::Spares;
use super::tracer::orders::Orders;
use link::LinkError;
use os::ptrace::HostTid;
use room_protocol::message::{Call, CallId, StandinId};
use room_protocol::{Kind, ToHome};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// A room, as its warden's threads see it.
pub struct Shared {
    /// Calls whose processes go home for them.
    pub going_home: super::going_home::GoingHome,
    /// Calls that could not pass their descriptors from here.
    pub unpassed: super::unpassed::Unpassed,
    /// To the home.
    pub uplink: Arc<link::Sender>,
    /// Who lives here.
    guests: Mutex<Guests>,
    /// What the home has been asked.
    pending: Mutex<HashMap<CallId, Pending>>,
    next_call: AtomicU64,
    /// To the tracer.
    pub orders: Orders,
    /// What is to be put into guests' memory.
    pub memory: Memory,
    /// Open stand-ins in stock.
    pub spares: Spares,
    /// Descriptors that threads are still to take.
    pub owed: super::due_before_return::Owed,
    /// Ways to other rooms and from them.
    pub lanes: super::direct_link::Lanes,
    /// What has gone home of bodies that run.
    pub homeward: super::homeward::Homeward,
    /// Processes on their way in.
    pub cargo: super::receiver::Cargo,
    /// Pages of those who were here.
    pub leftovers: checkpoint::Leftovers,
    /// What home has of those who come.
    pub stocked: super::peer_pages::AtHome,
    /// Processes that run here, and whose pages follow.
    pub following: super::following::Following,
    /// Pages on their way home.
    pub windows: super::windows::Windows,
    /// Memory for frames of pages.
    pub bodies: link::Bodies,
    /// Bodies that went on at home, whose pages follow.
    pub lenders: checkpoint::Lenders,
    /// What bodies used.
    pub ledger: Ledger,
    /// The home's /dev.
    pub devices: Devices,
    /// Numbers of file systems as home has them.
    pub device_numbers: super::device_numbers::DeviceNumbers,
    /// Device of the stand-ins' file system.
    pub standins: super::standins::Device,
    /// Open files that have a lock of their own.
    pub locked: super::locked::Locked,
    /// Pairs of sockets that were made here.
    pub pairs: super::sharers::Pairs,
    /// FIFOs of home's that guests have opened.
    pub fifos: Fifos,
    /// The home's /proc.
    pub proc: super::proc::Proc,
    /// The room's control group, if it has one.
    pub group: OnceLock<os::cgroup::Group>,
    /// So many of its processes the kernel has killed for want of memory, as far as was told.
    killed_for_memory: AtomicU64,
    /// Threads that install a filter.
    pub filtering: super::filtering::Filtering,
    /// So far is home's monotonic clock ahead of this machine's, nanoseconds.
    pub home_ahead_ns: OnceLock<i64>,
    /// Home's wall clock, if this machine's is wrong.
    pub wall: OnceLock<super::wall::Wall>,
    /// Over programs that begin here.
    pub vigil: os::awake::Vigil,
    /// Home's code for its processes, if guests may not use this kernel's.
    pub strange: OnceLock<super::foreign_vdso::Strange>,
}

/// What is to be done when the home has answered.
#[derive(Debug)]
pub enum Pending {
    /// Answer a guest's call that waits at its listener.
    Notified {
        /// The path that is looked at.
        waiting: Waiting,
        /// What follows from the result.
        after: After,
        /// The call consumes something (a child's end, a signal sent): its result must not get
        /// lost.
        exact: bool,
        /// Home has been asked. Before that it must not be told that the caller was interrupted: it
        /// would not know of what.
        asked: bool,
    },
    /// Nothing: no guest waits for it.
    Unasked,
    /// Answer a request for a stand-in.
    Standin(super::standins::Asked),
    /// Answer a request for something of /proc.
    Proc {
        /// The process that asks; 0 for none.
        pid: i32,
        /// The request that is answered.
        unique: u64,
    },
    /// The number of something new that the tracer waits for.
    Birth {
        /// The thread that makes it.
        host: HostTid,
    },
    /// Home has answered; the result is the tracer's to give.
    Missed {
        /// Where it was asked.
        waiting: Waiting,
        /// The result of the call.
        result: i64,
    },
    /// The caller was interrupted at its listener, and is held by the tracer until it is known
    /// whether the call was made.
    Held {
        /// TID of the thread on this node.
        host: HostTid,
        /// What follows from the result.
        after: After,
        /// As above: who asks home then also cancels.
        asked: bool,
    },
}

/// The result of a call that a guest's memory or descriptors are to have part of.
#[derive(Debug)]
pub struct Written {
    /// The id of the call.
    pub id: CallId,
    /// The result of the call.
    pub result: i64,
    /// The bytes that it wrote.
    pub out: Vec<u8>,
}

/// Inode numbers of the FIFOs that were opened by name; of which file systems, is not said, so that
/// others may have the same.
#[derive(Debug, Default)]
pub struct Fifos(Mutex<HashSet<u64>>);

impl Fifos {
    /// The most that are remembered; of others it is not known what they are.
    const MAX: usize = 1 << 16;

    /// One is opened.
    pub fn add(&self, inode: u64) {
        let mut all = lock(&self.0);
        if all.len() < Self::MAX {
            all.insert(inode);
        }
    }

    /// A file of this number may be one.
    pub fn may_be(&self, inode: u64) -> bool {
        lock(&self.0).contains(&inode)
    }
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

    /// The next one, if there is one.
    #[cfg(any(test, feature = "fuzz"))]
    pub fn take_now(&self) -> Option<Written> {
        lock(&self.queue).pop_front()
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
    /// Home is running it, or is about to be asked.
    Running {
        /// The id of the call.
        id: CallId,
        /// It was asked, and is to be told.
        asked: bool,
    },
    /// Home has run it.
    Done(i64),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// A room without guests.
    pub fn new(
        uplink: Arc<link::Sender>,
        orders: Orders,
        standins: super::standins::Device,
        proc: super::proc::Proc,
    ) -> Shared {
        let next_call = AtomicU64::new(1);
        let memory = Memory::default();
        let cargo = super::receiver::Cargo::default();
        Shared {
            uplink,
            guests: Mutex::default(),
            pending: Mutex::default(),
            next_call,
            orders,
            memory,
            cargo,
            lanes: super::direct_link::Lanes::default(),
            homeward: super::homeward::Homeward::default(),
            following: super::following::Following::default(),
            windows: super::windows::Windows::default(),
            bodies: link::Bodies::default(),
            lenders: checkpoint::Lenders::default(),
            leftovers: checkpoint::Leftovers::of_machine(),
            stocked: super::peer_pages::AtHome::default(),
            ledger: Ledger::default(),
            going_home: super::going_home::GoingHome::default(),
            unpassed: super::unpassed::Unpassed::default(),
            devices: Devices::default(),
            device_numbers: super::device_numbers::DeviceNumbers::default(),
            owed: super::due_before_return::Owed::default(),
            spares: Spares::default(),
            standins,
            locked: super::locked::Locked::default(),
            pairs: super::sharers::Pairs::default(),
            fifos: Fifos::default(),
            proc,
            group: OnceLock::new(),
            killed_for_memory: AtomicU64::new(0),
            filtering: super::filtering::Filtering::default(),
            home_ahead_ns: OnceLock::new(),
            wall: OnceLock::new(),
            vigil: os::awake::Vigil::default(),
            strange: OnceLock::new(),
        }
    }

    /// The kernel has killed one process more for want of memory since this was last asked.
    pub fn kernel_killed_for_memory(&self) -> bool {
        let Some(now) = self.group.get().and_then(os::cgroup::Group::killed_for_memory) else { return false };
        let told = |told: u64| (told < now).then_some(told + 1);
        self.killed_for_memory.fetch_update(Ordering::Relaxed, Ordering::Relaxed, told).is_ok()
    }

    /// What the home has been asked.
    pub fn pending(&self) -> MutexGuard<'_, HashMap<CallId, Pending>> {
        lock(&self.pending)
    }

    /// What follows from the result of a call, and whose it is; still waiting at its listener
    /// there, unless it was interrupted.
    pub fn after(&self, id: CallId) -> Option<(HostTid, Option<Waiting>, After)> {
        match lock(&self.pending).get(&id)? {
            Pending::Notified { waiting, after, .. } => Some((waiting.host_tid, Some(waiting.clone()), after.clone())),
            Pending::Held { host, after, .. } => Some((*host, None, after.clone())),
            _ => None,
        }
    }

    /// Does with what was expected under a number as `go_on` says: it is expected under the new
    /// number that it gets. Nobody sees the moment between.
    pub fn expect_more(&self, id: CallId, go_on: impl FnOnce(&mut Pending) -> bool) -> Option<CallId> {
        let mut pending = lock(&self.pending);
        let mut found = pending.remove(&id)?;
        let next = CallId(self.next_call.fetch_add(1, Ordering::Relaxed));
        let goes_on = go_on(&mut found);
        pending.insert(if goes_on { next } else { id }, found);
        goes_on.then_some(next)
    }

    /// Puts back what [`Shared::expected`] took.
    pub fn expect_again(&self, id: CallId, pending: Pending) {
        lock(&self.pending).insert(id, pending);
    }

    /// Takes what was expected, to finish it outside.
    pub fn expected(&self, id: CallId) -> Option<Pending> {
        lock(&self.pending).remove(&id)
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

    /// Does what the answer with this number is for. What `finish` gives back is kept under the
    /// number: nobody sees the moment between.
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
        if let Some(Pending::Held { .. }) = lock(&self.pending).remove(&id) {
            self.orders.give(super::tracer::orders::Order::Ended { id, result: -i64::from(libc::EINTR) });
        }
    }

    /// Asks home for a guest's call that is expected, and cancels it at once if the guest was
    /// interrupted meanwhile.
    pub fn ask(&self, id: CallId, who: Who, call: Call) {
        self.tell(&ToHome::Call { id, pid: who.pid, tid: who.tid, call });
        let interrupted = match lock(&self.pending).get_mut(&id) {
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

    /// A thread ended: nothing is kept for it.
    pub fn forget(&self, ended: HostTid) {
        self.owed.take(ended);
        let mut pending = lock(&self.pending);
        // Another may get its number, and make the same call.
        for pending in pending.values_mut() {
            if let Pending::Notified { waiting, .. } = pending
                && waiting.host_tid == ended
            {
                waiting.call = None;
            }
        }
        pending.retain(|_, p| !matches!(p, Pending::Held { host, .. } | Pending::Missed { waiting: Waiting { host_tid: host, .. }, .. } if *host == ended));
    }

    /// Has the home run `call` in the deputy thread of `who`, which blocks these stops of job
    /// control meanwhile.
    pub fn call_home(&self, who: Who, call: Call, pending: Pending) -> CallId {
        let id = self.expect(pending);
        self.tell(&ToHome::Call { id, pid: who.pid, tid: who.tid, call });
        id
    }

    /// Nobody at home will answer what this process has asked: its deputy is gone, and it is
    /// killed. A thread that waits for a stand-in ends only when it is answered
    /// (request_wait_answer in fs/fuse/dev.c).
    pub fn abandon(&self, pid: i32) {
        self.going_home.forget(pid);
        let threads = self.guests().threads_of(pid);
        let of_process = |pending: &Pending| match pending {
            Pending::Standin(asked) => asked.pid == pid,
            Pending::Proc { pid: asker, .. } => *asker == pid,
            Pending::Notified { waiting: Waiting { host_tid: host, .. }, .. }
            | Pending::Missed { waiting: Waiting { host_tid: host, .. }, .. }
            | Pending::Held { host, .. } => threads.iter().any(|(thread, _)| thread == host),
            // The tracer forgets it with the thread.
            Pending::Birth { .. } | Pending::Unasked => false,
        };
        let abandoned: Vec<Pending> = lock(&self.pending).extract_if(|_, p| of_process(p)).map(|(_, p)| p).collect();
        for pending in abandoned {
            match pending {
                Pending::Standin(asked) => self.standins.finish(asked, -i64::from(libc::EINTR), &[]),
                Pending::Proc { unique, .. } => super::proc::answered(self, unique, -i64::from(libc::EINTR), &[]),
                _ => {}
            }
        }
    }

    /// The number of the request that the kernel knows as `unique`, and the thread that waits for
    /// it.
    pub fn asked_by(&self, unique: u64) -> Option<(CallId, Option<HostTid>)> {
        lock(&self.pending).iter().find_map(|(id, pending)| match pending {
            Pending::Standin(asked) if asked.unique == unique => Some((*id, asked.host)),
            _ => None,
        })
    }

    /// A guest's call at a listener was interrupted: if home has answered it, the result; if home
    /// is running it, its answer goes to the tracer from now on.
    pub fn hold(&self, caller: HostTid) -> Interrupted {
        let mut pending = lock(&self.pending);
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

    /// Whether home runs this call already, or has answered it: a signal to the process had woken
    /// its thread, and another took it. Then nobody sees the thread stop before the kernel has it
    /// make the call again (recalc_sigpending), and what becomes of the first is the second's
    /// result.
    pub fn is_answered_already(&self, again: &Waiting) -> bool {
        lock(&self.pending).values_mut().any(|pending| match pending {
            Pending::Notified { waiting, .. } if again.is_again(waiting) => {
                *waiting = again.clone();
                true
            }
            Pending::Missed { waiting, .. } if again.is_again(waiting) => {
                self.orders.give(super::tracer::orders::Order::Answer { host: again.host_tid });
                true
            }
            _ => false,
        })
    }

    /// Whether a thread's process, or who made that, has run elsewhere.
    pub fn has_moved(&self, host: HostTid) -> bool {
        let guests = self.guests();
        guests.who(host).and_then(|who| guests.get(who.pid)).is_some_and(|guest| guest.has_moved)
    }

    /// Which stand-in a guest's descriptor is, if it is one.
    pub fn standin_of(&self, host: HostTid, fd: i32) -> Option<StandinId> {
        let info = os::process::fd_info(host.0, fd).ok()?;
        self.standins.standin(info.mount_id, info.inode)
    }

    /// Whether a guest's descriptor is a stand-in, or may be a FIFO of home's.
    pub fn stands_in(&self, host: HostTid, fd: i32) -> bool {
        os::process::fd_info(host.0, fd).is_ok_and(|info| {
            self.standins.standin(info.mount_id, info.inode).is_some() || self.fifos.may_be(info.inode)
        })
    }

    /// A call on this descriptor ends when a signal interrupts it: it has a time limit.
    pub fn ends_by_signal(&self, host: HostTid, fd: i32) -> bool {
        self.standins.any_timed() && self.standin_of(host, fd).is_some_and(|standin| self.standins.is_timed(standin))
    }

    /// A call was refused: for `tern why`, and for the log.
    pub fn refused(&self, pid: i32, nr: u32, why: &str) {
        tracing::info!(pid, call = systable::name(nr).unwrap_or("?"), "refused: {why}");
        self.tell(&ToHome::Refused { pid, nr, why: why.to_owned() });
    }
}
