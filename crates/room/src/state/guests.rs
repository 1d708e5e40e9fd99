//! Who lives in the room: threads by the hosting kernel's number and by the home's.

use crate::sandbox::porter::body::IPC_LOCK;
use crate::sandbox::spares::Spare;
use crate::state::call_counts::{FamilyCounts, TimedCall};
use crate::state::cpu_times::{Before, CpuTicks};
use image::Used;
use os::process::Limit;
use os::ptrace::HostTid;
use os::seccomp::Answer;
use room_protocol::message::{Descriptor, Place, StandinId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A thread of a guest, by the home's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// PID of the process.
    pub pid: i32,
    /// TID of the thread.
    pub tid: i32,
}

/// A process that lives here.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Numbers of its deputy's descriptors, as far as the room knows them.
    pub numbers: HashMap<StandinId, i32>,
    /// Stand-ins that it was placed with and that may stand for terminals.
    pub terminals: HashSet<StandinId>,
    /// Connections that its deputy accepted for calls that were interrupted: the next call on the
    /// same listener gets them.
    pub unclaimed: HashMap<StandinId, VecDeque<Arc<Accepted>>>,
    /// Signals that it ignores (bit n-1 for signal n).
    pub ignored: u64,
    /// SA_NOCLDSTOP and SA_NOCLDWAIT of its SIGCHLD, likewise.
    pub child_flags: u64,
    /// It has a descriptor that signals are read from.
    pub reads_signals: bool,
    /// Numbers under which it has stand-ins from the beginning, in the order in which they should
    /// look as at home.
    pub began_with: Vec<i32>,
    /// Descriptors whose attributes it asks home for (`tracer/fstat_filters.rs`).
    pub shown: HashSet<i32>,
    /// It asks home for those of all its descriptors.
    pub shows_all: bool,
    /// Where it has a copy of the code of home's kernel (`foreign_vdso.rs`).
    pub vdso: Option<image::Vdso>,
    /// It had unmapped the kernel's pages at home: those that it has here are tern's.
    pub without_vdso: bool,
    /// CPU time that it had used when it came.
    pub before: Option<Arc<Before>>,
    /// Its program runs: what it does is no more what the porter does for it.
    pub runs: bool,
    /// It has asked to be traced by its parent.
    pub traced: ToBeTraced,
    /// It, or who made it, has run elsewhere, or home wants so: it sees home's numbers of file
    /// systems (`device_numbers.rs`).
    pub has_moved: bool,
    /// Numbers of shared memory of home's (System V) that it has got by a key.
    pub memory_of_home: HashSet<i32>,
    /// It may run before all others at home (CAP_SYS_NICE).
    pub is_first_of_all: bool,
    /// How much memory it may lock.
    pub locked: LockedMemory,
    /// A program that it executes would have rights that it has given up (`tracer/rights.rs`).
    pub gains_by_exec: bool,
    /// Tells its stay here from one before under the same number.
    pub stay: StayId,
    /// The process that made it here, as long as home has not said otherwise.
    pub parent: Option<Parent>,
    /// Home has ended it: its children may have another parent there already.
    pub is_ended: bool,
    /// Counts of its calls, and of its family's.
    pub calls: FamilyCounts,
}

/// How much memory a process may lock at home. The kernel here knows of no capability of its own by
/// which it may lock all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedMemory {
    /// Its limit at home.
    pub limit: Limit,
    /// It has CAP_IPC_LOCK at home, and is not held to that limit.
    pub is_free: bool,
}

impl Default for LockedMemory {
    fn default() -> LockedMemory {
        LockedMemory { limit: Limit { soft: u64::MAX, hard: u64::MAX }, is_free: false }
    }
}

impl LockedMemory {
    /// What home says of a process.
    pub fn of(place: &Place) -> LockedMemory {
        let limit = place.limits.get(libc::RLIMIT_MEMLOCK as usize);
        let (soft, hard) = limit.copied().unwrap_or((u64::MAX, u64::MAX));
        LockedMemory { limit: Limit { soft, hard }, is_free: place.credentials.capabilities.effective & IPC_LOCK != 0 }
    }

    /// The limit that holds here. The hard limit stays as high as can be: home says what it is.
    fn here(&self) -> Limit {
        Limit { soft: if self.is_free { u64::MAX } else { self.limit.soft }, hard: u64::MAX }
    }
}

/// A child of vfork(2) that asks to be traced (PTRACE_TRACEME), which it can be at home alone, and
/// cannot go there before it executes a program: a shell first, by which it goes home, and is
/// traced when it executes that program there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToBeTraced {
    /// It has not.
    #[default]
    No,
    /// It was told that it is.
    Promised,
    /// It executes the shell.
    ByShell,
    /// The shell runs, and is to execute the program.
    Due,
}

