//! For how long a process stands still, as the last moves did ([`crate::Experience`]).

use crate::Way;

/// What moving a process takes whatever its size and parts, before any was moved: stopping, collecting, rebuilding, microseconds.
pub const FIXED_US: f64 = 1500.0;
/// What is assumed of a link over which nothing has gone yet, bytes per microsecond.
pub const RATE_AT_FIRST: f64 = 400.0;
/// What looking for written pages takes for each byte of memory that is there, microseconds: 12 ns a page.
const LOOK_US_PER_BYTE: f64 = 0.012 / 4096.0;
/// A move that is expected to take this part of what it may is risked: on a busy machine one of a hundred takes half as long again, or more.
const RISKED: f64 = 0.6;
/// Less is sent at once whatever has been seen of the link: while pages follow, the process is lost with either node.
const FOLLOWS_FROM_BYTES: u64 = 128 << 10;
/// With more memory of its own than this, having the kernel watch a process is cheaper than comparing all of it.
pub const COPIED_BYTES_MAX: u64 = 4 << 20;
/// A stop that neither a user nor a peer notices, microseconds.
const UNNOTICED_US: u64 = 5000;

/// What moving one process takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    fixed_us: f64,
    /// Bytes per microsecond.
    rate: f64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { fixed_us: FIXED_US, rate: RATE_AT_FIRST }
    }
}

impl Costs {
    /// A move takes so many microseconds whatever is sent, and the link carries so many bytes in each.
    pub fn new(fixed_us: f64, rate: f64) -> Costs {
        Costs { fixed_us, ..Costs::default() }.with_rate(rate)
    }

    /// The link carries so much: bytes per microsecond.
    pub fn with_rate(self, rate: f64) -> Costs {
        Costs { rate: rate.max(f64::MIN_POSITIVE), ..self }
    }

    /// A move takes so long whatever its size, and the link carries so much.
    pub fn of(fixed_us: u64, bytes_per_s: u64) -> Costs {
        Costs::new(fixed_us as f64, bytes_per_s as f64 / 1e6)
    }

    /// What a move takes whatever its size, microseconds; and what the link carries, bytes per second.
    pub fn parts(&self) -> (u64, u64) {
        (self.fixed_us as u64, (self.rate * 1e6) as u64)
    }

    /// No more than that is to be sent: bytes per second.
    pub fn limited(self, bytes_per_s: Option<u64>) -> Costs {
        bytes_per_s.map_or(self, |most| self.with_rate(self.rate.min(most as f64 / 1e6)))
    }

    /// For how long a process stands still of which so much must be sent, and so much is looked at, microseconds.
    pub fn freeze_us(&self, to_send_bytes: u64, looked_at_bytes: u64) -> u64 {
        let us = self.fixed_us + self.sending_us(to_send_bytes) + looked_at_bytes as f64 * LOOK_US_PER_BYTE;
        us.min(u64::MAX as f64) as u64
    }

    /// How long sending so much takes, microseconds.
    pub(crate) fn sending_us(&self, bytes: u64) -> f64 {
        bytes as f64 / self.rate
    }

    /// Whether that is safely within the bound.
    pub fn fits(&self, to_send_bytes: u64, looked_at_bytes: u64, max_freeze_us: u64) -> bool {
        let (most, looking) = (max_freeze_us as f64, looked_at_bytes as f64 * LOOK_US_PER_BYTE);
        self.freeze_us(to_send_bytes, 0) as f64 <= (most - looking) * RISKED
    }

    /// The way for a process with so much memory of its own, that may stand still for so long. Stop-and-copy is what takes least in all, and is chosen where
    /// nobody notices.
    pub fn choose(&self, own_bytes: u64, max_freeze_us: u64) -> Way {
        match own_bytes {
            ..=COPIED_BYTES_MAX => Way::Copy,
            _ if self.fits(own_bytes, 0, max_freeze_us.min(UNNOTICED_US)) => Way::Stop,
            _ => Way::Pre,
        }
    }

    /// With more bytes of its own a process would stand still for too long if all of it were sent meanwhile.
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
        // Over such a link nobody notices.
        let fast = Costs::new(1000.0, 10_000.0);
        assert_eq!([5, 64].map(|n| fast.choose(n * MIB, 100_000)), [Way::Stop, Way::Pre]);
        assert_eq!(fast.choose(5 * MIB, 1000), Way::Pre);
        assert_eq!(
            (costs.stop_bytes_max(1), costs.with_rate(0.0).freeze_us(u64::MAX, u64::MAX)),
            (FOLLOWS_FROM_BYTES, u64::MAX)
        );
    }
}
