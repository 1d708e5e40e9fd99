//! For how long processes stand still: as the last moves did.

use crate::Way;

/// What moving a process takes whatever its size, before any was moved: stopping, collecting, rebuilding, microseconds.
const FIXED_US: f64 = 1500.0;
/// What is assumed of a link over which nothing has gone yet, bytes per microsecond.
const RATE_AT_FIRST: f64 = 400.0;
/// What looking for written pages takes for each byte of memory that is there, microseconds: 45 ns a page.
const LOOK_US_PER_BYTE: f64 = 0.045 / 4096.0;
/// A move that is expected to take this part of what it may is risked: on a busy machine one of a hundred takes half as long again, or more.
const RISKED: f64 = 0.6;
/// Moves that send less, while the process stands still, tell what each takes; those that send more tell the rate, bytes.
const SMALL_BYTES: u64 = 256 << 10;
/// A move that takes so many times as long as expected is taken for one that does.
const ODD: f64 = 4.0;
/// Less is sent at once whatever has been seen of the link: while pages follow, the process is lost with either node.
const FOLLOWS_FROM_BYTES: u64 = 1 << 20;
/// A new measurement weighs so much.
const NEWEST: f64 = 0.3;

/// What moves between two nodes take.
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
    /// The link carries so much: bytes per microsecond.
    pub fn with_rate(self, rate: f64) -> Costs {
        Costs { rate: rate.max(f64::MIN_POSITIVE), ..self }
    }

    /// A move takes so long whatever its size, and the link carries so much.
    pub fn of(fixed_us: u64, bytes_per_s: u64) -> Costs {
        Costs { fixed_us: fixed_us as f64, ..Costs::default() }.with_rate(bytes_per_s as f64 / 1e6)
    }

    /// What a move takes whatever its size, microseconds; and what the link carries, bytes per second.
    pub fn parts(&self) -> (u64, u64) {
        (self.fixed_us as u64, (self.rate * 1e6) as u64)
    }

    /// No more than that is to be sent: bytes per second.
    pub fn limited(self, bytes_per_s: Option<u64>) -> Costs {
        bytes_per_s.map_or(self, |most| self.with_rate(self.rate.min(most as f64 / 1e6)))
    }

    /// A process stood still for so long, while so much was sent.
    pub fn moved(&mut self, frozen_bytes: u64, freeze_us: u64) {
        let (bytes, us) = (frozen_bytes as f64, freeze_us as f64);
        if frozen_bytes < SMALL_BYTES {
            let fixed_us = us - bytes / self.rate;
            self.fixed_us += NEWEST * (fixed_us.clamp(FIXED_US / 4.0, FIXED_US * 20.0) - self.fixed_us);
        } else {
            // Times are what adds up.
            let us_per_byte = (us - self.fixed_us).max(us / 4.0) / bytes;
            // A pause of a machine's is not what its link takes.
            let us_per_byte = us_per_byte.min(ODD / self.rate);
            self.rate = 1.0 / ((1.0 - NEWEST) / self.rate + NEWEST * us_per_byte);
        }
    }

    /// For how long a process stands still of which so much must be sent, and so much is looked at, microseconds.
    pub fn freeze_us(&self, to_send_bytes: u64, looked_at_bytes: u64) -> u64 {
        let sending = to_send_bytes as f64 / self.rate;
        (self.fixed_us + sending + looked_at_bytes as f64 * LOOK_US_PER_BYTE).min(u64::MAX as f64) as u64
    }

    /// Whether that is safely within the bound.
    pub fn fits(&self, to_send_bytes: u64, looked_at_bytes: u64, max_freeze_us: u64) -> bool {
        let (most, looking) = (max_freeze_us as f64, looked_at_bytes as f64 * LOOK_US_PER_BYTE);
        self.freeze_us(to_send_bytes, 0) as f64 <= (most - looking) * RISKED
    }

    /// The way for a process with so much memory of its own, that may stand still for so long.
    pub fn choose(&self, own_bytes: u64, max_freeze_us: u64) -> Way {
        if self.fits(own_bytes, 0, max_freeze_us) { Way::Stop } else { Way::Pre }
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
    fn a_pause_is_no_slow_link() {
        let mut costs = Costs::default();
        costs.moved(MIB, 5_000_000);
        assert!(costs.rate > RATE_AT_FIRST / 2.0);
        (0..100).for_each(|_| costs.moved(MIB, 5_000_000));
        assert_eq!(costs.stop_bytes_max(100_000), FOLLOWS_FROM_BYTES);
    }

    #[test]
    fn small_ones_are_stopped_at_once() {
        let costs = Costs::default();
        assert_eq!(costs.choose(160 << 10, 100_000), Way::Stop);
        assert_eq!(costs.choose(1024 * MIB, 100_000), Way::Pre);
        assert_eq!(costs.choose(1024 * MIB, u64::MAX), Way::Stop);
        let most = costs.stop_bytes_max(100_000);
        assert_eq!((costs.choose(most, 100_000), costs.choose(most + 4096, 100_000)), (Way::Stop, Way::Pre));
        assert_eq!(
            (costs.stop_bytes_max(1), costs.with_rate(0.0).freeze_us(u64::MAX, u64::MAX)),
            (FOLLOWS_FROM_BYTES, u64::MAX)
        );
        assert_eq!(costs.limited(Some(1_000_000)).choose(MIB, 100_000), Way::Pre);
    }

    /// Of moves that take 5 ms and send 150 bytes each microsecond, in sizes that jump about.
    #[test]
    fn what_moves_take_is_learnt() {
        let mut costs = Costs::default();
        for n in 0..40u64 {
            let bytes = [8 * MIB, 100 << 10, MIB, 64 * MIB, 4096][n as usize % 5];
            costs.moved(bytes, 5000 + bytes / 150);
        }
        for bytes in [0, MIB, 20 * MIB] {
            let (said, takes) = (costs.freeze_us(bytes, 0) as f64, (5000 + bytes / 150) as f64);
            assert!((0.9..1.1).contains(&(said / takes)), "{bytes}: {said} {takes}");
        }
    }

    #[test]
    fn one_odd_move_does_not_make_much_difference() {
        let mut costs = Costs::default();
        costs.moved(4096, 10_000_000);
        costs.moved(64 * MIB, 1);
        let said = costs.freeze_us(20 * MIB, 0);
        assert!((20_000..90_000).contains(&said), "{said}");
    }
}
