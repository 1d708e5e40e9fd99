//! The talk of command and agent: one packet of JSON each way.

use std::path::PathBuf;

use control_protocol::coscheduling::{HostedJob, JobOnNode, NodeJob};
use cosched::{JobMode, ModeName};
use serde::{Deserialize, Serialize};

use crate::statistics::Summary;

/// The most bytes of a packet.
pub const PACKET_MAX: usize = 64 * 1024;
/// The most processes and jobs that a request may name.
pub const NAMED_MAX: usize = 1024;

/// A request to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Has the job of these processes run by this mode from now on.
    Set {
        /// PIDs on this node.
        pids: Vec<i32>,
        /// The mode with its settings.
        mode: JobMode,
        /// File that tells the tasks whether to spin and to read ahead, if they were started with
        /// the library for that.
        control: Option<PathBuf>,
    },
    /// Has these jobs take turns.
    Gang {
        /// PIDs of each job, on this node.
        jobs: Vec<Vec<i32>>,
        /// Time of a turn, microseconds.
        slice_us: u64,
    },
    /// Ends the modes of the jobs of these processes; of all jobs, if none is named.
    Off {
        /// PIDs on this node.
        pids: Vec<i32>,
    },
    /// Takes a job of another home, or goes on with it, or ends it. Answered by that job alone, or
    /// by no job if it is unknown and may not begin.
    Host(HostedJob),
    /// Asks for all jobs.
    Status,
}

/// The agent's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The jobs that were asked for, as they are now.
    Jobs(Vec<JobReport>),
    /// Nothing was changed.
    Refused {
        /// The reason for that.
        reason: String,
    },
}

/// A job and its mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// Number of the job.
    pub job: u32,
    /// The mode without its settings.
    pub mode: ModeName,
    /// Length of the windows in which its tasks run and stand still, microseconds.
    pub windows: Option<WindowLengths>,
    /// PIDs of the tasks.
    pub tasks: Vec<i32>,
    /// The means that this machine does not allow, a sentence each.
    pub missing: Vec<String>,
    /// Time from the moment at which a window should have ended until the tasks had been stopped or
    /// started, microseconds.
    pub switches: Summary,
    /// Messages, or groups of such that came at once, by which tasks may be preferred.
    pub arrivals: u64,
    /// How often a task was preferred because of a message.
    pub preferences: u64,
    /// The home of the job, if that is another node.
    pub home: Option<String>,
    /// The clock of the job's home minus that of this node, microseconds.
    pub clock_offset_us: i64,
    /// Other nodes that host tasks of the job; none before they were asked.
    pub nodes: Option<Vec<NodeReport>>,
}

/// A job on another node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Name of the node.
    pub node: String,
    /// Why the tasks there are in no mode, in words.
    pub refused: Option<String>,
    /// The job there.
    #[serde(flatten)]
    pub job: NodeJob,
}

impl From<JobOnNode> for NodeReport {
    fn from(JobOnNode { node, job }: JobOnNode) -> NodeReport {
        match job {
            Ok(job) => NodeReport { node, refused: None, job },
            Err(reason) => NodeReport { node, refused: Some(reason), job: NodeJob::default() },
        }
    }
}

/// The lengths of both parts of a period, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowLengths {
    /// Time in which tasks run.
    pub run_us: u64,
    /// Time in which tasks stand still.
    pub stop_us: u64,
}
