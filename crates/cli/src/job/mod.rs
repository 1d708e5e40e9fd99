//! `tern job`: processes that belong together.
//!
//! The registry of jobs is `ternd`'s. Signals go from this tool straight to the processes of home,
//! whose kernel checks rights as ever.

mod run;
mod signals;

use std::time::{Duration, Instant, SystemTime};

use control_protocol::jobs::{JobProcess, JobRequest, JobRow, JobSeeker};
use control_protocol::tool::{Answer, Request};
use serde::Serialize;

use crate::args::{JobAction, JobAdopt, JobWait, OneJob, Output};
use crate::{Dirs, Error, Host, client, show};

/// How often a job is looked at that somebody waits for.
const LOOKED_EVERY: Duration = Duration::from_millis(100);

/// Does what the arguments say. Gives the exit status.
pub(crate) fn job(dirs: &Dirs, action: &JobAction, host: Host) -> Result<u8, Error> {
    match action {
        JobAction::Run(args) => run::run(dirs, args, host),
        JobAction::Adopt(JobAdopt { name, pids, output }) => {
            let adopted = one(dirs, JobRequest::Adopt { name: name.clone(), pids: pids.clone() })?;
            Ok(show_one(*output, &adopted))
        }
        JobAction::Ls(output) => {
            let jobs = ask(dirs, JobRequest::List)?;
            let shown: Vec<_> = jobs.iter().map(JobJson::from).collect();
            Ok(crate::show(*output, &shown, || table(&jobs)))
        }
        JobAction::Show(OneJob { job, output }) => Ok(show_one(*output, &named(dirs, job)?)),
        JobAction::Kill(args) => signals::kill(dirs, args),
        JobAction::Suspend(OneJob { job, output }) => Ok(show_one(*output, &signals::suspend(dirs, job)?)),
        JobAction::Resume(OneJob { job, output }) => Ok(show_one(*output, &signals::resume(dirs, job)?)),
        JobAction::Wait(args) => wait(dirs, args),
    }
}

fn ask(dirs: &Dirs, request: JobRequest) -> Result<Vec<JobRow>, Error> {
    match client::ask(dirs, &Request::Job(request))? {
        Answer::Jobs(jobs) => Ok(jobs),
        _ => Err(client::unexpected()),
    }
}

fn one(dirs: &Dirs, request: JobRequest) -> Result<JobRow, Error> {
    ask(dirs, request)?.pop().ok_or_else(client::unexpected)
}

fn named(dirs: &Dirs, job: &JobSeeker) -> Result<JobRow, Error> {
    one(dirs, JobRequest::Show(job.clone()))
}

/// Waits for the end of a job.
fn wait(dirs: &Dirs, args: &JobWait) -> Result<u8, Error> {
    let begun = Instant::now();
    let Some(job) = ask(dirs, JobRequest::Await(args.job.clone()))?.pop() else { return Ok(0) };
    // The name may be another job's by the time that this one has ended.
    let id = JobSeeker::Id(job.id);
    while !ask(dirs, JobRequest::Await(id.clone()))?.is_empty() {
        if args.limit.is_some_and(|limit| begun.elapsed() >= limit) {
            return Ok(1);
        }
        std::thread::sleep(LOOKED_EVERY);
    }
    Ok(0)
}

/// A job as `--json` shows it.
#[derive(Serialize)]
struct JobJson<'a> {
    id: u64,
    name: &'a str,
    uid: u32,
    began_s: u64,
    suspended: bool,
    processes: Vec<ProcessJson<'a>>,
}

#[derive(Serialize)]
struct ProcessJson<'a> {
    pid: i32,
    node: Option<&'a str>,
    command: &'a str,
    state: char,
    cpu_us: u64,
    rss_bytes: u64,
}

impl<'a> From<&'a JobRow> for JobJson<'a> {
    fn from(job: &'a JobRow) -> JobJson<'a> {
        let processes = job.processes.iter().map(|process| {
            let JobProcess { pid, node, command, state, cpu_us, rss_bytes, .. } = process;
            let (node, command) = (node.as_deref(), command.as_str());
            ProcessJson { pid: *pid, node, command, state: *state, cpu_us: *cpu_us, rss_bytes: *rss_bytes }
        });
        let (name, processes) = (job.name.as_str(), processes.collect());
        let JobRow { uid, began_s, suspended, .. } = *job;
        JobJson { id: job.id.0, name, uid, began_s, suspended, processes }
    }
}

fn show_one(output: Output, job: &JobRow) -> u8 {
    crate::show(output, &JobJson::from(job), || format!("{}\n{}", table(std::slice::from_ref(job)), processes(job)))
}

/// Formats jobs, one on each line.
fn table(jobs: &[JobRow]) -> String {
    let users = show::users();
    let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let cells = jobs.iter().map(|job| {
        vec![
            job.id.to_string(),
            job.name.to_string(),
            users.get(&job.uid).cloned().unwrap_or_else(|| job.uid.to_string()),
            if job.suspended { "suspended".into() } else { "runs".into() },
            job.processes.len().to_string(),
            nodes(job),
            show::cpu_time(job.processes.iter().map(|process| process.cpu_us).sum()),
            show::mib(job.processes.iter().map(|process| process.rss_bytes).sum::<u64>() >> 20),
            show::age(now_s.saturating_sub(job.began_s)),
        ]
    });
    let header = ["JOB", "NAME", "USER", "STATE", "PROCESSES", "NODES", "CPU", "MEMORY", "AGE"];
    show::table(&header, &cells.collect::<Vec<_>>())
}

/// The nodes of a job, each with the number of its processes there.
fn nodes(job: &JobRow) -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for process in &job.processes {
        *counts.entry(process.node.as_deref().unwrap_or("home")).or_default() += 1;
    }
    let shown: Vec<String> = counts.iter().map(|(node, count)| format!("{node}:{count}")).collect();
    if shown.is_empty() { "-".into() } else { shown.join(",") }
}

/// Formats the processes of a job.
fn processes(job: &JobRow) -> String {
    let cells = job.processes.iter().map(|process| {
        vec![
            process.pid.to_string(),
            process.node.clone().unwrap_or_else(|| "home".into()),
            process.state.to_string(),
            show::cpu_time(process.cpu_us),
            show::mib(process.rss_bytes >> 20),
            show::printable(&process.command),
        ]
    });
    show::table(&["PID", "NODE", "STATE", "CPU", "MEMORY", "COMMAND"], &cells.collect::<Vec<_>>())
}
