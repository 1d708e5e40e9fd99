//! Bounds of the makespan: perfect sharing without foreknowledge, and moves at a difference of two
//! jobs.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::background::{Rhythm, processes};
use crate::scenario::Scenario;

/// Computes the makespan if all runnable processes shared the fastest cores evenly at every moment,
/// seconds.
pub(crate) fn fluid_s(scenario: &Scenario, seed: u64) -> f64 {
    Fluid::new(scenario, seed).share(1.0).makespan_s
}

/// Computes the same bound if the background gets `background_rate`, as in a recorded run:
/// reference seconds for each second in which it wanted to run. A strategy that gives the
/// background less than an even share may end before [`fluid_s`]. No strategy that shares the rest
/// evenly can end before this bound.
pub(crate) fn fluid_beside_s(scenario: &Scenario, seed: u64, background_rate: f64) -> f64 {
    const HALVINGS: u32 = 30;
    let fluid = Fluid::new(scenario, seed);
    let (mut least, mut most) = (0.0, 4.0);
    for _ in 0..HALVINGS {
        let weight = (least + most) / 2.0;
        if fluid.share(weight).background_rate < background_rate {
            least = weight;
        } else {
            most = weight;
        }
    }
    fluid.share(most).makespan_s
}

/// Computes [`fluid_s`] for these jobs instead of the scenario's, from the start of the run on.
pub(crate) fn fluid_of_s(scenario: &Scenario, seed: u64, mut jobs: Vec<(f64, f64)>) -> f64 {
    jobs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let first_s = jobs.last().map_or(0.0, |(begins_s, _)| *begins_s);
    Fluid { jobs, ..Fluid::new(scenario, seed) }.share(1.0).makespan_s + first_s
}

/// Jobs and background that share the cores.
struct Fluid {
    /// Speed of the n fastest cores together.
    speeds: Vec<f64>,
    /// The jobs, in descending order of their begin.
    jobs: Vec<(f64, f64)>,
    background: Vec<Pauser>,
}

/// The result of sharing.
struct Shared {
    makespan_s: f64,
    /// Rate of a background process, reference seconds for each second in which it ran.
    background_rate: f64,
}

impl Fluid {
    fn new(scenario: &Scenario, seed: u64) -> Fluid {
        let mut cores: Vec<f64> = Vec::new();
        for nodes in &scenario.nodes {
            // A node's part of a core counts as one slow core.
            let whole = nodes.cores.floor();
            let count = nodes.count as usize;
            cores.extend(std::iter::repeat_n(nodes.speed, count * whole as usize));
            cores.extend(std::iter::repeat_n(nodes.speed * (nodes.cores - whole), count));
        }
        cores.sort_by(|a, b| b.total_cmp(a));
        let mut speeds = vec![0.0];
        speeds.extend(cores.iter().scan(0.0, |sum, speed| {
            *sum += speed;
            Some(*sum)
        }));
        let (mut jobs, mut background) = (Vec::new(), Vec::new());
        for (number, (at_us, process)) in processes(scenario, seed).into_iter().enumerate() {
            match process.rhythm {
                None => jobs.push((at_us as f64 / 1e6, process.work_s)),
                Some(longest) => background.push(Pauser::new(Rhythm::new(seed, number, longest))),
            }
        }
        jobs.sort_by(|a, b| b.0.total_cmp(&a.0));
        Fluid { speeds, jobs, background }
    }

    /// Computes the rate of each job, and of each background process. A job's share is one against
    /// `weight` of a background process.
    fn rates(&self, jobs: usize, background: usize, weight: f64) -> (f64, f64) {
        let speed = |count: usize| self.speeds[count.min(self.speeds.len() - 1)];
        let all = speed(jobs + background);
        let (many, others) = (jobs as f64, background as f64);
        let job = if jobs > 0 { (all / (many + weight * others)).min(speed(jobs) / many) } else { 0.0 };
        (job, (all - job * many).max(0.0) / others.max(1.0))
    }

    fn share(&self, weight: f64) -> Shared {
        let (mut jobs, mut background) = (self.jobs.clone(), self.background.clone());
        let first_s = jobs.last().map_or(0.0, |(s, _)| *s);
        // The work left of each job is counted from a common zero that falls as the jobs run.
        let (mut left, mut done, mut now_s) = (BinaryHeap::<Reverse<Work>>::new(), 0.0, 0.0f64);
        let (mut got_s, mut ran_s) = (0.0, 0.0);
        while !(left.is_empty() && jobs.is_empty()) {
            let run = background.iter().filter(|b| b.runs).count();
            let (rate, beside) = self.rates(left.len(), run, weight);
            let rate = rate.max(1e-12);
            let ends_s = left.peek().map_or(f64::INFINITY, |Reverse(Work(work))| now_s + (work - done).max(0.0) / rate);
            let begins_s = jobs.last().map_or(f64::INFINITY, |(s, _)| *s);
            let changes_s = background.iter().map(|b| b.until_s).fold(f64::INFINITY, f64::min);
            let until_s = ends_s.min(begins_s).min(changes_s);
            let step_s = until_s - now_s;
            done += step_s * rate;
            got_s += step_s * beside * run as f64;
            ran_s += step_s * run as f64;
            now_s = until_s;
            if ends_s <= until_s {
                left.pop();
            } else if begins_s <= until_s {
                left.extend(jobs.pop().map(|(_, work_s)| Reverse(Work(done + work_s))));
            } else {
                background.iter_mut().filter(|b| b.until_s <= until_s).for_each(Pauser::change);
            }
        }
        Shared { makespan_s: now_s - first_s, background_rate: if ran_s > 0.0 { got_s / ran_s } else { 0.0 } }
    }
}

