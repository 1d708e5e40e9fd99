//! Where each body is in its life.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Where each body is in its life.
#[derive(Debug, Default)]
pub struct Bodies {
    /// When bodies came that were moved here.
    pub came: HashMap<i32, Instant>,
    pub phases: HashMap<i32, Phase>,
}

/// A step of it.
#[derive(Debug)]
pub enum Phase {
    /// The porter makes its process, which waits at the other end of this socket for what it is to
    /// be.
    Expected(OwnedFd),
    /// The porter's child makes itself ready for its program.
    Starting,
    /// The program runs.
    Running,
    /// The body never will: its process ends, and waits for the porter to reap it.
    Failed {
        /// Home wants to know when.
        awaited: bool,
    },
    /// The body goes on elsewhere; its remains here were killed, and wait for the porter to reap
    /// them.
    Left,
}

impl Bodies {
    /// A body that was starting will not run. False if that is known already, or home has not said
    /// yet what it is to be.
    pub fn fail(&mut self, pid: i32) -> bool {
        if self.is_expected(pid) {
            self.phases.remove(&pid);
            return false;
        }
        if self.is_starting(pid) {
            self.phases.insert(pid, Phase::Failed { awaited: false });
            return true;
        }
        false
    }

    /// Home does without it; false if nothing of it has yet to be reaped.
    pub fn await_failed(&mut self, pid: i32) -> bool {
        match self.phases.get_mut(&pid) {
            Some(Phase::Failed { awaited }) => {
                *awaited = true;
                true
            }
            _ => false,
        }
    }

    /// Its step is this now.
    pub fn set(&mut self, pid: i32, phase: Phase) {
        self.phases.insert(pid, phase);
    }

    /// A body that was moved here runs.
    pub fn came(&mut self, pid: i32) {
        self.set(pid, Phase::Running);
        self.came.insert(pid, Instant::now());
    }

    /// For how long a body has run here; of one that was placed, for ever.
    pub fn here_for(&self, pid: i32) -> Duration {
        self.came.get(&pid).map_or(Duration::MAX, Instant::elapsed)
    }

    /// Nothing more is told of it.
    pub fn forget(&mut self, pid: i32) {
        self.came.remove(&pid);
        self.phases.remove(&pid);
    }

    /// Its program runs.
    pub fn is_running(&self, pid: i32) -> bool {
        matches!(self.phases.get(&pid), Some(Phase::Running))
    }

    pub fn is_expected(&self, pid: i32) -> bool {
        matches!(self.phases.get(&pid), Some(Phase::Expected(_)))
    }

    pub fn is_starting(&self, pid: i32) -> bool {
        matches!(self.phases.get(&pid), Some(Phase::Starting))
    }
}
