//! Births under way: threads whose call makes a thread or a process.

use os::ptrace::{HostTid, Stopped};
use room_protocol::message::CallId;
use std::collections::{HashMap, HashSet, VecDeque};

/// Births under way.
#[derive(Debug, Default)]
pub struct Births {
    /// Stopped at their call, waiting for home.
    pub waiting: HashMap<HostTid, Stopped>,
    /// Numbers that home made for a thread's next call.
    pub reserved: HashMap<HostTid, i32>,
    /// Whose call is under way in the kernel, if any.
    pub labouring: Option<HostTid>,
    /// Have a number, and wait for their turn.
    pub queue: VecDeque<(Stopped, i32)>,
    /// Registers as they were before a call was rewritten; put back at its end.
    pub rewritten: HashMap<HostTid, libc::user_regs_struct>,
    /// Parents whose child exists, and that wait for a descriptor of it (CLONE_PIDFD), and where
    /// its number goes.
    pub described: HashMap<CallId, (Stopped, u64)>,
    /// Parents that get such a descriptor at their call's end.
    pub owed: HashSet<HostTid>,
    /// New processes that were seen to stop before their birth was told.
    pub early: HashMap<HostTid, Stopped>,
    /// New threads whose birth was told, and that were not seen to stop yet, as they will before
    /// all else.
    pub unseen: HashSet<HostTid>,
    /// New processes whose birth was told: their parent's registers, to be given to them at their
    /// first stop.
    pub newborn: HashMap<HostTid, libc::user_regs_struct>,
}

impl Births {
    /// Home made this number for something that does not exist here yet.
    pub fn is_reserved(&self, number: i32) -> bool {
        self.reserved.values().any(|reserved| *reserved == number)
    }

    /// A thread has stopped.
    pub fn seen(&mut self, host: HostTid) {
        self.unseen.remove(&host);
    }

    /// The child exists, and will stop without being asked to.
    pub fn is_unseen(&self, host: HostTid) -> bool {
        self.unseen.contains(&host)
    }

    /// A thread's call is rewritten: its registers as they were come back at its end.
    pub fn rewritten(&mut self, host: HostTid, registers: libc::user_regs_struct) {
        self.rewritten.insert(host, registers);
    }

    /// A thread ended: nothing is under way for it.
    pub fn forget(&mut self, host: HostTid) {
        self.waiting.remove(&host);
        self.unseen.remove(&host);
        self.reserved.remove(&host);
        self.rewritten.remove(&host);
        self.early.remove(&host);
        self.newborn.remove(&host);
        self.queue.retain(|(s, _)| s.tid() != host);
        self.owed.remove(&host);
        self.described.retain(|_, (s, _)| s.tid() != host);
    }
}
