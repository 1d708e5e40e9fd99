//! The speed that guests observe on a node, against the speed that the node reports. A node may not
//! see other work on its hardware, or may report false values.

/// Smoothing time of the observed share, milliseconds in which guests wanted to run.
const SMOOTHED_MS: f64 = 10_000.0;
/// Time without guests after which 63% of the observation is forgotten, milliseconds. The node is
/// then tried again.
const FORGOTTEN_MS: f64 = 120_000.0;
/// The least observed share that is within noise. Loads are seconds old and processes are observed
/// from outside, so a share above this says nothing and is ignored.
const NOISE: f64 = 0.8;
/// The least factor by which an observed share slows a node down.
const LEAST: f64 = 0.2;
/// The most that one sample of guests counts, as a multiple of the share that they should get.
const MOST: f64 = 1.5;
/// The least demand of a process that counts, thousandths of a core. A process that wants less may
/// have waited for something else.
const BUSY_MILLI: u32 = 900;
/// The time after its arrival during which a process does not count, milliseconds: its memory is
/// still being put in place.
const SETTLED_MS: u64 = 2000;

/// The share of the expected CPU time that guests of one node get, given its load, cores and speed.
/// The share only slows a node down: a node gains nothing by favouring guests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffectiveSpeed {
    share: f64,
}

impl Default for EffectiveSpeed {
    fn default() -> EffectiveSpeed {
        EffectiveSpeed { share: 1.0 }
    }
}

impl EffectiveSpeed {
    /// Tells whether the CPU time of such a process says anything about its node.
    pub fn counts(demand_milli: u32, resident_ms: u64) -> bool {
        demand_milli >= BUSY_MILLI && resident_ms >= SETTLED_MS
    }

    /// Takes a sample. In `elapsed_ms`, the guests that count together wanted a core for
    /// `wanted_ms` and got `got_ms`, while `load` runnable processes shared `cores`.
    pub fn note(&mut self, elapsed_ms: f64, wanted_ms: f64, got_ms: f64, load: f64, cores: f64) {
        let elapsed_ms = elapsed_ms.max(0.0);
        let due_ms = wanted_ms * if load > cores { cores / load } else { 1.0 };
        if wanted_ms < elapsed_ms * 0.5 || !due_ms.is_finite() || due_ms <= 0.0 || !got_ms.is_finite() {
            self.share += (1.0 - self.share) * (1.0 - (-elapsed_ms / FORGOTTEN_MS).exp());
            return;
        }
        let seen = (got_ms / due_ms).clamp(0.0, MOST);
        self.share += (seen - self.share) * (1.0 - (-elapsed_ms / SMOOTHED_MS).exp());
        self.share = self.share.min(1.0);
    }

    /// Gives the node's effective speed for guests, thousandths, from the speed that the node
    /// reports.
    pub fn corrected(&self, speed_milli: u32) -> u32 {
        (f64::from(speed_milli) * (self.share / NOISE).clamp(LEAST, 1.0)).round().max(1.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(looks: u32, got: impl Fn(u32) -> f64) -> EffectiveSpeed {
        let mut earned = EffectiveSpeed::default();
        (0..looks).for_each(|n| earned.note(1000.0, 1000.0, got(n), 1.0, 1.0));
        earned
    }

    #[test]
    fn guests_that_get_half_have_a_slower_node() {
        assert_eq!(after(100, |_| 500.0).corrected(1000), 625);
        assert!((5..9).contains(&(1..100).find(|n| after(*n, |_| 300.0).corrected(1000) < 800).unwrap()));
        let mut shared = EffectiveSpeed::default();
        (0..100).for_each(|_| shared.note(1000.0, 4000.0, 2000.0, 4.0, 2.0));
        assert_eq!(shared.corrected(1000), 1000, "four of them on two cores get what they should");
    }

    #[test]
    fn noise_and_lies_are_bounded() {
        assert_eq!(after(500, |n| if n % 2 == 0 { 700.0 } else { 1100.0 }).corrected(1000), 1000);
        assert_eq!(after(3, |_| 0.0).corrected(1000), 926, "a moment is a moment");
        assert_eq!(after(500, |_| 0.0).corrected(1000), 200);
        assert_eq!(after(500, |_| 1e300).corrected(1000), 1000);
        assert_eq!(after(500, |_| f64::NAN).corrected(1000), 1000);
        assert!(
            !EffectiveSpeed::counts(500, 60_000)
                && !EffectiveSpeed::counts(1000, 100)
                && EffectiveSpeed::counts(1000, 60_000)
        );
    }

    #[test]
    fn an_empty_node_is_tried_again() {
        let mut earned = after(100, |_| 100.0);
        (0..60).for_each(|_| earned.note(1000.0, 0.0, 0.0, 0.0, 1.0));
        let soon = earned.corrected(1000);
        (0..300).for_each(|_| earned.note(1000.0, 0.0, 0.0, 0.0, 1.0));
        assert!(soon < 800 && earned.corrected(1000) == 1000, "{soon} {earned:?}");
    }
}
