//! Estimates of the freeze time of a move, from the time that earlier moves took
//! ([`crate::Experience`]).

use crate::Way;

/// The fixed time of a move of any process, before any move was measured, microseconds: stopping,
/// collecting and rebuilding.
pub const FIXED_US: f64 = 1500.0;
/// The assumed rate of a link that has carried nothing yet, bytes per microsecond.
pub const RATE_AT_FIRST: f64 = 400.0;
/// Time for finding written pages, microseconds per byte of resident memory: 12 ns a page.
const LOOK_US_PER_BYTE: f64 = 0.012 / 4096.0;
/// A move may be expected to take this share of the bound. On a busy machine one move of a hundred
/// takes half as long again as expected, or more.
const RISKED: f64 = 0.6;
/// Memory of at most this size is sent during the stop however fast the link is. While pages follow
/// in post-copy, the process dies if either node does.
const FOLLOWS_FROM_BYTES: u64 = 128 << 10;
/// For a process with more private memory than this, write tracking by the kernel costs less than
/// comparing all memory.
pub const COPIED_BYTES_MAX: u64 = 4 << 20;
/// A freeze time that neither a user nor a peer notices, microseconds.
const UNNOTICED_US: u64 = 5000;

/// The estimated costs of moving one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    fixed_us: f64,
    /// Rate of the link, bytes per microsecond.
    rate: f64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { fixed_us: FIXED_US, rate: RATE_AT_FIRST }
    }
}

impl Costs {
    /// Creates an estimate from a fixed time, microseconds, and the rate of the link, bytes per
    /// microsecond.
    pub fn new(fixed_us: f64, rate: f64) -> Costs {
        Costs { fixed_us, ..Costs::default() }.with_rate(rate)
    }

    /// Replaces the rate of the link, bytes per microsecond.
    pub fn with_rate(self, rate: f64) -> Costs {
        Costs { rate: rate.max(f64::MIN_POSITIVE), ..self }
    }

    /// Creates an estimate from whole numbers: a fixed time, microseconds, and the rate of the
    /// link, bytes per second.
    pub fn of(fixed_us: u64, bytes_per_s: u64) -> Costs {
        Costs::new(fixed_us as f64, bytes_per_s as f64 / 1e6)
    }

    /// Gives the fixed time, microseconds, and the rate of the link, bytes per second.
    pub fn parts(&self) -> (u64, u64) {
        (self.fixed_us as u64, (self.rate * 1e6) as u64)
    }

    /// Lowers the rate to a limit, bytes per second.
    pub fn limited(self, bytes_per_s: Option<u64>) -> Costs {
        bytes_per_s.map_or(self, |most| self.with_rate(self.rate.min(most as f64 / 1e6)))
    }

    /// Estimates the freeze time of a process, microseconds, of which `to_send_bytes` are sent and
    /// `looked_at_bytes` are searched for written pages during the stop.
    pub fn freeze_us(&self, to_send_bytes: u64, looked_at_bytes: u64) -> u64 {
        let us = self.fixed_us + self.sending_us(to_send_bytes) + looked_at_bytes as f64 * LOOK_US_PER_BYTE;
        us.min(u64::MAX as f64) as u64
    }

    /// Estimates the time for sending `bytes`, microseconds.
    pub(crate) fn sending_us(&self, bytes: u64) -> f64 {
        bytes as f64 / self.rate
    }

    /// Tells whether the freeze time is safely within the bound.
    pub fn fits(&self, to_send_bytes: u64, looked_at_bytes: u64, max_freeze_us: u64) -> bool {
        let (most, looking) = (max_freeze_us as f64, looked_at_bytes as f64 * LOOK_US_PER_BYTE);
        self.freeze_us(to_send_bytes, 0) as f64 <= (most - looking) * RISKED
    }

    /// Chooses a strategy for a process with `own_bytes` of private memory that may be frozen for
    /// `max_freeze_us`. Stop-and-copy takes the least total time, so it is chosen where nobody
    /// notices the freeze.
    pub fn choose(&self, own_bytes: u64, max_freeze_us: u64) -> Way {
        match own_bytes {
            ..=COPIED_BYTES_MAX => Way::Copy,
            _ if self.fits(own_bytes, 0, max_freeze_us.min(UNNOTICED_US)) => Way::Stop,
            _ => Way::Pre,
        }
    }

    /// Gives the greatest private memory, bytes, that can all be sent during the stop within the
    /// bound.
    pub fn stop_bytes_max(&self, max_freeze_us: u64) -> u64 {
        let fits = ((max_freeze_us as f64 * RISKED - self.fixed_us).max(0.0) * self.rate) as u64;
        fits.max(FOLLOWS_FROM_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn small_ones_are_copied_and_large_ones_watched() {
        let costs = Costs::default();
        assert_eq!([1, COPIED_BYTES_MAX].map(|bytes| costs.choose(bytes, 100_000)), [Way::Copy; 2]);
        assert_eq!([COPIED_BYTES_MAX + 4096, 1024 * MIB].map(|bytes| costs.choose(bytes, u64::MAX)), [Way::Pre; 2]);
        // Over such a link nobody notices the freeze.
        let fast = Costs::new(1000.0, 10_000.0);
        assert_eq!([5, 64].map(|n| fast.choose(n * MIB, 100_000)), [Way::Stop, Way::Pre]);
        assert_eq!(fast.choose(5 * MIB, 1000), Way::Pre);
        assert_eq!(
            (costs.stop_bytes_max(1), costs.with_rate(0.0).freeze_us(u64::MAX, u64::MAX)),
            (FOLLOWS_FROM_BYTES, u64::MAX)
        );
    }
}
