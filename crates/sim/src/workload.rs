//! What a scenario asks for, for those who run it on real processes, and the bounds of the same run.

use crate::background::processes;
use crate::fluid::{by_two_s, fluid_s};
use crate::scenario::Scenario;

/// A job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// When it starts, seconds.
    pub at_s: f64,
    /// How much it computes, seconds of a reference core.
    pub work_s: f64,
}

/// The jobs of one run, and what they can reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// In the order in which they start.
    pub jobs: Vec<Job>,
    /// Makespan under perfect sharing, seconds.
    pub fluid_s: f64,
    /// Makespan with moves at a difference of two jobs, at no cost, seconds; only for equal nodes.
    pub by_two_s: Option<f64>,
}

/// The workload of a scenario under a seed: the simulator's own.
pub fn workload(scenario: &Scenario, seed: u64) -> Workload {
    let ends = processes(scenario, seed).into_iter().filter(|(_, process)| process.rhythm.is_none());
    let mut jobs: Vec<Job> =
        ends.map(|(at_us, process)| Job { at_s: at_us as f64 / 1e6, work_s: process.work_s }).collect();
    jobs.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Workload { jobs, fluid_s: fluid_s(scenario, seed), by_two_s: by_two_s(scenario, seed) }
}
