//! How well a sampler keeps its period.

use serde::{Deserialize, Serialize};

/// Counts of one sampler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Samples that were taken.
    pub samples: u64,
    /// Samples that ended after the next one was due.
    pub overlapped: u64,
    /// Periods without a sample, because the one before took longer.
    pub missed: u64,
    /// The longest time by which a sample ended late, nanoseconds.
    pub extra_max_ns: u64,
    /// The time of all samples, nanoseconds.
    pub work_ns: u64,
    /// The longest sample, nanoseconds.
    pub work_max_ns: u64,
}

/// When a sample was due, and when it was taken; nanoseconds of one clock.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// When it was due.
    pub due_ns: u64,
    /// When it began.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
}

impl Pace {
    /// Counts a sample, and gives the time at which the next one is due: the first one after now
    /// that is whole periods after this one.
    pub fn count(&mut self, taken: Taken, period_ns: u64) -> u64 {
        let period_ns = period_ns.max(1);
        let work_ns = taken.ended_ns.saturating_sub(taken.began_ns);
        self.samples += 1;
        self.work_ns = self.work_ns.saturating_add(work_ns);
        self.work_max_ns = self.work_max_ns.max(work_ns);
        let next_ns = taken.due_ns.saturating_add(period_ns);
        if taken.ended_ns <= next_ns {
            return next_ns;
        }
        let extra_ns = taken.ended_ns - next_ns;
        self.overlapped += 1;
        self.extra_max_ns = self.extra_max_ns.max(extra_ns);
        let missed = extra_ns / period_ns;
        self.missed += missed;
        next_ns.saturating_add(missed.saturating_mul(period_ns))
    }

    /// Gives the share of samples that overlapped the period, percent.
    pub fn overlapped_percent(&self) -> f64 {
        if self.samples == 0 { 0.0 } else { self.overlapped as f64 * 100.0 / self.samples as f64 }
    }

    /// Gives the mean time of a sample, microseconds.
    pub fn work_mean_us(&self) -> f64 {
        if self.samples == 0 { 0.0 } else { self.work_ns as f64 / self.samples as f64 / 1000.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(due_ns: u64, began_ns: u64, ended_ns: u64) -> Taken {
        Taken { due_ns, began_ns, ended_ns }
    }

    #[test]
    fn a_sample_in_time_overlaps_nothing() {
        let mut pace = Pace::default();
        assert_eq!(pace.count(taken(1000, 1010, 1090), 100), 1100);
        assert_eq!(pace, Pace { samples: 1, work_ns: 80, work_max_ns: 80, ..Pace::default() });
    }

    #[test]
    fn a_late_sample_is_counted_with_the_periods_it_took() {
        let mut pace = Pace::default();
        assert_eq!(pace.count(taken(1000, 1000, 1130), 100), 1100);
        assert_eq!((pace.overlapped, pace.missed, pace.extra_max_ns), (1, 0, 30));
        assert_eq!(pace.count(taken(1100, 1130, 1450), 100), 1400);
        assert_eq!((pace.overlapped, pace.missed, pace.extra_max_ns), (2, 2, 250));
        assert_eq!(pace.overlapped_percent(), 100.0);
    }

    #[test]
    fn hostile_times_do_not_overflow() {
        let mut pace = Pace::default();
        pace.count(taken(u64::MAX, 0, u64::MAX), 0);
        pace.count(taken(0, u64::MAX, 0), u64::MAX);
        assert_eq!(pace.samples, 2);
    }
}
