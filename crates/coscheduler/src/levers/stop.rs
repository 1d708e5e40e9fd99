//! How the tasks of a job stand still: by control groups, or else by signals.

use std::path::PathBuf;

use cosched::ProcessKey;
use os::cgroup::Lever;
use os::pidfd::PidFd;
use os::stopped::State;

use super::{Groups, began};

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;

/// The lever that stops a job.
#[derive(Debug)]
pub enum Stop {
    /// By control groups: nobody sees it, and a job that its user has stopped stays stopped.
    Groups(Groups),
    /// By signals, which parents see. Holds those that were stopped so.
    Signals(Vec<ProcessKey>),
}

impl Stop {
    /// Chooses the lever of this machine; `name` is that of the groups.
    pub fn new(name: String) -> Stop {
        Groups::new(Lever::Freeze, name).map_or_else(|| Stop::Signals(Vec::new()), Stop::Groups)
    }

    /// Goes over to signals, because groups are refused.
    pub fn give_up_groups(&mut self) {
        self.end();
        *self = Stop::Signals(Vec::new());
    }

    /// Tells whether nobody sees that tasks are stopped.
    pub fn is_unseen(&self) -> bool {
        matches!(self, Stop::Groups(_))
    }

    /// Prepares for a task that has come.
    ///
    /// # Errors
    /// The task has gone, or the kernel refuses groups.
    pub fn prepare(&mut self, pid: i32) -> os::Result<()> {
        match self {
            Stop::Groups(groups) => groups.prepare(pid),
            Stop::Signals(_) => Ok(()),
        }
    }

    /// Takes a task that has come.
    ///
    /// # Errors
    /// The task has gone, or the kernel refuses groups.
    pub fn take(&mut self, pid: i32) -> os::Result<()> {
        match self {
            Stop::Groups(groups) => groups.take(pid),
            Stop::Signals(_) => Ok(()),
        }
    }

    /// Leaves out a process of the job that is no task.
    pub fn release(&self, pid: i32) {
        if let Stop::Groups(groups) = self
            && let Err(e) = groups.release(pid)
        {
            tracing::debug!("cosched: {e}");
        }
    }

    /// Names the tasks that the next [`stop`](Self::stop) will stop by a signal: all but those that
    /// their user has stopped.
    pub fn choose_stopped(&mut self, tasks: impl Iterator<Item = ProcessKey>) {
        if let Stop::Signals(chosen) = self {
            let runs = |task: &ProcessKey| State::of(task.pid).is_ok_and(|state| !state.is_stopped());
            *chosen = tasks.filter(runs).collect();
        }
    }

    /// Stops the tasks.
    ///
    /// # Errors
    /// The kernel refuses; the others are stopped nevertheless.
    pub fn stop(&mut self) -> os::Result<()> {
        match self {
            Stop::Groups(groups) => groups.set_frozen(true),
            Stop::Signals(chosen) => {
                chosen.iter().for_each(|task| signal(*task, SIGSTOP));
                Ok(())
            }
        }
    }

    /// Has them go on.
    ///
    /// # Errors
    /// As for [`stop`](Self::stop).
    pub fn go_on(&mut self) -> os::Result<()> {
        match self {
            Stop::Groups(groups) => groups.set_frozen(false),
            Stop::Signals(stopped) => {
                std::mem::take(stopped).into_iter().for_each(|task| signal(task, SIGCONT));
                Ok(())
            }
        }
    }

    /// Gives the groups that must be dissolved.
    pub fn groups(&self) -> Vec<PathBuf> {
        match self {
            Stop::Groups(groups) => groups.directories().collect(),
            Stop::Signals(_) => Vec::new(),
        }
    }

    /// Gives the tasks that are stopped by a signal, or about to be.
    pub fn stopped(&self) -> &[ProcessKey] {
        match self {
            Stop::Groups(_) => &[],
            Stop::Signals(stopped) => stopped,
        }
    }

    /// Has all tasks go on, and removes what was made.
    pub fn end(&mut self) {
        match self {
            Stop::Groups(groups) => groups.dissolve(),
            Stop::Signals(_) => {
                let _ = self.go_on();
            }
        }
    }
}

fn signal(task: ProcessKey, number: i32) {
    if began(task.pid) != Some(task.began) {
        return;
    }
    if let Err(e) = PidFd::open(task.pid).and_then(|held| held.kill(number)) {
        tracing::debug!("cosched: {e}");
    }
}
