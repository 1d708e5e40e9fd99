//! Jobs: what the user's tool asks, and what a home tells of a job.

pub use jobs::{InvalidJobName, JobId, JobName, JobSeeker};
use serde::{Deserialize, Serialize};

/// The most processes that one request names.
pub const NAMED_MAX: usize = 4096;

/// A question or order about jobs. Users have their own; root has those of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobRequest {
    /// Which jobs are there? Answered by [`crate::tool::Answer::Jobs`].
    List,
    /// What is this job? Answered likewise, by one job.
    Show(JobSeeker),
    /// Is this job still there? Answered likewise; by no job, if it has ended lately.
    Await(JobSeeker),
    /// Make a job of what the sender will start. The sender collects orphans
    /// (PR_SET_CHILD_SUBREAPER of prctl(2)). Answered likewise.
    Run {
        /// The name; that of the program, if absent.
        name: Option<JobName>,
        /// The path or name of the program.
        program: String,
    },
    /// Make a job of these processes and their descendants. Answered likewise.
    Adopt {
        /// The name; that of the first program, if absent.
        name: Option<JobName>,
        /// PIDs at home, at most [`NAMED_MAX`].
        pids: Vec<i32>,
    },
    /// Note that the user has had a job stop or go on. Answered likewise.
    Suspended {
        /// The job that is meant.
        job: JobSeeker,
        /// The job stands still.
        suspended: bool,
    },
}

/// A job of the home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// The number of the job.
    pub id: JobId,
    /// The name of the job.
    pub name: JobName,
    /// The user whose job it is.
    pub uid: u32,
    /// Real time at which the job began, seconds since 1970.
    pub began_s: u64,
    /// The user has had the job stand still.
    pub suspended: bool,
    /// The processes of the job.
    pub processes: Vec<JobProcess>,
}

/// A process of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProcess {
    /// PID at home.
    pub pid: i32,
    /// Moment at which the process began, ticks since home did.
    pub began: u64,
    /// The node where the process runs, if that is not home.
    pub node: Option<String>,
    /// The command line, or the name of the program.
    pub command: String,
    /// The letter of the state (proc_pid_stat(5)).
    pub state: char,
    /// CPU time so far, microseconds.
    pub cpu_us: u64,
    /// Memory of its own, bytes.
    pub rss_bytes: u64,
}
