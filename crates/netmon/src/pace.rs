//! How well a sampler keeps its period.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::classes::{class, upper};

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

/// How long samples took: counts of them by classes of their time.
#[derive(Clone, Debug, Default)]
pub struct Times {
    counts: BTreeMap<u64, u64>,
}

impl Times {
    /// Counts a sample.
    pub fn count(&mut self, work_ns: u64) {
        *self.counts.entry(class(work_ns)).or_default() += 1;
    }

    /// Gives the time within which this share of the samples was done, nanoseconds, up to an eighth
    /// too much; 0 without samples.
    pub fn within(&self, share: f64) -> u64 {
        let all: u64 = self.counts.values().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = self.counts.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        found.map_or(0, |(class, _)| upper(*class))
    }
}

/// The share of samples that may overlap the period while that still counts as held.
pub const OVERLAPPED_MAX: f64 = 0.01;

/// Samples that take longer than nine of ten others were interrupted.
const UNDISTURBED: f64 = 0.9;

/// Says which period holds, if this one does not.
pub fn advice(pace: &Pace, times: &Times, period_ns: u64) -> Option<String> {
    if pace.samples == 0 || pace.overlapped_percent() <= OVERLAPPED_MAX * 100.0 {
        return None;
    }
    let ms = |ns: u64| ns as f64 / 1e6;
    let needed_ns = longer(times.within(UNDISTURBED));
    let advice = if needed_ns <= period_ns {
        "the others were disturbed: the processors have other work (--rt lets netmon go first)".into()
    } else {
        format!("a period of {0} ms holds (-d {0})", ms(needed_ns))
    };
    Some(format!(
        "the period of {} ms did not hold: {:.1} % of the samples overlapped it; nine of ten took at most {} ms; {advice}",
        ms(period_ns),
        pace.overlapped_percent(),
        ms(times.within(UNDISTURBED) / 1000 * 1000),
    ))
}

/// A round number of microseconds that is a tenth longer.
fn longer(needed_ns: u64) -> u64 {
    const ROUND_NS: u64 = 10_000;
    (needed_ns + needed_ns / 10).next_multiple_of(ROUND_NS)
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
    fn the_period_that_holds_is_told() {
        let mut times = Times::default();
        (0..100).for_each(|n| times.count(if n < 95 { 512_000 } else { u64::MAX }));
        assert_eq!(times.within(0.5), times.within(0.95));
        assert!((512_000..576_000).contains(&times.within(0.9)) && times.within(1.0) == u64::MAX);
        let pace = Pace { samples: 100, overlapped: 100, ..Pace::default() };
        let text = advice(&pace, &times, 100_000).unwrap();
        assert!(text.contains("0.1 ms did not hold: 100.0 %") && text.ends_with("0.58 ms holds (-d 0.58)"), "{text}");
        assert!(advice(&pace, &times, 1_000_000).unwrap().contains("--rt"));
        assert_eq!(advice(&Pace { overlapped: 1, ..pace }, &times, 100_000), None);
    }

    #[test]
    fn hostile_times_do_not_overflow() {
        let mut pace = Pace::default();
        pace.count(taken(u64::MAX, 0, u64::MAX), 0);
        pace.count(taken(0, u64::MAX, 0), u64::MAX);
        assert_eq!(pace.samples, 2);
    }
}