/// A background process that runs and pauses.
#[derive(Clone)]
struct Pauser {
    rhythm: Rhythm,
    runs: bool,
    until_s: f64,
}

impl Pauser {
    fn new(mut rhythm: Rhythm) -> Pauser {
        let until_s = rhythm.next().unwrap_or(f64::INFINITY);
        Pauser { rhythm, runs: true, until_s }
    }

    fn change(&mut self) {
        self.runs = !self.runs;
        self.until_s += self.rhythm.next().unwrap_or(f64::INFINITY) + 1e-6;
    }
}

/// Work of a job, ordered by size.
#[derive(PartialEq)]
struct Work(f64);

impl Eq for Work {}
impl PartialOrd for Work {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Work {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Computes the makespan on equal nodes of one core if a job moved, at no cost, whenever two nodes
/// differ by two jobs: the optimum of the paper's Table 1. `None` if nodes are not equal, or
/// anything but the jobs runs.
pub(crate) fn by_two_s(scenario: &Scenario, seed: u64) -> Option<f64> {
    let [nodes] = scenario.nodes.as_slice() else { return None };
    let jobs = processes(scenario, seed);
    if nodes.cores != 1.0 || !scenario.background.is_empty() || jobs.iter().any(|(at_us, _)| *at_us != jobs[0].0) {
        return None;
    }
    let mut queues: Vec<Vec<f64>> = vec![Vec::new(); nodes.count as usize];
    for (number, (_, process)) in jobs.iter().enumerate() {
        queues[number % nodes.count as usize].push(process.work_s / nodes.speed);
    }
    let mut now_s = 0.0;
    loop {
        even_out(&mut queues);
        let ends = |q: &Vec<f64>| q.iter().copied().fold(f64::INFINITY, f64::min) * q.len() as f64;
        let step_s = queues.iter().filter(|q| !q.is_empty()).map(ends).fold(f64::INFINITY, f64::min);
        if !step_s.is_finite() {
            return Some(now_s);
        }
        now_s += step_s;
        for queue in queues.iter_mut().filter(|q| !q.is_empty()) {
            let share_s = step_s / queue.len() as f64;
            queue.iter_mut().for_each(|l| *l -= share_s);
            queue.retain(|l| *l > 1e-9);
        }
    }
}

fn even_out(queues: &mut [Vec<f64>]) {
    loop {
        let (mut least, mut most) = (0, 0);
        for (at, queue) in queues.iter().enumerate() {
            if queue.len() < queues[least].len() {
                least = at;
            }
            if queue.len() > queues[most].len() {
                most = at;
            }
        }
        if queues[most].len() < queues[least].len() + 2 {
            return;
        }
        // Without foreknowledge any job is as good as another; take the last.
        if let Some(job) = queues[most].pop() {
            queues[least].push(job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table1(jobs: u32) -> Scenario {
        let text = format!(
            "name = \"t\"\nlimit_s = 9000\n[[nodes]]\ncount = 16\n[[jobs]]\ncount = {jobs}\nwork = {{ fixed = 300.0 }}\n"
        );
        Scenario::parse(&text).unwrap()
    }

    #[test]
    fn the_background_keeps_its_share() {
        let text = "name = \"t\"\nlimit_s = 9000\n[[nodes]]\ncount = 1\n[[jobs]]\ncount = 1\nwork = { fixed = 30.0 }\n\
                    [[background]]\ncount = 1\nrun_s = 1e7\npause_s = 1.0\n";
        let scenario = Scenario::parse(text).unwrap();
        assert!((fluid_s(&scenario, 1) - 60.0).abs() < 1e-6, "half each");
        for (rate, ends_s) in [(0.5, 60.0), (0.25, 40.0), (0.0, 30.0), (0.75, 120.0)] {
            let found = fluid_beside_s(&scenario, 1, rate);
            assert!((found - ends_s).abs() < 1e-3, "{rate}: {found}");
        }
        let alone = table1(17);
        assert!((fluid_beside_s(&alone, 1, 0.0) - fluid_s(&alone, 1)).abs() < 1e-6);
    }

    #[test]
    fn parts_of_cores_count() {
        let of_cores = |cores| {
            let mut scenario = table1(17);
            scenario.nodes[0].cores = cores;
            fluid_s(&scenario, 1)
        };
        for (cores, fluid) in [(0.1, 3187.5), (1.5, 309.0909), (0.5, 637.5)] {
            assert!((of_cores(cores) - fluid).abs() < 1e-3, "{cores}: {}", of_cores(cores));
        }
    }

    #[test]
    fn bounds_of_the_paper() {
        for (jobs, fluid, by_two) in [(1, 300.0, 300.0), (16, 300.0, 300.0), (17, 318.75, 450.0), (48, 900.0, 900.0)] {
            let scenario = table1(jobs);
            assert!((fluid_s(&scenario, 1) - fluid).abs() < 1e-6, "{jobs}: {}", fluid_s(&scenario, 1));
            let found = by_two_s(&scenario, 1).unwrap();
            assert!((found - by_two).abs() < 1e-6, "{jobs}: {found}");
        }
    }
}
