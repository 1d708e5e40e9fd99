//! Who lives in the room: threads by the hosting kernel's number and by the home's.

use os::ptrace::HostTid;
use os::seccomp::Answer;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::message::{Descriptor, StandinId};

/// A thread of a guest, by the home's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
}

/// A process that lives here.
#[derive(Clone, Debug)]
pub struct Guest {
    /// What its deputy holds for it.
    pub descriptors: Vec<Descriptor>,
    /// Signals that it ignores, as its deputy knows (bit n-1 for signal n).
    pub ignored: u64,
    /// SA_NOCLDSTOP and SA_NOCLDWAIT of its SIGCHLD, likewise.
    pub child_flags: u64,
    /// Its program runs: what it does is no more what the porter does for it.
    pub runs: bool,
}

impl Guest {
    /// Number at home of the descriptor that a stand-in stands for.
    pub fn home_fd(&self, standin: StandinId) -> Option<i32> {
        self.descriptors.iter().find(|d| d.standin == standin).map(|d| d.fd)
    }

    /// Whether a stand-in may stand for a terminal.
    pub fn is_terminal(&self, standin: StandinId) -> bool {
        self.descriptors.iter().any(|d| d.standin == standin && d.terminal)
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

    /// As [`Guests::get`], to change it.
    pub fn get_mut(&mut self, pid: i32) -> Option<&mut Guest> {
        self.processes.get_mut(&pid)
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
            guest.descriptors.push(Descriptor { fd, standin, flags: 0, terminal: true });
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
    /// The listener.
    pub listener: Arc<OwnedFd>,
    /// The call's name there.
    pub id: u64,
    /// Whose memory its pointers mean.
    pub host_tid: HostTid,
}

impl Waiting {
    /// The caller still waits for its answer.
    pub fn still_waits(&self) -> bool {
        use std::os::fd::AsFd;
        os::seccomp::still_waits(self.listener.as_fd(), self.id)
    }

    /// Lets the caller go on.
    pub fn answer(&self, answer: Answer) {
        use std::os::fd::AsFd;
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
