//! Coscheduling of processes that are away: orders of a home's agent, which `ternd` passes to the
//! nodes that host them.
//!
//! An order holds for [`LEASE`]. Home repeats it, so a mode ends on all nodes when home is lost.

use std::time::Duration;

use cosched::JobMode;
use serde::{Deserialize, Serialize};

/// An order holds for so long, unless it is repeated.
pub const LEASE: Duration = Duration::from_secs(3);
/// Home repeats an order so often.
pub const REPEAT: Duration = Duration::from_millis(1000);
/// The most tasks of a job that are coscheduled on other nodes.
pub const TASKS_MAX: usize = 512;

/// An order for the tasks of one job. Answered by a [`JobOnNode`] for each node that hosts some.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobOrder {
    /// Number of the job, which no later job of this home has.
    pub job: u64,
    /// The tasks: PIDs at home, at most [`TASKS_MAX`]. Only those that are away matter.
    pub tasks: Vec<i32>,
    /// The mode; none ends it.
    pub mode: Option<JobMode>,
    /// Rises each time that a user sets a mode of the job.
    pub version: u64,
}

/// An order to a node that hosts tasks of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostedOrder {
    /// The order, with those tasks alone that the node hosts.
    pub order: JobOrder,
    /// The node may begin with the job. Else it goes on, or says that it knows no such job: an
    /// agent that was ended stays ended until a user sets the mode again.
    pub begins: bool,
    /// The clock of home minus that of the node, microseconds.
    pub clock_offset_us: i64,
}

/// An order to the agent of the node that hosts tasks of another home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedJob {
    /// Name of the home.
    pub home: String,
    /// The order; its tasks are PIDs of this machine.
    pub hosted: HostedOrder,
}

/// A job on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeJob {
    /// PIDs of the tasks.
    pub tasks: Vec<i32>,
    /// The clock of home minus that of the node, microseconds.
    pub clock_offset_us: i64,
    /// The means that the machine does not allow, a sentence each.
    pub missing: Vec<String>,
    /// Number of switches between windows.
    pub switches: u64,
    /// Median of the time that the last switches took, microseconds.
    pub switch_median_us: u64,
    /// The time that one in a hundred of them exceeded, microseconds.
    pub switch_p99_us: u64,
    /// Messages by which tasks may be preferred.
    pub arrivals: u64,
    /// How often a task was preferred because of a message.
    pub preferences: u64,
}

/// A job on a node that hosts some of its tasks, as home shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOnNode {
    /// Name of the node.
    pub node: String,
    /// The job there, with PIDs at home; or why there is none, in words.
    pub job: Result<NodeJob, String>,
}

impl JobOrder {
    /// Tells whether the order is within its bounds: another machine may have made it.
    pub fn is_sound(&self) -> bool {
        self.tasks.len() <= TASKS_MAX && self.mode.is_none_or(|mode| mode.local_share <= 999)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};
    use crate::tool::{REQUEST_BYTES, Request};
    use cosched::ModeName;

    fn order(tasks: usize, local_share: u32) -> JobOrder {
        let mode = Some(JobMode { local_share, ..JobMode::from(ModeName::Explicit) });
        JobOrder { job: u64::MAX, tasks: vec![4_194_303; tasks], mode, version: u64::MAX }
    }

    #[test]
    fn the_largest_order_fits_into_a_request() {
        let request = Request::Coschedule(order(TASKS_MAX, 300));
        let bytes = encode(&request, REQUEST_BYTES).unwrap();
        assert_eq!(decode::<Request>(&bytes).unwrap(), request);
    }

    #[test]
    fn orders_have_bounds() {
        assert!(order(TASKS_MAX, 1).is_sound() && !order(TASKS_MAX + 1, 1).is_sound());
        assert!(!order(1, 1000).is_sound() && JobOrder { mode: None, ..order(1, 0) }.is_sound());
    }
}