/// Files and terminals first: what is no file can be shown by one filter for all, too.
fn in_order(descriptors: &[Descriptor]) -> Vec<i32> {
    let mut all: Vec<&Descriptor> = descriptors.iter().filter(|d| d.fd > libc::STDERR_FILENO).collect();
    all.sort_by_key(|d| (!d.standin.is_file(), !d.terminal, d.fd));
    all.into_iter().map(|d| d.fd).collect()
}

/// One stay of a process in this room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StayId(u64);

impl StayId {
    /// One that no other stay has.
    fn fresh() -> StayId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        StayId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A parent that lives here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its number at home.
    pid: i32,
    /// Its stay here.
    stay: StayId,
}

/// A new descriptor at home, with its open file in the room.
#[derive(Debug)]
pub struct Accepted {
    /// The stand-in in stock.
    pub spare: Spare,
    /// The bytes that the call wrote.
    pub out: Vec<u8>,
}

impl Guest {
    /// One whose deputy holds these, and that ignores these signals.
    pub fn new(descriptors: &[Descriptor], ignored: u64, child_flags: u64) -> Guest {
        Guest {
            numbers: descriptors.iter().map(|d| (d.standin, d.at_home)).collect(),
            terminals: descriptors.iter().filter(|d| d.terminal).map(|d| d.standin).collect(),
            unclaimed: HashMap::new(),
            ignored,
            child_flags,
            reads_signals: false,
            began_with: in_order(descriptors),
            shown: HashSet::new(),
            shows_all: false,
            vdso: None,
            without_vdso: false,
            before: None,
            runs: false,
            traced: ToBeTraced::No,
            has_moved: false,
            memory_of_home: HashSet::new(),
            gains_by_exec: false,
            is_first_of_all: false,
            locked: LockedMemory::default(),
            stay: StayId::fresh(),
            parent: None,
            is_ended: false,
            calls: FamilyCounts::default(),
        }
    }

