//! The state that the warden's threads share.

use crate::sandbox::spares::Spares;
use crate::state::files::devices::table::Devices;
use crate::state::guests::{Guests, Waiting};
use crate::state::home_link::HomeLink;
use crate::state::ledger::Ledger;
use crate::state::orders::Orders;
use crate::state::pending::Pending;
use control_protocol::steward::RoomKind;
use os::ptrace::HostTid;
use room_protocol::ToHome;
use room_protocol::message::{CallId, StandinId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A room, as its warden's threads see it.
pub struct Shared {
    /// Calls whose processes go home for them.
    pub going_home: crate::state::going_home::GoingHome,
    /// Calls that could not pass their descriptors from here.
    pub unpassed: crate::state::unpassed::Unpassed,
    /// The link to the home, and the answers that the room waits for.
    pub home: HomeLink,
    /// The guests of this room.
    guests: Mutex<Guests>,
    /// To the tracer.
    pub orders: Orders,
    /// Open stand-ins in stock.
    pub spares: Spares,
    /// Descriptors that threads are still to take.
    pub owed: crate::state::due_before_return::Owed,
    /// Ways to other rooms and from them.
    pub direct_links: crate::state::transfer::direct_links::DirectLinks,
    /// Pages of running bodies that have gone home.
    pub homeward: crate::state::transfer::homeward_tries::HomewardTries,
    /// Processes on their way in.
    pub incoming: crate::state::transfer::incoming_queue::IncomingQueue,
    /// Pages of those who were here.
    pub page_cache: checkpoint::PageCache,
    /// Pages that home has of bodies that come.
    pub stocked: crate::state::transfer::peer_pages::AtHome,
    /// Processes that run here, and whose pages follow.
    pub postcopy: crate::state::transfer::postcopy_queue::PostcopyQueue,
    /// Pages on their way home.
    pub windows: crate::state::transfer::windows::Windows,
    /// Memory for frames of pages.
    pub bodies: link::Bodies,
    /// Bodies that went on at home, whose pages follow.
    pub lenders: checkpoint::Lenders,
    /// The usage of bodies.
    pub ledger: Ledger,
    /// The home's /dev.
    pub devices: Devices,
    /// Numbers of file systems as home has them.
    pub device_numbers: crate::state::device_numbers::DeviceNumbers,
    /// Device of the stand-ins' file system.
    pub standins: crate::state::files::standins::device::Device,
    /// Open files that have a lock of their own.
    pub locked: crate::state::file_locks::Locked,
    /// Pairs of sockets that were made here.
    pub pairs: crate::state::socket_pairs::Pairs,
    /// FIFOs of home's that guests have opened.
    pub fifos: crate::state::fifos::Fifos,
    /// The home's /proc.
    pub proc: crate::state::files::proc::table::Proc,
    /// The room's control group, if it has one.
    pub group: OnceLock<os::cgroup::Group>,
    /// So many of its processes the kernel has killed for want of memory, as far as was told.
    killed_for_memory: AtomicU64,
    /// Threads that install a filter.
    pub filtering: crate::state::filtering::Filtering,
    /// So far is home's monotonic clock ahead of this machine's, nanoseconds.
    pub home_ahead_ns: OnceLock<i64>,
    /// Home's wall clock, if this machine's is wrong.
    pub wall: OnceLock<crate::state::wall::Wall>,
    /// Over programs that begin here.
    pub vigil: os::awake::Vigil,
    /// Whether the room is suspended.
    pub suspension: crate::state::suspension::Suspension,
    /// The kind of this room; set when the room is made.
    pub kind: OnceLock<RoomKind>,
    /// Home's code for its processes, if guests may not use this kernel's.
    pub strange: OnceLock<checkpoint::ForeignVdso>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Whether guests use this machine's own files and network.
    pub fn is_node_local(&self) -> bool {
        self.kind.get() == Some(&RoomKind::NodeLocal)
    }

    /// A room without guests.
    pub fn new(
        uplink: Arc<link::Sender>,
        orders: Orders,
        standins: crate::state::files::standins::device::Device,
        proc: crate::state::files::proc::table::Proc,
    ) -> Shared {
        Shared {
            home: HomeLink::new(uplink),
            guests: Mutex::default(),
            orders,
            incoming: crate::state::transfer::incoming_queue::IncomingQueue::default(),
            direct_links: crate::state::transfer::direct_links::DirectLinks::default(),
            homeward: crate::state::transfer::homeward_tries::HomewardTries::default(),
            postcopy: crate::state::transfer::postcopy_queue::PostcopyQueue::default(),
            windows: crate::state::transfer::windows::Windows::default(),
            bodies: link::Bodies::default(),
            lenders: checkpoint::Lenders::default(),
            page_cache: checkpoint::PageCache::of_machine(),
            stocked: crate::state::transfer::peer_pages::AtHome::default(),
            ledger: Ledger::default(),
            going_home: crate::state::going_home::GoingHome::default(),
            unpassed: crate::state::unpassed::Unpassed::default(),
            devices: Devices::default(),
            device_numbers: crate::state::device_numbers::DeviceNumbers::default(),
            owed: crate::state::due_before_return::Owed::default(),
            spares: Spares::default(),
            standins,
            locked: crate::state::file_locks::Locked::default(),
            pairs: crate::state::socket_pairs::Pairs::default(),
            fifos: crate::state::fifos::Fifos::default(),
            proc,
            group: OnceLock::new(),
            killed_for_memory: AtomicU64::new(0),
            filtering: crate::state::filtering::Filtering::default(),
            home_ahead_ns: OnceLock::new(),
            wall: OnceLock::new(),
            vigil: os::awake::Vigil::default(),
            suspension: crate::state::suspension::Suspension::default(),
            kind: OnceLock::new(),
            strange: OnceLock::new(),
        }
    }

    /// Tells the home something. A link that fails ends the room by its receiver.
    pub fn tell(&self, message: &ToHome) {
        self.home.tell(message);
    }

    /// The kernel has killed one process more for want of memory since this was last asked.
    pub fn kernel_killed_for_memory(&self) -> bool {
        let Some(now) = self.group.get().and_then(os::cgroup::Group::killed_for_memory) else { return false };
        let told = |told: u64| (told < now).then_some(told + 1);
        self.killed_for_memory.fetch_update(Ordering::Relaxed, Ordering::Relaxed, told).is_ok()
    }

    /// The guests of this room.
    pub fn guests(&self) -> MutexGuard<'_, Guests> {
        lock(&self.guests)
    }

    /// What was expected will not come: nobody was asked.
    pub fn withdraw(&self, id: CallId) {
        if let Some(Pending::Held { .. }) = self.home.pending().remove(&id) {
            self.orders.give(crate::state::orders::Order::Ended { id, result: -i64::from(libc::EINTR) });
        }
    }

    /// A thread ended: nothing is kept for it.
    pub fn forget(&self, ended: HostTid) {
        self.owed.take(ended);
        let mut pending = self.home.pending();
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
            Pending::Birth { .. } | Pending::Unasked | Pending::MayStream(_) => false,
        };
        let abandoned: Vec<Pending> = self.home.pending().extract_if(|_, p| of_process(p)).map(|(_, p)| p).collect();
        for pending in abandoned {
            match pending {
                Pending::Standin(asked) => self.standins.finish(asked, -i64::from(libc::EINTR), &[]),
                Pending::Proc { unique, .. } => self.proc.abandon(unique, libc::EINTR),
                _ => {}
            }
        }
    }

    /// Whether home runs this call already, or has answered it: a signal to the process had woken
    /// its thread, and another took it. Then nobody sees the thread stop before the kernel has it
    /// make the call again (recalc_sigpending), and what becomes of the first is the second's
    /// result.
    pub fn is_answered_already(&self, again: &Waiting) -> bool {
        self.home.pending().values_mut().any(|pending| match pending {
            Pending::Notified { waiting, .. } if again.is_again(waiting) => {
                *waiting = again.clone();
                true
            }
            Pending::Missed { waiting, .. } if again.is_again(waiting) => {
                self.orders.give(crate::state::orders::Order::Answer { host: again.host_tid });
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
        self.standins.standin_of(host, fd)
    }

    /// Which stream a guest's descriptor is, if it is one.
    pub fn stream_of(&self, host: HostTid, fd: i32) -> Option<StandinId> {
        if !self.home.streams.is_any() {
            return None;
        }
        let info = os::process::fd_info(host.0, fd).ok()?;
        self.stream(info.mount_id, info.inode)
    }

    /// Which stream this file is an end of, if it is one.
    pub fn stream(&self, mount_id: u64, inode: u64) -> Option<StandinId> {
        let standin = self.home.streams.of_inode(inode)?;
        self.pairs.is_socket(mount_id).then_some(standin)
    }

    /// Which stand-in or stream a guest's descriptor is, if it is one.
    pub fn kept_at_home(&self, host: HostTid, fd: i32) -> Option<StandinId> {
        let info = os::process::fd_info(host.0, fd).ok()?;
        self.standins.standin(info.mount_id, info.inode).or_else(|| self.stream(info.mount_id, info.inode))
    }

    /// Counts a call on a stand-in: one that is used often may become a stream.
    pub fn uses(&self, standin: StandinId) {
        if self.home.streams.uses(standin) {
            let id = self.home.expect(Pending::MayStream(standin));
            self.tell(&ToHome::MayStream { id, standin });
        }
    }

    /// Whether a guest's descriptor is a stand-in or a stream, or may be a FIFO of home's.
    pub fn stands_in(&self, host: HostTid, fd: i32) -> bool {
        os::process::fd_info(host.0, fd).is_ok_and(|info| {
            self.standins.standin(info.mount_id, info.inode).is_some()
                || self.stream(info.mount_id, info.inode).is_some()
                || self.fifos.may_be(info.inode)
        })
    }

    /// A call on this descriptor ends when a signal interrupts it: it has a time limit.
    pub fn ends_by_signal(&self, host: HostTid, fd: i32) -> bool {
        self.standins.any_timed() && self.standin_of(host, fd).is_some_and(|standin| self.standins.is_timed(standin))
    }
}
