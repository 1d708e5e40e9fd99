//! The commands `tern cosched` and `tern gang`.

mod args;
mod client;
mod directory;
mod preload;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cosched::JobMode;

pub use args::{Args, GangArgs};

use crate::protocol::{Answer, JobReport, Request};
use args::What;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The words do not fit together.
    #[error("{0}")]
    Usage(String),
    /// The directory of the agent cannot be used.
    #[error("cannot use the directory {}: {source}", path.display())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The agent cannot be started, or does not answer.
    #[error("the agent does not answer: {source}; its log is {}", log.display())]
    Agent {
        /// The system's error.
        source: io::Error,
        /// Path of the agent's log.
        log: PathBuf,
    },
    /// The agent did nothing.
    #[error("{0}")]
    Refused(String),
    /// The command of a job cannot be executed.
    #[error("{}: {source}", program.display())]
    Execute {
        /// Path of the program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    fn status(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Execute { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Error::Execute { .. } => 126,
            _ => 1,
        }
    }
}

/// Runs `tern cosched`. `run_dir` is the directory of root's agent. Gives the exit status.
pub fn main(args: &Args, run_dir: &Path) -> u8 {
    finish("cosched", cosched(args, run_dir))
}

/// Runs `tern gang`. Gives the exit status.
pub fn gang(args: &GangArgs, run_dir: &Path) -> u8 {
    let jobs = args.jobs.iter().map(|pids| pids.0.clone()).collect();
    let request = Request::Gang { jobs, slice_us: args.slice_us };
    finish("gang", ask(run_dir, &request).map(|jobs| print(&jobs, args.json)))
}

fn finish(command: &str, done: Result<(), Error>) -> u8 {
    match done {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("tern: {command}: {e}");
            e.status()
        }
    }
}

fn cosched(args: &Args, run_dir: &Path) -> Result<(), Error> {
    match (&args.what, args.mode) {
        (Some(What::Status(output)), _) => {
            let directory = directory::of_agent(run_dir)?;
            let jobs = if client::is_served(&directory) { ask(run_dir, &Request::Status)? } else { Vec::new() };
            print(&jobs, output.json);
            Ok(())
        }
        (Some(What::Off { pids, output }), _) => off(run_dir, pids, output.json),
        (Some(What::Run { mode, settings, command }), _) => {
            let mode = settings.mode(*mode).map_err(Error::Usage)?;
            run(run_dir, mode, command)
        }
        (None, Some(_)) if args.pids.is_empty() => {
            Err(Error::Usage("a process is missing: tern cosched MODE PID...; or tern cosched run MODE -- CMD".into()))
        }
        (None, Some(name)) => {
            let mode = args.settings.mode(name).map_err(Error::Usage)?;
            let jobs = ask(run_dir, &Request::Set { pids: args.pids.clone(), mode, control: None })?;
            print(&jobs, args.json);
            Ok(())
        }
        (None, None) => Err(Error::Usage("a mode is missing; see tern cosched --help".into())),
    }
}

/// Becomes a command that is a job with its descendants.
fn run(run_dir: &Path, mode: JobMode, command: &[OsString]) -> Result<(), Error> {
    let directory = directory::of_agent(run_dir)?;
    let preload = preload::Preload::prepare(&directory);
    let preload = preload.map_err(|source| Error::Directory { path: directory, source })?;
    let (pids, control) = (vec![std::process::id() as i32], Some(preload.control.clone()));
    say_missing(&ask(run_dir, &Request::Set { pids, mode, control })?);
    let (program, words) = command.split_first().ok_or_else(|| Error::Usage("a command is missing".into()))?;
    let source = preload.add_to(Command::new(program).args(words)).exec();
    Err(Error::Execute { program: program.into(), source })
}

fn off(run_dir: &Path, pids: &[i32], json: bool) -> Result<(), Error> {
    let directory = directory::of_agent(run_dir)?;
    let request = Request::Off { pids: pids.to_vec() };
    let left = if client::is_served(&directory) { ask(run_dir, &request)? } else { Vec::new() };
    if json {
        print(&left, json);
    }
    Ok(())
}

fn ask(run_dir: &Path, request: &Request) -> Result<Vec<JobReport>, Error> {
    let directory = directory::of_agent(run_dir)?;
    let failed = |source| Error::Agent { source, log: directory.join(client::LOG) };
    match client::ask(&directory, request).map_err(failed)? {
        Answer::Jobs(jobs) => Ok(jobs),
        Answer::Refused { reason } => Err(Error::Refused(reason)),
    }
}

fn say_missing(jobs: &[JobReport]) {
    for missing in jobs.iter().flat_map(|job| &job.missing) {
        eprintln!("tern: cosched: {missing}");
    }
}

/// Prints jobs. A reader that has gone is no error.
fn print(jobs: &[JobReport], json: bool) {
    let text = if json {
        serde_json::to_string(jobs).unwrap_or_default() + "\n"
    } else {
        say_missing(jobs);
        table(jobs)
    };
    let mut output = io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

fn table(jobs: &[JobReport]) -> String {
    let mut text = format!(
        "{:>4} {:<9} {:>6} {:>14} {:>9} {:>10} {:>10}\n",
        "JOB", "MODE", "TASKS", "RUN/STOP ms", "SWITCHES", "MEDIAN us", "P99 us"
    );
    for job in jobs {
        let windows =
            job.windows.map(|windows| format!("{}/{}", windows.run_us as f64 / 1e3, windows.stop_us as f64 / 1e3));
        let (mode, tasks, windows) = (job.mode, job.tasks.len(), windows.unwrap_or_else(|| "-".into()));
        let times = job.switches;
        text += &format!(
            "{:>4} {mode:<9} {tasks:>6} {windows:>14} {:>9} {:>10} {:>10}\n",
            job.job, times.count, times.median_us, times.p99_us
        );
    }
    text
}
