//! Times of the phases of a move.

use control_protocol::moves::{HopReport, Parts, Phase};
use std::time::Instant;

/// A move's clock.
#[derive(Debug)]
pub struct PhaseTimings {
    begun: Instant,
    last: Instant,
    /// When the threads were about to be stopped.
    frozen: Option<Instant>,
    thawed: bool,
    report: HopReport,
}

impl Default for PhaseTimings {
    fn default() -> PhaseTimings {
        let now = Instant::now();
        PhaseTimings { begun: now, last: now, frozen: None, thawed: false, report: HopReport::default() }
    }
}

impl PhaseTimings {
    /// Ends a step.
    pub fn done(&mut self, step: &str) {
        let now = Instant::now();
        let name = if self.frozen.is_some() && !self.thawed { format!("frozen {step}") } else { step.to_owned() };
        self.report.phases.push(Phase { name, us: micros(now - self.last) });
        self.last = now;
    }

    /// Notes the parts of the process, which cost time whatever its memory.
    pub fn describe(&mut self, parts: Parts) {
        self.report.parts = parts;
    }

    /// Notes when the threads were told to stop; the time before that belongs to the last step.
    pub fn freeze(&mut self, since: Instant) {
        let before = micros(since.saturating_duration_since(self.last));
        self.report.phases.last_mut().into_iter().for_each(|step| step.us += before);
        (self.frozen, self.thawed, self.last) = (Some(since), false, since);
    }

    /// Tells whether the threads stand still.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some() && !self.thawed
    }

    /// Notes since when the threads run again.
    pub fn thaw(&mut self, then: Instant) {
        if let Some(since) = self.frozen.filter(|_| !self.thawed) {
            self.report.freeze_us = self.report.freeze_us.max(micros(then - since));
            self.thawed = true;
        }
    }

    /// Begins another try: the threads run again, and bytes that were sent while they stood still
    /// do not count.
    pub fn again(&mut self) {
        self.thaw(Instant::now());
        self.frozen = None;
        self.report.frozen_bytes = 0;
    }

    /// Counts bytes of pages that were sent.
    pub fn count(&mut self, bytes: u64) {
        self.report.page_bytes += bytes;
        if self.frozen.is_some() && !self.thawed {
            self.report.frozen_bytes += bytes;
        }
    }

    /// Counts bytes of pages that the other end had already.
    pub fn count_stocked(&mut self, bytes: u64) {
        self.report.stocked_bytes += bytes;
    }

    /// Notes the bytes that followed, and how many of them the process waited for.
    pub fn follow(&mut self, bytes: u64, asked_bytes: u64) {
        (self.report.followed_bytes, self.report.asked_bytes) = (bytes, asked_bytes);
    }

    /// Bytes of pages that were sent so far.
    pub fn page_bytes(&self) -> u64 {
        self.report.page_bytes
    }

    /// Writes the report of the whole move.
    pub fn report(&self, to: &str, how: &str) -> HopReport {
        HopReport {
            to: to.to_owned(),
            how: how.to_owned(),
            total_us: micros(self.begun.elapsed()),
            ..self.report.clone()
        }
    }
}

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bytes_and_steps_count_where_they_belong() {
        let mut course = PhaseTimings::default();
        course.count(1);
        course.done("prepare");
        course.freeze(Instant::now());
        course.count(2);
        course.done("stop");
        course.thaw(Instant::now());
        course.done("tidy");
        let report = course.report("n2", "stop");
        assert_eq!((report.page_bytes, report.frozen_bytes), (3, 2));
        let names: Vec<&str> = report.phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["prepare", "frozen stop", "tidy"]);
        assert!(report.freeze_us <= report.total_us);
    }

    #[test]
    fn what_a_try_in_vain_has_sent_at_its_stop_does_not_count_as_sent_at_the_last_one() {
        let mut course = PhaseTimings::default();
        course.freeze(Instant::now() - Duration::from_millis(3));
        course.count(2);
        course.again();
        assert!(!course.is_frozen());
        course.count(4);
        course.freeze(Instant::now());
        course.count(1);
        course.thaw(Instant::now());
        let report = course.report("n2", "pre");
        assert_eq!((report.page_bytes, report.frozen_bytes), (7, 1));
        assert!(report.freeze_us >= 3000, "as long as it stood still at once");
    }
}
