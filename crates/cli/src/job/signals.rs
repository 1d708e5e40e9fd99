//! Signals for all processes of a job.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use control_protocol::jobs::{JobProcess, JobRequest, JobRow, JobSeeker};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::{named, one};
use crate::args::JobKill;
use crate::{Dirs, Error};

/// How long a job may go on to make processes while it is to stop.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// The result of `tern job kill`.
#[derive(Serialize)]
struct Signalled {
    signalled: Vec<i32>,
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Failed {
    pid: i32,
    error: String,
}

/// Sends a signal to all processes of a job. Gives the exit status.
pub(super) fn kill(dirs: &Dirs, args: &JobKill) -> Result<u8, Error> {
    let mut result = Signalled { signalled: Vec::new(), failed: Vec::new() };
    if args.signal.ends_at_once() {
        // A process that ended before its child was seen leaves that to the next look.
        each_new(dirs, &args.job, |process| result.note(process.pid, send(process, args.signal.signal())))?;
    } else {
        let job = named(dirs, &args.job)?;
        job.processes.iter().for_each(|process| result.note(process.pid, send(process, args.signal.signal())));
    }
    let is_complete = result.failed.is_empty() && !result.signalled.is_empty();
    let status = crate::show(args.output, &result, || {
        result.failed.iter().for_each(|failed| eprintln!("tern job kill: {}: {}", failed.pid, failed.error));
        String::new()
    });
    Ok(if is_complete { status } else { 1 })
}

impl Signalled {
    fn note(&mut self, pid: i32, sent: Result<(), Errno>) {
        match sent {
            Ok(()) => self.signalled.push(pid),
            // The process has ended meanwhile.
            Err(Errno::SRCH) => {}
            Err(e) => self.failed.push(Failed { pid, error: e.to_string() }),
        }
    }
}

/// Has all processes of a job stand still.
pub(super) fn suspend(dirs: &Dirs, job: &JobSeeker) -> Result<JobRow, Error> {
    let mut failed = None;
    each_new(dirs, job, |process| match send(process, Signal::STOP) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(e) => drop(failed.get_or_insert((process.pid, e))),
    })?;
    if let Some((pid, source)) = failed {
        resume(dirs, job)?;
        return Err(Error::JobProcess { pid, source: source.into() });
    }
    one(dirs, JobRequest::Suspended { job: job.clone(), suspended: true })
}

/// Has all processes of a job go on.
pub(super) fn resume(dirs: &Dirs, job: &JobSeeker) -> Result<JobRow, Error> {
    let row = named(dirs, job)?;
    for process in &row.processes {
        match send(process, Signal::CONT) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(e) => return Err(Error::JobProcess { pid: process.pid, source: e.into() }),
        }
    }
    one(dirs, JobRequest::Suspended { job: job.clone(), suspended: false })
}

/// Does this for each process of a job, until there is none for which it was not done: processes
/// may begin meanwhile.
fn each_new(dirs: &Dirs, job: &JobSeeker, mut act: impl FnMut(&JobProcess)) -> Result<(), Error> {
    let (begun, mut done) = (Instant::now(), BTreeSet::new());
    let id = JobSeeker::Id(named(dirs, job)?.id);
    loop {
        let row = match named(dirs, &id) {
            Ok(row) => row,
            // All processes have ended.
            Err(Error::Refused { .. }) if !done.is_empty() => return Ok(()),
            Err(e) => return Err(e),
        };
        let new: Vec<_> = row.processes.iter().filter(|process| done.insert((process.pid, process.began))).collect();
        if new.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > STOPPED_WITHIN {
            return Err(Error::JobGrows { job: job.to_string() });
        }
        new.into_iter().for_each(&mut act);
    }
}

fn send(process: &JobProcess, signal: Signal) -> Result<(), Errno> {
    Pid::from_raw(process.pid).ok_or(Errno::SRCH).and_then(|pid| kill_process(pid, signal))
}
