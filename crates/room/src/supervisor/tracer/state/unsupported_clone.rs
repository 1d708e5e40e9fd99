//! Threads that are to make their call at home, because the room cannot make it.

use os::ptrace::{HostTid, Stopped};
use std::collections::HashMap;

/// Threads that are to make their call at home.
#[derive(Debug, Default)]
pub struct UnsupportedCalls(pub HashMap<HostTid, UnsupportedCall>);

#[derive(Debug)]
pub struct UnsupportedCall {
    pub pid: i32,
    pub nr: u64,
    /// Where its call is made.
    pub at: u64,
    pub state: UnsupportedCallState,
}

#[derive(Debug)]
pub enum UnsupportedCallState {
    /// Its call will fail, and is to be made again.
    Failing,
    /// The thread will stop before its call.
    Asked,
    /// The thread has stopped.
    Held(Stopped),
    /// The process is leaving, or was.
    Leaving,
    /// Its process cannot go home.
    Stays,
}

impl UnsupportedCalls {
    /// Threads that are held, which are to leave with the others.
    pub fn take(&mut self, pid: i32) -> Vec<Stopped> {
        self.change(pid, || UnsupportedCallState::Leaving)
    }

    /// Whether threads of this process are held.
    pub fn holds(&self, pid: i32) -> bool {
        self.0.values().any(|wish| wish.pid == pid && matches!(wish.state, UnsupportedCallState::Held(_)))
    }

    /// A thread ended.
    pub fn forget_thread(&mut self, host: HostTid) {
        self.0.remove(&host);
    }

    /// The process is not here any more.
    pub fn forget(&mut self, pid: i32) {
        self.0.retain(|_, wish| wish.pid != pid);
    }

    /// All wishes of a process are in that state from now on, but of calls that have still to fail;
    /// the threads that were held.
    pub fn change(&mut self, pid: i32, state: impl Fn() -> UnsupportedCallState) -> Vec<Stopped> {
        let concerned =
            self.0.values_mut().filter(|wish| wish.pid == pid && !matches!(wish.state, UnsupportedCallState::Failing));
        let held = concerned.filter_map(|wish| match std::mem::replace(&mut wish.state, state()) {
            UnsupportedCallState::Held(stopped) => Some(stopped),
            _ => None,
        });
        held.collect()
    }
}
