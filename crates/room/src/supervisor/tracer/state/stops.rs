//! Threads that wait for home's word about a stop of job control.

use os::ptrace::{HostTid, Stopped};
use std::collections::{HashMap, HashSet};

/// Threads that wait for home's word, by process.
#[derive(Debug, Default)]
pub struct Stops {
    pub pausing: HashMap<i32, Vec<Stopped>>,
    /// SIGCONTs that came from home.
    pub continued: HashMap<i32, u32>,
    /// Processes whose deputies are stopped.
    pub stopped: HashSet<i32>,
}

impl Stops {
    /// A thread ended.
    pub fn forget_thread(&mut self, host: HostTid) {
        self.pausing.values_mut().for_each(|threads| threads.retain(|t| t.tid() != host));
    }

    /// A process is gone.
    pub fn forget(&mut self, pid: i32) {
        self.pausing.remove(&pid);
        self.continued.remove(&pid);
        self.stopped.remove(&pid);
    }

    /// Its deputy is stopped: what that runs for it does not end before it is continued.
    pub fn is_stopped(&self, pid: i32) -> bool {
        self.stopped.contains(&pid)
    }

    /// A SIGCONT came from home.
    pub fn count(&mut self, pid: i32) {
        self.stopped.remove(&pid);
        let count = self.continued.entry(pid).or_default();
        *count = count.wrapping_add(1);
    }
}
