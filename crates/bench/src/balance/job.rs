//! One job: a number of rounds of computing, and the time that they took.

use super::refused;
use crate::Error;
use crate::burn::burn;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::time::Instant;

/// The measurement of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Job {
    rounds: u64,
    /// Begin, by CLOCK_MONOTONIC, which is home's wherever the job runs.
    began_ns: u64,
    /// Wall-clock time of the job.
    ns: u64,
    /// CPU time of the job.
    cpu_ns: u64,
}

/// Reads a clock, in nanoseconds.
pub fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Job {
    /// Computes `rounds` rounds.
    ///
    /// # Errors
    /// None at present.
    pub fn run(rounds: u64) -> std::io::Result<Job> {
        let (start, began_ns, cpu_ns) = (Instant::now(), now_ns(ClockId::Monotonic), now_ns(ClockId::ProcessCPUTime));
        burn(rounds)?;
        let cpu_ns = now_ns(ClockId::ProcessCPUTime) - cpu_ns;
        Ok(Job { rounds, began_ns, ns: start.elapsed().as_nanos() as u64, cpu_ns })
    }

    /// Parses the last line of a job's output.
    pub fn of_output(printed: &[u8]) -> Result<Job, Error> {
        let text = String::from_utf8_lossy(printed);
        let numbers = text.lines().last().unwrap_or_default().split(' ').map(str::parse);
        match numbers.collect::<Result<Vec<u64>, _>>().as_deref() {
            Ok([rounds, began_ns, ns, cpu_ns]) => {
                Ok(Job { rounds: *rounds, began_ns: *began_ns, ns: *ns, cpu_ns: *cpu_ns })
            }
            _ => Err(refused(format!("a job did not report its measurement, but: {text}"))),
        }
    }

    /// Adds up the measurements of several jobs.
    pub fn sum(jobs: &[Job]) -> Job {
        let add = |a: Job, b: &Job| Job {
            rounds: a.rounds + b.rounds,
            ns: a.ns + b.ns,
            cpu_ns: a.cpu_ns + b.cpu_ns,
            ..Job::default()
        };
        jobs.iter().fold(Job::default(), add)
    }

    /// Gives the time from `since_ns` of CLOCK_MONOTONIC until the job began to compute, seconds.
    pub fn began_s(&self, since_ns: u64) -> f64 {
        self.began_ns.saturating_sub(since_ns) as f64 / 1e9
    }

    /// Gives the time from `since_ns` until the job had computed, seconds.
    pub fn ended_s(&self, since_ns: u64) -> f64 {
        self.began_s(since_ns) + self.ns as f64 / 1e9
    }

    /// Gives rounds per second of wall-clock time.
    pub fn rounds_per_s(&self) -> f64 {
        self.rounds as f64 * 1e9 / self.ns.max(1) as f64
    }

    /// Gives rounds per second of CPU time.
    pub fn rounds_per_cpu_s(&self) -> f64 {
        self.rounds as f64 * 1e9 / self.cpu_ns.max(1) as f64
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.rounds, self.began_ns, self.ns, self.cpu_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_results_are_parsed() {
        let job = Job { rounds: 10, began_ns: 5_000_000_000, ns: 4_000_000_000, cpu_ns: 1_000_000_000 };
        assert_eq!(Job::of_output(format!("a word\n{job}\n").as_bytes()).unwrap(), job);
        assert_eq!((Job::sum(&[job, job]).rounds_per_s(), job.rounds_per_cpu_s()), (2.5, 10.0));
        assert_eq!((job.began_s(3_000_000_000), job.ended_s(3_000_000_000)), (2.0, 6.0));
        assert!(Job::of_output(b"7\n").is_err() && Job::of_output(b"").is_err());
    }
}
