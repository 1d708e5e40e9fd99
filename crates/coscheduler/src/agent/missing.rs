//! The means that a machine does not allow.

use crate::levers::{Boost, Thread, began};

/// Something that a mode would use, and cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Missing {
    /// The agent has no priority of real time.
    #[error("the agent has no real-time priority, so under load windows begin late (only root gives it)")]
    Agent,
    /// No arrivals are seen.
    #[error("the agent cannot see messages arrive, so no task is preferred for them")]
    Events,
    /// No control groups to freeze.
    #[error("no freezer can be used, so tasks are stopped by SIGSTOP, which their parents see")]
    Freezer,
    /// Tasks were started without the library.
    #[error("the tasks neither spin nor read ahead, for they were not started by `tern cosched run`")]
    Preload,
    /// Nothing raises the priority of tasks.
    #[error("the priority of tasks cannot be raised (only root may)")]
    Priority,
    /// Tasks cannot run by real time.
    #[error("tasks cannot run by real time in their control group, so they have nice value -20 instead")]
    RealTime,
    /// No share of the processors.
    #[error(
        "tasks get no larger share than other control groups and sessions (that needs root and version 1; --real-time may help)"
    )]
    Weight,
}

/// Prefers a thread. Tells what the machine does not allow.
pub fn prefer(thread: &Thread, boost: Boost) -> Option<Missing> {
    let Err(e) = thread.raise(boost) else { return None };
    if boost == Boost::RealTime && thread.raise(Boost::Nice).is_ok() {
        return Some(Missing::RealTime);
    }
    tracing::debug!("cosched: {e}");
    (began(thread.key.pid) == Some(thread.key.began)).then_some(Missing::Priority)
}
