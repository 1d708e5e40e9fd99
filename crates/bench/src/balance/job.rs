//! One job: so many rounds of computing, and what they took.

use super::refused;
use crate::Error;
use crate::guest::burn;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::time::Instant;

/// What so many rounds took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Job {
    rounds: u64,
    /// By the clock.
    ns: u64,
    /// Of a processor.
    cpu_ns: u64,
}

impl Job {
    /// Computes.
    ///
    /// # Errors
    /// None now.
    pub fn run(rounds: u64) -> std::io::Result<Job> {
        let cpu_ns = || {
            let now = clock_gettime(ClockId::ProcessCPUTime);
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
        };
        let (start, cpu) = (Instant::now(), cpu_ns());
        burn(rounds)?;
        Ok(Job { rounds, ns: start.elapsed().as_nanos() as u64, cpu_ns: cpu_ns() - cpu })
    }

    /// The last line of what one printed.
    pub fn of_output(printed: &[u8]) -> Result<Job, Error> {
        let text = String::from_utf8_lossy(printed);
        let numbers = text.lines().last().unwrap_or_default().split(' ').map(str::parse);
        match numbers.collect::<Result<Vec<u64>, _>>().as_deref() {
            Ok([rounds, ns, cpu_ns]) => Ok(Job { rounds: *rounds, ns: *ns, cpu_ns: *cpu_ns }),
            _ => Err(refused(format!("a job did not say what it took, but: {text}"))),
        }
    }

    /// All together.
    pub fn sum(jobs: &[Job]) -> Job {
        let add = |a: Job, b: &Job| Job { rounds: a.rounds + b.rounds, ns: a.ns + b.ns, cpu_ns: a.cpu_ns + b.cpu_ns };
        jobs.iter().fold(Job::default(), add)
    }

    /// Rounds a second by the clock.
    pub fn rounds_per_s(&self) -> f64 {
        self.rounds as f64 * 1e9 / self.ns.max(1) as f64
    }

    /// Rounds a second of processor.
    pub fn rounds_per_cpu_s(&self) -> f64 {
        self.rounds as f64 * 1e9 / self.cpu_ns.max(1) as f64
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.rounds, self.ns, self.cpu_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_understood() {
        let job = Job { rounds: 10, ns: 4_000_000_000, cpu_ns: 1_000_000_000 };
        assert_eq!(Job::of_output(format!("a word\n{job}\n").as_bytes()).unwrap(), job);
        assert_eq!((Job::sum(&[job, job]).rounds_per_s(), job.rounds_per_cpu_s()), (2.5, 10.0));
        assert!(Job::of_output(b"7\n").is_err() && Job::of_output(b"").is_err());
    }
}
