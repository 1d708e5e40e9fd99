//! Answers questions and obeys orders of users about the jobs of this home.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::jobs::{Job, JobId, JobSeeker, NewJob, ProcessKey, Registry};
use control_protocol::jobs::{JobProcess, JobRequest, JobRow, NAMED_MAX};
use control_protocol::steward::Guest;
use packet::Peer;

use crate::Error;
use crate::daemon::Daemon;
use crate::job_registry::processes;
use crate::owners::owner_or_root;
use crate::rooms;

/// New processes of jobs are looked for so often. An orphan whose parent began and ended between
/// two looks is found by the job's keeper alone.
const LOOKED_EVERY: Duration = Duration::from_secs(2);

/// Starts the thread that looks for new processes of jobs.
pub(crate) fn start(daemon: Arc<Daemon>) -> std::io::Result<()> {
    let work = move || {
        loop {
            std::thread::sleep(LOOKED_EVERY);
            drop(daemon.jobs.current());
        }
    };
    std::thread::Builder::new().name("jobs".into()).stack_size(512 << 10).spawn(work).map(drop)
}

/// Answers a question or order of the process at `peer`.
///
/// # Errors
/// The job is another user's, or there is none; what is named cannot be a job.
pub(crate) fn obey(daemon: &Arc<Daemon>, peer: Peer, request: JobRequest) -> Result<Vec<JobRow>, Error> {
    let mut registry = daemon.jobs.current();
    let found = match request {
        JobRequest::List => registry.seen_by(peer.uid).map(|(id, job)| (id, job.clone())).collect(),
        JobRequest::Show(seeker) => vec![found(&registry, &seeker, peer)?],
        JobRequest::Await(seeker) => match found(&registry, &seeker, peer) {
            Err(_) if registry.has_ended(&seeker, peer.uid) => Vec::new(),
            found => vec![found?],
        },
        JobRequest::Run { name, program } => {
            let keeper = Some(key_of(peer.pid)?);
            let new = NewJob { name, program, owner: peer.uid, now_s: now_s(), keeper, first: Vec::new() };
            begin(daemon, &mut registry, new)?
        }
        JobRequest::Adopt { name, pids } => {
            let first = adopted(peer, &pids)?;
            let program = first.first().and_then(|key| os::process::line(key.pid).ok()).map(|line| line.name);
            let owner = pids.first().map_or(Ok(peer.uid), |pid| owner_or_root(peer, *pid, ADOPTS))?;
            let program = program.unwrap_or_default();
            begin(daemon, &mut registry, NewJob { name, program, owner, now_s: now_s(), keeper: None, first })?
        }
        JobRequest::Suspended { job, suspended } => {
            let (id, _) = found(&registry, &job, peer)?;
            registry.suspend(id, suspended);
            daemon.jobs.keep(&registry);
            vec![found(&registry, &job, peer)?]
        }
    };
    drop(registry);
    let away = away(daemon);
    Ok(found.into_iter().map(|(id, job)| row(id, &job, &away)).collect())
}

/// The words for who may not adopt a process.
const ADOPTS: &str = "making a job of another user's process";

fn found(registry: &Registry, seeker: &JobSeeker, peer: Peer) -> Result<(JobId, Job), Error> {
    Ok(registry.find(seeker, peer.uid).map(|(id, job)| (id, job.clone()))?)
}

fn begin(daemon: &Daemon, registry: &mut Registry, new: NewJob) -> Result<Vec<(JobId, Job)>, Error> {
    let owner = new.owner;
    let id = registry.begin(new)?;
    registry.update(&processes());
    daemon.jobs.keep(registry);
    Ok(registry.seen_by(owner).filter(|(known, _)| *known == id).map(|(id, job)| (id, job.clone())).collect())
}

/// The processes that a user makes a job of.
fn adopted(peer: Peer, pids: &[i32]) -> Result<Vec<ProcessKey>, Error> {
    if pids.is_empty() || pids.len() > NAMED_MAX {
        return Err(Error::JobProcesses { named: pids.len(), most: NAMED_MAX });
    }
    pids.iter()
        .map(|pid| {
            owner_or_root(peer, *pid, ADOPTS)?;
            key_of(*pid)
        })
        .collect()
}

fn key_of(pid: i32) -> Result<ProcessKey, Error> {
    let failed = |e: os::Error| Error::file("find process", format!("/proc/{pid}"), std::io::Error::other(e));
    Ok(ProcessKey { pid, began: os::process::line(pid).map_err(failed)?.began })
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}

/// A process that is away, and its node.
struct Away {
    node: String,
    guest: Guest,
}

/// The processes of this home that are away.
fn away(daemon: &Daemon) -> HashMap<i32, Away> {
    let stewards = rooms::stewards(&daemon.options.run_dir);
    let asked: Vec<_> = stewards.iter().map(|(_, steward)| steward.ask_for_list()).collect();
    let listed = stewards.iter().zip(asked).filter_map(|((_, steward), asked)| asked.ok().and(steward.listed().ok()));
    listed
        .flat_map(|(node, _, guests)| {
            guests.into_iter().map(move |guest| (guest.pid, Away { node: node.clone(), guest }))
        })
        .collect()
}

fn row(id: JobId, job: &Job, away: &HashMap<i32, Away>) -> JobRow {
    let processes = job.members().into_iter().filter_map(|key| process(key, away.get(&key.pid))).collect();
    let Job { name, owner, began_s, suspended, .. } = job.clone();
    JobRow { id, name, uid: owner, began_s, suspended, processes }
}

/// Describes a process of a job, unless it has ended.
fn process(key: ProcessKey, away: Option<&Away>) -> Option<JobProcess> {
    let ProcessKey { pid, began } = key;
    if let Some(Away { node, guest }) = away {
        let (node, state) = (Some(node.clone()), char::from(u8::try_from(guest.state).unwrap_or(b'?')));
        let (cpu_us, rss_bytes) = (guest.cpu_us, guest.rss_bytes);
        return Some(JobProcess { pid, began, node, command: guest.command.clone(), state, cpu_us, rss_bytes });
    }
    let line = os::process::line(pid).ok().filter(|line| line.began == began)?;
    let words = os::process::arguments(pid).unwrap_or_default();
    let words: Vec<_> = words.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
    let command = if words.is_empty() { line.name } else { String::from_utf8_lossy(&words.join(&b' ')).into_owned() };
    let rss_bytes = os::process::anonymous_bytes(pid).unwrap_or(0);
    let cpu_us = os::process::cpu_us(pid).unwrap_or(0);
    Some(JobProcess { pid, began, node: None, command, state: line.state, cpu_us, rss_bytes })
}
