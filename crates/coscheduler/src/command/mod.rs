//! The commands `tern cosched` and `tern gang`.

mod args;
mod client;
mod directory;
mod names;
mod preload;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use control_protocol::coscheduling::{HostedJob, NodeJob};
use cosched::{JobMode, ModeName, UnknownModeName};

pub use args::{Args, GangArgs};
pub use client::{STARTER_ROLE, starter_main};

use crate::protocol::{Answer, JobReport, NodeReport, Request};
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
    let resolved: Result<Vec<Vec<i32>>, String> = args.jobs.iter().map(|named| names::resolve(&named.0)).collect();
    let asked = resolved.map_err(Error::Refused).and_then(|jobs| {
        set(run_dir, &Request::Gang { jobs, slice_us: args.slice_us }).map(|jobs| print(&jobs, args.json))
    });
    finish("gang", asked)
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
        (Some(What::Off { processes, output }), _) => {
            off(run_dir, names::resolve(processes).map_err(Error::Refused)?, output.json)
        }
        (Some(What::Run { mode, settings, command }), _) => {
            let mode = settings.mode(*mode).map_err(Error::Usage)?;
            run(run_dir, mode, command)
        }
        (None, Some(_)) if args.processes.is_empty() && args.jobs.is_empty() => {
            Err(Error::Usage("a process is missing: tern cosched MODE PID...; or tern cosched run MODE -- CMD".into()))
        }
        (None, Some(name)) => {
            let mode = args.settings.mode(name).map_err(Error::Usage)?;
            let named: Vec<String> = args.processes.iter().chain(&args.jobs).cloned().collect();
            let pids = names::resolve(&named).map_err(Error::Refused)?;
            let jobs = set(run_dir, &Request::Set { pids, mode, control: None })?;
            print(&jobs, args.json);
            Ok(())
        }
        (None, None) => Err(Error::Usage("a mode is missing; see tern cosched --help".into())),
    }
}

/// Becomes a command that is a job with its descendants.
fn run(run_dir: &Path, mode: JobMode, command: &[OsString]) -> Result<(), Error> {
    let preload = begin(run_dir, mode)?;
    let (program, words) = command.split_first().ok_or_else(|| Error::Usage("a command is missing".into()))?;
    let source = Command::new(program).args(words).envs(preload.environment()).exec();
    Err(Error::Execute { program: program.into(), source })
}

/// Makes this process a job, with its descendants.
fn begin(run_dir: &Path, mode: JobMode) -> Result<preload::Preload, Error> {
    let directory = directory::of_agent(run_dir)?;
    let preload = preload::Preload::prepare(&directory);
    let preload = preload.map_err(|source| Error::Directory { path: directory, source })?;
    let (pids, control) = (vec![std::process::id() as i32], Some(preload.control.clone()));
    say_missing(&ask(run_dir, &Request::Set { pids, mode, control })?);
    Ok(preload)
}

/// Makes this process a job in the mode of this name, for `tern run --cosched`. Gives the variables
/// that the program needs.
///
/// # Errors
/// In words: there is no such mode, or the agent cannot be had.
pub fn begin_own(run_dir: &Path, mode: &str) -> Result<Vec<(OsString, OsString)>, String> {
    let name: ModeName = mode.parse().map_err(|e: UnknownModeName| format!("--cosched {mode}: {e}"))?;
    let preload = begin(run_dir, JobMode::from(name)).map_err(|e| e.to_string())?;
    Ok(preload.environment().into())
}

/// Sets modes, and waits until the nodes that host tasks have answered, or for a moment.
fn set(run_dir: &Path, request: &Request) -> Result<Vec<JobReport>, Error> {
    const PATIENCE: Duration = Duration::from_secs(3);
    const PAUSE: Duration = Duration::from_millis(20);
    let mut jobs = ask(run_dir, request)?;
    let begun = Instant::now();
    while jobs.iter().any(|job| job.nodes.is_none()) && begun.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
        let chosen: Vec<u32> = jobs.iter().map(|job| job.job).collect();
        jobs = ask(run_dir, &Request::Status)?;
        jobs.retain(|job| chosen.contains(&job.job));
    }
    Ok(jobs)
}

/// Has this user's agent take a job of another home, for ternd. Gives nothing if the job is unknown
/// and may not begin.
///
/// # Errors
/// In words: the agent cannot be started, or refuses.
pub fn hosted(run_dir: &Path, order: &HostedJob) -> Result<Option<NodeJob>, String> {
    let begins = order.hosted.begins && order.hosted.order.mode.is_some();
    let directory = directory::of_agent(run_dir).map_err(|e| e.to_string())?;
    if !begins && !client::is_served(&directory) {
        return Ok(None);
    }
    let jobs = ask(run_dir, &Request::Host(order.clone())).map_err(|e| e.to_string())?;
    Ok(jobs.into_iter().next().map(crate::agent::for_home))
}

fn off(run_dir: &Path, pids: Vec<i32>, json: bool) -> Result<(), Error> {
    let directory = directory::of_agent(run_dir)?;
    let request = Request::Off { pids };
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
    for node in jobs.iter().flat_map(|job| job.nodes.iter().flatten()) {
        for missing in node.refused.iter().chain(&node.job.missing) {
            eprintln!("tern: cosched: {}: {missing}", node.node);
        }
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
        "{:>4} {:<9} {:<10} {:>6} {:>14} {:>9} {:>10} {:>10}\n",
        "JOB", "MODE", "NODE", "TASKS", "RUN/STOP ms", "SWITCHES", "MEDIAN us", "P99 us"
    );
    for job in jobs {
        let windows =
            job.windows.map(|windows| format!("{}/{}", windows.run_us as f64 / 1e3, windows.stop_us as f64 / 1e3));
        let (mode, tasks, windows) = (job.mode, job.tasks.len(), windows.unwrap_or_else(|| "-".into()));
        let node = job.home.as_ref().map_or_else(|| "here".to_owned(), |home| format!("of {home}"));
        let times = job.switches;
        text += &format!(
            "{:>4} {mode:<9} {node:<10} {tasks:>6} {windows:>14} {:>9} {:>10} {:>10}\n",
            job.job, times.count, times.median_us, times.p99_us
        );
        for NodeReport { node, refused, job } in job.nodes.iter().flatten() {
            let (word, tasks) = (if refused.is_some() { "refused" } else { "" }, job.tasks.len());
            text += &format!(
                "{:>4} {word:<9} {node:<10} {tasks:>6} {:>14} {:>9} {:>10} {:>10}\n",
                "", "", job.switches, job.switch_median_us, job.switch_p99_us
            );
        }
    }
    text
}
