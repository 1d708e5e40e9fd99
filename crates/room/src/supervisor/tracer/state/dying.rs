//! Processes that are about to die of a signal that leaves a core.

use os::ptrace::{HostTid, Stopped};
use std::collections::{HashMap, HashSet};

/// Processes that are about to die.
#[derive(Debug, Default)]
pub struct Dying {
    /// Their threads that took the signal.
    pub held: HashMap<i32, Vec<Stopped>>,
    /// They die here.
    pub here: HashSet<i32>,
}

impl Dying {
    /// Threads that are held, which are to leave with the others.
    pub fn take(&mut self, pid: i32) -> Vec<Stopped> {
        self.held.remove(&pid).unwrap_or_default()
    }

    /// Whether this process is.
    pub fn holds(&self, pid: i32) -> bool {
        self.held.contains_key(&pid) || self.here.contains(&pid)
    }

    /// A thread ended.
    pub fn forget_thread(&mut self, host: HostTid) {
        self.held.values_mut().for_each(|threads| threads.retain(|t| t.tid() != host));
    }

    /// The process is not here any more.
    pub fn forget(&mut self, pid: i32) {
        self.held.remove(&pid);
        self.here.remove(&pid);
    }
}