    /// Signals that its deputy is to ignore: those whose being ignored does something at home. What
    /// else is ignored the tracer throws away, unless it is blocked (`tracer/ignored.rs`).
    pub fn mirrored(&self) -> u64 {
        const FELT_AT_HOME: [i32; 5] = [libc::SIGCHLD, libc::SIGPIPE, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        self.ignored & FELT_AT_HOME.iter().fold(0, |set, signal| set | 1u64 << (signal - 1))
    }

    /// A child of this one, as fork(2) makes it. `own_pid` is this one's number at home.
    pub fn child(&self, own_pid: i32) -> Guest {
        Guest {
            stay: StayId::fresh(),
            parent: Some(Parent { pid: own_pid, stay: self.stay }),
            is_ended: false,
            unclaimed: HashMap::new(),
            before: None,
            traced: ToBeTraced::No,
            calls: self.calls.child(),
            ..self.clone()
        }
    }

    /// Whether it asks home for the attributes of this descriptor.
    pub fn is_shown(&self, fd: i32, has_offset: bool) -> bool {
        let others_are = self.shows_all && !has_offset;
        fd <= libc::STDERR_FILENO || others_are || self.shown.contains(&fd)
    }

    /// Whether a stand-in may stand for a terminal.
    pub fn is_terminal(&self, standin: StandinId) -> bool {
        self.terminals.contains(&standin)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Guests {
    processes: HashMap<i32, Guest>,
    threads: HashMap<HostTid, Who>,
    hosts: HashMap<i32, HostTid>,
}

impl Guests {
    /// A process comes.
    pub fn add(&mut self, pid: i32, guest: Guest) {
        self.processes.insert(pid, guest);
    }

    /// A thread comes.
    pub fn add_thread(&mut self, host: HostTid, who: Who) {
        self.threads.insert(host, who);
        self.hosts.insert(who.tid, host);
    }

    /// A thread goes.
    pub fn remove_thread(&mut self, host: HostTid) -> Option<Who> {
        let who = self.threads.remove(&host)?;
        if self.hosts.get(&who.tid) == Some(&host) {
            self.hosts.remove(&who.tid);
        }
        Some(who)
    }

    /// A process goes.
    pub fn remove(&mut self, pid: i32) -> Option<Guest> {
        self.processes.remove(&pid)
    }

    /// Who a thread of this machine is at home.
    pub fn who(&self, host: HostTid) -> Option<Who> {
        self.threads.get(&host).copied()
    }

    /// The thread of this machine that has this number at home.
    pub fn host(&self, tid: i32) -> Option<HostTid> {
        self.hosts.get(&tid).copied()
    }

    /// A process, by its number at home.
    pub fn get(&self, pid: i32) -> Option<&Guest> {
        self.processes.get(&pid)
    }

    /// The parent of a process, if it has lived here since it made the process: home need not be
    /// asked. A process that home has ended, or that has left, counts as nobody's parent.
    pub fn parent_here(&self, pid: i32) -> Option<i32> {
        let Parent { pid, stay } = self.get(pid)?.parent?;
        self.get(pid).filter(|parent| parent.stay == stay && !parent.is_ended).map(|_| pid)
    }

    /// Home has ended a process.
    pub fn end(&mut self, pid: i32) {
        self.processes.get_mut(&pid).into_iter().for_each(|guest| guest.is_ended = true);
    }

    /// As [`Guests::get`], to change it.
    pub fn get_mut(&mut self, pid: i32) -> Option<&mut Guest> {
        self.processes.get_mut(&pid)
    }

    /// Nobody has this stand-in any more.
    pub fn forget(&mut self, standin: StandinId) {
        for guest in self.processes.values_mut() {
            guest.numbers.remove(&standin);
        }
    }

    /// Processes that live here.
    pub fn pids(&self) -> Vec<i32> {
        self.processes.keys().copied().collect()
    }

    /// The program of a process runs.
    pub fn runs(&mut self, pid: i32) {
        if let Some(guest) = self.processes.get_mut(&pid) {
            guest.runs = true;
        }
    }

    /// The deputy of a process has opened a device.
    pub fn has_device(&mut self, pid: i32, fd: i32, standin: StandinId) {
        if let Some(guest) = self.processes.get_mut(&pid) {
            guest.numbers.insert(standin, fd);
            guest.terminals.insert(standin);
        }
    }

    /// Home changes what a process may lock: its kernel here follows.
    pub fn limit_locked(&mut self, pid: i32, change: impl FnOnce(&mut LockedMemory)) {
        let Some(guest) = self.processes.get_mut(&pid) else { return };
        let before = guest.locked;
        change(&mut guest.locked);
        let (now, host) = (guest.locked, self.hosts.get(&pid));
        if let Some(host) = host.filter(|_| now.here() != before.here())
            && let Err(e) = os::process::limit(host.0, libc::RLIMIT_MEMLOCK, now.here())
        {
            tracing::debug!("{e}");
        }
    }

    /// Threads of a process.
    pub fn threads_of(&self, pid: i32) -> Vec<(HostTid, Who)> {
        self.threads.iter().filter(|(_, w)| w.pid == pid).map(|(h, w)| (*h, *w)).collect()
    }
}

/// A guest's call that waits at a listener for its answer.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The listener of its filter.
    pub listener: Arc<OwnedFd>,
    /// The call's name there.
    pub id: u64,
    /// Whose memory its pointers mean.
    pub host_tid: HostTid,
    /// Number and arguments; none of a thread that has ended.
    pub call: Option<(u32, [u64; 6])>,
    /// Counts the call when it is answered; none of a thread that is not known.
    pub timed: Option<Arc<TimedCall>>,
}

impl Waiting {
    /// Whether it is this call, made again.
    pub fn is_again(&self, before: &Waiting) -> bool {
        self.call.is_some() && (self.host_tid, self.call) == (before.host_tid, before.call)
    }

    /// The caller still waits for its answer.
    pub fn still_waits(&self) -> bool {
        use std::os::fd::AsFd;
        os::seccomp::still_waits(self.listener.as_fd(), self.id)
    }

    /// Lets the caller go on.
    pub fn answer(&self, answer: Answer) {
        use std::os::fd::AsFd;
        if let Some(timed) = &self.timed {
            timed.ends(&answer);
        }
        if let Err(e) = os::seccomp::answer(self.listener.as_fd(), self.id, answer) {
            tracing::warn!("{e}");
        }
    }
}

/// Which stops of job control a thread blocks (bit n-1 for signal n).
pub fn blocked_stops(host: HostTid) -> u32 {
    let stops = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].iter().fold(0, |set, signal| set | 1u64 << (signal - 1));
    os::process::status(host.0).map_or(0, |status| (status.blocked & stops) as u32)
}

/// USER_HZ is 100.
const NS_PER_TICK: u64 = 10_000_000;

fn ticks(used: Used) -> CpuTicks {
    CpuTicks { user: used.user_ns / NS_PER_TICK, system: used.system_ns / NS_PER_TICK }
}

impl Guests {
    /// Returns the ticks of user and system time that a process had used when it came.
    pub fn ticks_before(&self, pid: i32) -> CpuTicks {
        ticks(self.get(pid).and_then(|guest| guest.before.as_ref()).map_or_else(Used::default, |before| before.used))
    }

    /// Returns the part of these ticks that home's kernel does not count.
    pub fn ticks_away(&self, pid: i32) -> CpuTicks {
        ticks(self.get(pid).and_then(|guest| guest.before.as_ref()).map_or_else(Used::default, |before| before.away))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_known_as_long_as_it_is_here() {
        let mut guests = Guests::default();
        guests.add(7, Guest::new(&[], 0, 0));
        let child = guests.get(7).unwrap().child(7);
        guests.add(8, child);
        assert_eq!((guests.parent_here(7), guests.parent_here(8)), (None, Some(7)));
        guests.end(7);
        assert_eq!(guests.parent_here(8), None, "home has ended it");
        guests.remove(7);
        guests.add(7, Guest::new(&[], 0, 0));
        assert_eq!(guests.parent_here(8), None, "another process has its number");
    }
}
