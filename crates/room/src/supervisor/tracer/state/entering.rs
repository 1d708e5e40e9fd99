//! Programs that are on their way to the node's own files.

use os::ptrace::HostTid;
use std::collections::HashMap;

/// A trap at the entry of a program.
#[derive(Clone, Copy, Debug)]
pub struct Trap {
    /// Where it lies.
    pub entry: u64,
    /// The program's number of the node's root directory.
    pub root: u64,
}

/// Programs that are on their way.
#[derive(Default)]
pub struct Entering {
    expected: HashMap<i32, u64>,
    traps: HashMap<HostTid, Trap>,
}

impl Entering {
    /// This process executes its program next, and has the node's root directory under a number.
    pub fn expect(&mut self, pid: i32, root: u64) {
        self.expected.insert(pid, root);
    }

    /// The number, if the process was expected; it is not any more.
    pub fn expected(&mut self, pid: i32) -> Option<u64> {
        self.expected.remove(&pid)
    }

    /// This thread has a trap before it.
    pub fn set(&mut self, host: HostTid, trap: Trap) {
        self.traps.insert(host, trap);
    }

    /// Takes the trap in which a thread stands, whose next instruction is at `rip`.
    pub fn take_at(&mut self, host: HostTid, rip: u64) -> Option<Trap> {
        let stands = self.traps.get(&host).is_some_and(|trap| trap.entry == rip);
        stands.then(|| self.traps.remove(&host)).flatten()
    }

    /// The thread or process is gone.
    pub fn forget(&mut self, host: HostTid, pid: Option<i32>) {
        self.traps.remove(&host);
        pid.map(|pid| self.expected.remove(&pid));
    }
}
