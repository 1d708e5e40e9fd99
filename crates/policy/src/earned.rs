//! What guests really get of a node's cores, against what it tells: other work there may be hidden from it, or it lies.

/// Over which the share is smoothed, milliseconds in which guests wanted to run.
const SMOOTHED_MS: f64 = 10_000.0;
/// Time without guests after which 63% of what was seen is forgotten: then it is tried again, milliseconds.
const FORGOTTEN_MS: f64 = 120_000.0;
/// Loads are seconds old and processes are looked at from outside: a share that is not below this says nothing, and nothing above it counts.
const NOISE: f64 = 0.8;
/// A node never counts as slower than this for what its guests get.
const LEAST: f64 = 0.2;
/// In one look guests may seem to have got this much more than their share, at most.
const MOST: f64 = 1.5;
/// Who wants less of a core may have waited for something else, thousandths.
const BUSY_MILLI: u32 = 900;
/// What has just come is still being put in place, milliseconds.
const SETTLED_MS: u64 = 2000;

/// The share that guests of one node get of what they should, by its load, cores and speed. It only ever makes a node slower: who makes guests fast gains nothing by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Earned {
    share: f64,
}

impl Default for Earned {
    fn default() -> Earned {
        Earned { share: 1.0 }
    }
}

impl Earned {
    /// Does what such a process gets tell anything of its node?
    pub fn counts(demand_milli: u32, resident_ms: u64) -> bool {
        demand_milli >= BUSY_MILLI && resident_ms >= SETTLED_MS
    }

    /// In `elapsed_ms` guests that count wanted a core for `wanted_ms` together and got `got_ms` of one, where `load` shared `cores`.
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

    /// The node's speed for guests, if this is what it tells, thousandths.
    pub fn corrected(&self, speed_milli: u32) -> u32 {
        (f64::from(speed_milli) * (self.share / NOISE).clamp(LEAST, 1.0)).round().max(1.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(looks: u32, got: impl Fn(u32) -> f64) -> Earned {
        let mut earned = Earned::default();
        (0..looks).for_each(|n| earned.note(1000.0, 1000.0, got(n), 1.0, 1.0));
        earned
    }

    #[test]
    fn who_gets_half_has_a_slower_node() {
        assert_eq!(after(100, |_| 500.0).corrected(1000), 625);
        assert!((5..9).contains(&(1..100).find(|n| after(*n, |_| 300.0).corrected(1000) < 800).unwrap()));
        let mut shared = Earned::default();
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
        assert!(!Earned::counts(500, 60_000) && !Earned::counts(1000, 100) && Earned::counts(1000, 60_000));
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
