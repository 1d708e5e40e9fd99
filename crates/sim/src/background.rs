//! The processes of a scenario, in the order in which they begin.

use gossip::Draw;

use crate::process::Process;
use crate::scenario::Scenario;

/// Draws all processes, each with the time at which it begins, microseconds. The same seed gives
/// the same processes, however the policy moves them.
pub(crate) fn processes(scenario: &Scenario, seed: u64) -> Vec<(u64, Process)> {
    let mut draw = Draw::new(seed ^ 0x6a6f_6273);
    let nodes = scenario.node_count() as usize;
    let mut found = Vec::new();
    for jobs in &scenario.jobs {
        let mut at_s = jobs.at_s;
        for _ in 0..jobs.count {
            let home = jobs.on.map_or_else(|| draw.below(nodes), |n| n as usize);
            let mut process = Process::new(home, jobs.work.draw(&mut draw));
            (process.memory_mib, process.calls_per_s) = (jobs.memory_mib, jobs.calls_per_s);
            found.push(((at_s * 1e6) as u64, process));
            if jobs.every_s > 0.0 {
                at_s += -jobs.every_s * (1.0 - draw.unit()).ln();
            }
        }
    }
    for background in &scenario.background {
        for number in 0..background.count as usize {
            let mut process = Process::new(number % nodes, f64::INFINITY);
            process.movable = background.movable;
            process.rhythm = Some(Longest { run_s: background.run_s, pause_s: background.pause_s });
            found.push((0, process));
        }
    }
    found
}

/// The longest run and pause of a background process, seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Longest {
    pub run_s: f64,
    pub pause_s: f64,
}

/// The times between changes of a background process from running to pausing and back, from its
/// start on, seconds. Each process draws from a sequence of its own, so nothing else in the run
/// affects it.
#[derive(Clone)]
pub(crate) struct Rhythm {
    draw: Draw,
    longest: Longest,
    runs: bool,
}

impl Rhythm {
    pub fn new(seed: u64, process: usize, longest: Longest) -> Rhythm {
        let mixed = Draw::new(seed ^ (process as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits();
        Rhythm { draw: Draw::new(mixed), longest, runs: true }
    }
}

impl Iterator for Rhythm {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let longest = if self.runs { self.longest.run_s } else { self.longest.pause_s };
        self.runs = !self.runs;
        Some(longest * self.draw.unit())
    }
}
