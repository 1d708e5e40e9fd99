//! The overheads of explicit and implicit coscheduling (equations 1 to 4 of the paper).

use super::Bench;
use super::programs::{Job, seconds, status};
use crate::Error;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The overheads, microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Costs {
    /// Time to suspend a process or to wake one (W).
    pub switch_us: f64,
    /// Time to signal all tasks of a job (S_sig).
    pub signal_us: f64,
    /// T_ex = 4 W + S_sig: time to stop or to start all tasks.
    pub explicit_us: f64,
    /// T_im = 2 W: time for which it is worth to spin.
    pub implicit_us: f64,
    /// Median time from the moment at which a window should end until tern had switched all tasks;
    /// none if there was no switch.
    pub measured_explicit_us: Option<f64>,
}

/// Measures all overheads.
pub fn measure(bench: &Bench<'_>) -> Result<Costs, Error> {
    let numbers = bench.programs.numbers("costs", bench.args.tasks)?;
    let &[switch_us, signal_us] = numbers.as_slice() else {
        return Err(Error::Refused { why: "the program `costs` printed no two numbers".into() });
    };
    let measured_explicit_us = switches(bench)?;
    Ok(Costs {
        switch_us,
        signal_us,
        explicit_us: 4.0 * switch_us + signal_us,
        implicit_us: 2.0 * switch_us,
        measured_explicit_us,
    })
}

/// Runs a job in windows, and asks the agent for its switches.
fn switches(bench: &Bench<'_>) -> Result<Option<f64>, Error> {
    const LOOKS: Duration = Duration::from_millis(200);
    let words = vec![bench.quick_or("30000", "70000").to_owned()];
    let job = Job { program: "sintree", words, tasks: bench.args.tasks };
    eprintln!("{}, explicit, for the time of switches", job.name());
    let mut running = bench.programs.job("explicit", &job, 0)?.spawn().map_err(Error::system("running tern"))?;
    let mut median_us = None;
    while running.try_wait().map_err(Error::system("waiting for a job"))?.is_none() {
        let switches = status(bench.run_dir)[0]["switches"].clone();
        if switches["count"].as_u64().is_some_and(|count| count > 0) {
            median_us = switches["median_us"].as_f64().or(median_us);
        }
        std::thread::sleep(LOOKS);
    }
    let done = running.wait_with_output().map_err(Error::system("waiting for a job"))?;
    seconds(&job.name(), &done).map(|_| median_us)
}
