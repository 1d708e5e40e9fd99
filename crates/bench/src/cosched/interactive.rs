//! The response times of an interactive program beside several jobs.

use super::Bench;
use super::programs::{Job, seconds};
use crate::Error;
use serde::{Deserialize, Serialize};
use std::process::Child;

/// Response times in one mode, milliseconds. The program computes for 1 ms after each waking.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Response {
    /// The mode of the jobs; `alone`: there were none.
    pub beside: String,
    /// Number of jobs.
    pub jobs: usize,
    /// The median time.
    pub median_ms: f64,
    /// Exceeded by one in twenty.
    pub p95_ms: f64,
    /// Exceeded by one in a hundred.
    pub p99_ms: f64,
    /// The longest time.
    pub longest_ms: f64,
    /// Jobs that came to their end meanwhile.
    pub ended: usize,
}

/// Jobs that are ended with this value.
struct Jobs(Vec<Child>);

impl Drop for Jobs {
    fn drop(&mut self) {
        for job in &mut self.0 {
            let _ = job.wait();
        }
    }
}

/// Measures all modes in turn.
pub fn measure(bench: &Bench<'_>) -> Result<Vec<Response>, Error> {
    let mut all = vec![one(bench, None)?];
    for mode in bench.modes() {
        all.push(one(bench, Some(&mode))?);
    }
    Ok(all)
}

fn one(bench: &Bench<'_>, mode: Option<&str>) -> Result<Response, Error> {
    let seconds_long = bench.quick_or(3, 10);
    let tasks = bench.args.tasks;
    // Both outlast the interactive program, at least with it beside them.
    let programs = [
        Job { program: "sintree", words: vec![bench.quick_or("40000", "130000").into()], tasks },
        Job { program: "mg", words: vec!["W".into(), bench.quick_or("20", "60").into()], tasks },
    ];
    let mut running = Jobs(Vec::new());
    for (number, job) in (0..).zip(&programs).filter(|_| mode.is_some()) {
        let mut command = bench.programs.job(mode.unwrap_or("none"), job, number)?;
        running.0.push(command.spawn().map_err(Error::system("running tern"))?);
    }
    eprintln!("an interactive program beside {} jobs, {}", running.0.len(), mode.unwrap_or("alone"));
    if mode.is_some() {
        // Until the daemons of PVM serve.
        std::thread::sleep(std::time::Duration::from_millis(700));
    }
    let numbers = bench.programs.numbers("interactive", seconds_long)?;
    let &[median_ms, p95_ms, p99_ms, longest_ms] = numbers.as_slice() else {
        return Err(Error::Refused { why: "the program `interactive` printed no four numbers".into() });
    };
    let mut ended = 0;
    for job in &mut running.0 {
        ended += usize::from(job.try_wait().is_ok_and(|status| status.is_some()));
    }
    for (job, program) in std::mem::take(&mut running.0).into_iter().zip(&programs) {
        let done = job.wait_with_output().map_err(Error::system("waiting for a job"))?;
        seconds(&program.name(), &done)?;
    }
    let jobs = if mode.is_some() { programs.len() } else { 0 };
    Ok(Response { beside: mode.unwrap_or("alone").into(), jobs, median_ms, p95_ms, p99_ms, longest_ms, ended })
}
