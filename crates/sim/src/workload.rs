//! The workload of a scenario for experiments on real processes, with the bounds of the same run.

use crate::background::{Rhythm, processes};
use crate::fluid::{by_two_s, fluid_of_s, fluid_s};
use crate::scenario::Scenario;

/// A job of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Start of the job, seconds.
    pub at_s: f64,
    /// Work of the job, seconds of a reference core.
    pub work_s: f64,
    /// Memory that the job holds, MiB.
    pub memory_mib: u32,
}

/// The jobs of one run, and the bounds of their makespan.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The jobs, in the order in which they start.
    pub jobs: Vec<Job>,
    /// For each background process the times for which it runs, pauses, runs and so on, seconds, up
    /// to the scenario's limit.
    pub background: Vec<Vec<f64>>,
    /// Makespan under perfect sharing, seconds.
    pub fluid_s: f64,
    /// Makespan if jobs moved at no cost at a difference of two, seconds; only for equal nodes.
    pub by_two_s: Option<f64>,
}

/// Draws the workload of a scenario from a seed, as the simulator does.
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

/// Computes the makespan under perfect sharing if the jobs began to compute at these times: seconds
/// after the first start, in the workload's order. Starting real processes takes time that no
/// sharing gives back.
pub fn fluid_as_begun_s(scenario: &Scenario, seed: u64, begun_s: &[f64]) -> f64 {
    let jobs = workload(scenario, seed).jobs;
    let first_s = jobs.first().map_or(0.0, |job| job.at_s);
    let begun = jobs.iter().zip(begun_s).map(|(job, begun_s)| (first_s + begun_s.max(0.0), job.work_s));
    fluid_of_s(scenario, seed, begun.collect()) - first_s
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
    fn jobs_that_begin_late_end_late() {
        let table1 = Scenario::parse(include_str!("../../../scenarios/table1.toml")).unwrap();
        let as_begun = |begun_s: &[f64]| fluid_as_begun_s(&table1.with_jobs(16), 1, begun_s);
        assert!((as_begun(&[0.0; 16]) - 300.0).abs() < 1e-6, "{}", as_begun(&[0.0; 16]));
        let staggered: Vec<f64> = (0..16).map(f64::from).collect();
        assert!((as_begun(&staggered) - 315.0).abs() < 1e-6, "{}", as_begun(&staggered));
    }

    #[test]
    fn the_background_runs_until_the_limit() {
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
