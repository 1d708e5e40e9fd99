//! Leading a clock to where it should be: it never goes back, unless it is so wrong that home's own
//! must have been set.

/// It gains or loses at most one part in so many.
const SLEW: i64 = 20;
/// What is more is a step, nanoseconds.
const STEP_NS: i64 = 100_000_000;

/// How far home's wall clock is ahead of this machine's monotonic one.
#[derive(Clone, Copy, Debug)]
pub struct Steering {
    /// When it was aimed last.
    since_ns: i64,
    /// What was shown then.
    from_ns: i64,
    /// The descriptors that are to be shown.
    to_ns: i64,
}

impl Steering {
    /// It is so far ahead now.
    pub fn new(now_ns: i64, ahead_ns: i64) -> Steering {
        Steering { since_ns: now_ns, from_ns: ahead_ns, to_ns: ahead_ns }
    }

    /// How far ahead it is shown to be.
    pub fn ahead_ns(&self, now_ns: i64) -> i64 {
        let most_ns = (now_ns - self.since_ns).max(0) / SLEW;
        self.from_ns.saturating_add(self.to_ns.saturating_sub(self.from_ns).clamp(-most_ns, most_ns))
    }

    /// It was found to be so far ahead.
    pub fn aim(&mut self, now_ns: i64, ahead_ns: i64) {
        let shown_ns = self.ahead_ns(now_ns);
        let stepped = ahead_ns.saturating_sub(shown_ns).saturating_abs() > STEP_NS;
        *self = Steering { since_ns: now_ns, from_ns: if stepped { ahead_ns } else { shown_ns }, to_ns: ahead_ns };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn it_comes_near_without_going_back() {
        let mut clock = Steering::new(0, 3000 * MS);
        let mut last = 0;
        for now in (0..2000).map(|ms| ms * MS) {
            if now % (500 * MS) == 0 {
                // Home's clock is seen to be behind what was shown, more and more.
                clock.aim(now, 3000 * MS - 5 * MS - now / 1000);
            }
            let shown = now + clock.ahead_ns(now);
            assert!(shown >= last, "{shown} after {last}");
            last = shown;
        }
        assert!((clock.ahead_ns(2000 * MS) - (3000 - 5) * MS).abs() < 2 * MS);
    }

    #[test]
    fn a_clock_that_was_set_is_followed_at_once() {
        let mut clock = Steering::new(0, 0);
        clock.aim(10, -3_600_000 * MS);
        assert_eq!(clock.ahead_ns(10), -3_600_000 * MS);
    }
}
