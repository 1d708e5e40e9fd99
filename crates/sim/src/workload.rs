//! What a scenario asks for, for those who run it on real processes, and the bounds of the same run.

use crate::background::{Rhythm, processes};
use crate::fluid::{by_two_s, fluid_s};
use crate::scenario::Scenario;

/// A job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// When it starts, seconds.
    pub at_s: f64,
    /// How much it computes, seconds of a reference core.
    pub work_s: f64,
    /// What it holds, MiB.
    pub memory_mib: u32,
}

/// The jobs of one run, and what they can reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// In the order in which they start.
    pub jobs: Vec<Job>,
    /// Of each process that runs beside them: for how long it runs, pauses, runs..., seconds, until the scenario's limit.
    pub background: Vec<Vec<f64>>,
    /// Makespan under perfect sharing, seconds.
    pub fluid_s: f64,
    /// Makespan with moves at a difference of two jobs, at no cost, seconds; only for equal nodes.
    pub by_two_s: Option<f64>,
}

/// The workload of a scenario under a seed: the simulator's own.
pub fn workload(scenario: &Scenario, seed: u64) -> Workload {
    let (mut jobs, mut background) = (Vec::new(), Vec::new());
    for (number, (at_us, process)) in processes(scenario, seed).into_iter().enumerate() {
        match process.rhythm {
            None => jobs.push(Job { at_s: at_us as f64 / 1e6, work_s: process.work_s, memory_mib: process.memory_mib }),
            Some(longest) => background.push(beats(Rhythm::new(seed, number, longest), scenario.limit_s)),
        }
    }
    jobs.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Workload { jobs, background, fluid_s: fluid_s(scenario, seed), by_two_s: by_two_s(scenario, seed) }
}

fn beats(rhythm: Rhythm, limit_s: f64) -> Vec<f64> {
    let mut passed_s = 0.0;
    let within = |beat_s: &f64| {
        let begins_s = passed_s;
        passed_s += beat_s;
        begins_s < limit_s
    };
    rhythm.take_while(within).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_beside_does_so_until_the_limit() {
        let text = include_str!("../../../scenarios/fig3.toml");
        let scenario = Scenario::parse(text).unwrap();
        let found = workload(&scenario, 3);
        assert_eq!((found.jobs.len(), found.background.len()), (16, 8));
        for beats in &found.background {
            assert!(beats.iter().all(|s| (0.0..=30.0).contains(s)));
            assert!(beats.iter().sum::<f64>() >= scenario.limit_s);
        }
        assert_eq!(workload(&scenario, 3), found);
        assert_ne!(workload(&scenario, 4).background, found.background);
    }
}
