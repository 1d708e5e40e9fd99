//! The arguments of `tern job`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};
use control_protocol::jobs::{JobName, JobSeeker};

use crate::args::Output;
use crate::kill::SignalName;

/// The text after the help of `tern job`.
pub const JOB_HELP: &str = "\
A job is what `tern job run` starts, with all that it starts in turn: daemons and launchers of PVM and MPI included.
JOB is a job's name or number.
  tern job run --name ring mpiexec -n 8 ./ring        tern job suspend ring        tern job kill -s INT ring";

/// The actions of `tern job`.
#[derive(Clone, Debug, Subcommand)]
pub enum JobAction {
    /// Run a command, as a job with all that it starts. The exit status is that of the command
    Run(JobRun),
    /// Make a job of processes that run already, with all that they have started
    Adopt(JobAdopt),
    /// List the jobs
    #[command(alias = "list")]
    Ls(Output),
    /// Show the processes of a job, and where they are
    Show(OneJob),
    /// Send a signal to all processes of a job
    Kill(JobKill),
    /// Have all processes of a job stand still
    Suspend(OneJob),
    /// Have a job go on after `tern job suspend`
    Resume(OneJob),
    /// Wait until all processes of a job have ended. Exit status 1 if they have not in time
    Wait(JobWait),
}

/// The arguments of `tern job run`.
#[derive(Clone, Debug, Args)]
pub struct JobRun {
    /// The name of the job; the default is that of the program
    #[arg(long)]
    pub name: Option<JobName>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The arguments of `tern job adopt`.
#[derive(Clone, Debug, Args)]
pub struct JobAdopt {
    /// The name of the job; the default is that of the first program
    #[arg(long)]
    pub name: Option<JobName>,
    /// PIDs at home
    #[arg(required = true, value_name = "PID")]
    pub pids: Vec<i32>,
    /// How to show the job
    #[command(flatten)]
    pub output: Output,
}

/// The job that is meant.
#[derive(Clone, Debug, Args)]
pub struct OneJob {
    /// Name or number of the job
    pub job: JobSeeker,
    /// How to show the job
    #[command(flatten)]
    pub output: Output,
}

/// The arguments of `tern job kill`.
#[derive(Clone, Debug, Args)]
pub struct JobKill {
    /// Name or number of the job
    pub job: JobSeeker,
    /// The signal: a name or number
    #[arg(short, long, default_value = "TERM")]
    pub signal: SignalName,
    /// How to show the result
    #[command(flatten)]
    pub output: Output,
}

/// The arguments of `tern job wait`.
#[derive(Clone, Debug, Args)]
pub struct JobWait {
    /// Name or number of the job
    pub job: JobSeeker,
    /// The time to wait at most, such as 30s or 2m; the default is for ever
    #[arg(long = "for", value_name = "TIME", value_parser = super::timeout)]
    pub limit: Option<Duration>,
}
