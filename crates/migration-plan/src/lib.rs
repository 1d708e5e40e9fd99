//! Migration plans: how the memory of a process travels. Sizes and rates go in, a decision comes
//! out.
//!
//! - **stop-and-copy**: all memory is sent while the process is frozen;
//! - **pre-copy** (Theimer's, of the V system): memory is sent while the process runs, then dirty
//!   pages are sent again in rounds, until the rest fits the bound on the freeze time, or until the
//!   rest shrinks no more or too much was sent because the process writes about as fast as the link
//!   carries. Of a small process a copy is kept instead: the pages that differ from the copy at the
//!   stop are sent again, without write tracking and after one round;
//! - **post-copy** (Zayas', of Accent): the process resumes at once; its pages follow, missing
//!   pages first.
#![forbid(unsafe_code)]

mod absent;
mod costs;
mod flow;
mod learnt;
mod own;
pub mod protocol;
mod push;
mod ranges;

pub use absent::{Absent, ArrivedPages};
pub use costs::{COPIED_BYTES_MAX, Costs};
pub use flow::{BUFFER_BYTES, Flow, Pace, RATE_LEAST, UNSENT_BYTES};
pub use learnt::{Experience, Measured, Parts, Route};
pub use own::Whose;
pub use push::Push;
pub use ranges::{Range, Ranges};

/// The memory strategy before the stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Stop-and-copy: nothing is sent before the stop.
    Stop,
    /// Pre-copy of a small process: its memory is compared at the stop with the copy that was sent.
    Copy,
    /// Pre-copy with write tracking by the kernel.
    Pre,
}

/// The most rounds of a pre-copy.
const ROUNDS_MAX: usize = 30;
/// A round that leaves more than this share of the bytes that the round before left is in vain.
const LESS: f64 = 0.85;
/// The most rounds in vain, in a row, before the process is stopped.
const IN_VAIN_MAX: usize = 2;
/// The most bytes to send, with those still dirty, as a multiple of the memory. A process that
/// writes a little slower than the link carries would otherwise take many rounds, which load the
/// link for others.
const SENT_MAX: f64 = 3.0;
/// Even if the rest fits the bound, another round follows if the last one reduced the rest to this
/// share or less,
const MUCH_LESS: f64 = 0.5;
/// and if sending the rest takes longer than this, microseconds.
const UNNOTICED_US: f64 = 500.0;
/// The time of a round with fewer bytes says more about the machine than about the link.
const TELLING_BYTES: u64 = 1 << 20;

/// The next step after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send the dirty pages while the process runs.
    Round,
    /// Stop the process: the rest fits the bound, and another round would shorten the freeze
    /// little.
    Freeze,
    /// Stop the process, although the freeze exceeds the bound: the process writes as fast as the
    /// link carries.
    Outrun,
}

/// The state of a pre-copy.
#[derive(Clone, Debug)]
pub struct Rounds {
    max_freeze_us: u64,
    own_bytes: u64,
    costs: Costs,
    sent_bytes: u64,
    left: Option<u64>,
    rounds: usize,
    in_vain: usize,
}

impl Rounds {
    /// Starts a pre-copy of a process with `own_bytes` of private memory that may be frozen for
    /// `max_freeze_us`.
    pub fn new(own_bytes: u64, max_freeze_us: u64, costs: Costs) -> Rounds {
        Rounds { max_freeze_us, own_bytes, costs, sent_bytes: 0, left: None, rounds: 0, in_vain: 0 }
    }

    /// Takes the measurement of a round: bytes sent, and the time, microseconds.
    pub fn sent(&mut self, bytes: u64, took_us: u64) {
        // Pages that the destination already has are not sent, so such a round says nothing about
        // the link.
        let is_most = bytes >= self.own_bytes / 2;
        if bytes >= TELLING_BYTES || (self.rounds == 0 && is_most) {
            self.costs = self.costs.with_rate(bytes.max(1) as f64 / took_us.max(1) as f64);
        }
        self.rounds += 1;
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
    }

    /// Gives the most bytes that may be left at the stop. With more, sending them would exceed the
    /// bound on the freeze time.
    pub fn rest_bytes_max(&self) -> u64 {
        self.costs.stop_bytes_max(self.max_freeze_us)
    }

    /// Decides the next step, given the bytes that are dirty now.
    pub fn next(&mut self, left_bytes: u64) -> Next {
        let before = self.left.replace(left_bytes);
        if self.costs.fits(left_bytes, self.own_bytes, self.max_freeze_us) {
            let gets_less = left_bytes as f64 <= before.unwrap_or(self.own_bytes) as f64 * MUCH_LESS;
            let noticed = self.costs.sending_us(left_bytes) > UNNOTICED_US;
            return if gets_less && noticed && self.rounds < ROUNDS_MAX { Next::Round } else { Next::Freeze };
        }
        let in_vain = before.is_some_and(|before| left_bytes as f64 > before as f64 * LESS);
        self.in_vain = if in_vain { self.in_vain + 1 } else { 0 };
        let much = self.sent_bytes.saturating_add(left_bytes) as f64 >= self.own_bytes as f64 * SENT_MAX;
        if much || self.in_vain >= IN_VAIN_MAX || self.rounds >= ROUNDS_MAX { Next::Outrun } else { Next::Round }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Simulates a process that writes `written` bytes each microsecond, never the same page twice.
    /// Gives the rounds until the stop, the last step, and the bytes left.
    fn simulate(own: u64, written: f64, link: f64, max_freeze_us: u64) -> (usize, Next, u64) {
        let mut rounds = Rounds::new(own, max_freeze_us, Costs::default());
        let mut left = own;
        for round in 1.. {
            let took = left as f64 / link;
            rounds.sent(left, took as u64);
            left = ((took * written) as u64).min(own);
            match rounds.next(left) {
                Next::Round => {}
                end => return (round, end, left),
            }
        }
        unreachable!()
    }

    #[test]
    fn idle_processes_need_one_round() {
        assert_eq!(simulate(1024 * MIB, 0.0, 500.0, 100_000), (1, Next::Freeze, 0));
    }

    #[test]
    fn rounds_get_shorter_until_the_rest_fits() {
        let (rounds, end, left) = simulate(1024 * MIB, 50.0, 500.0, 20_000);
        assert_eq!(end, Next::Freeze);
        assert!((2..6).contains(&rounds) && left < 5 * MIB, "{rounds} rounds, {left} bytes");
    }

    /// A rest that fits the bound may still be noticed, so it is reduced as long as that is cheap.
    #[test]
    fn another_round_makes_the_stop_shorter() {
        let (rounds, end, left) = simulate(1024 * MIB, 50.0, 500.0, 200_000);
        assert_eq!((rounds, end), (4, Next::Freeze));
        assert!(left < 200 << 10, "{left} bytes");
        // A round that does not even halve the rest is in vain.
        let (rounds, end, _) = simulate(64 * MIB, 300.0, 500.0, 200_000);
        assert_eq!((rounds, end), (1, Next::Freeze));
    }

    /// Has failed once: a round of pages that the destination mostly had looked like a link that
    /// carries nothing.
    #[test]
    fn known_pages_tell_nothing_about_the_link() {
        let mut rounds = Rounds::new(64 * MIB, 20_000, Costs::default());
        rounds.sent(40 << 10, 50_000);
        assert_eq!(rounds.next(30 << 10), Next::Freeze);
        let mut small = Rounds::new(400 << 10, 20_000, Costs::default());
        small.sent(400 << 10, 50_000);
        assert_eq!(small.next(400 << 10), Next::Round, "this one has told that it is slow");
    }

    #[test]
    fn fast_writers_are_not_followed_for_ever() {
        let (rounds, end, _) = simulate(1024 * MIB, 1000.0, 500.0, 20_000);
        assert_eq!((rounds, end), (2, Next::Outrun));
    }

    /// Each round leaves a little less, so that the rest would fit the bound only after many
    /// rounds.
    #[test]
    fn nearly_as_fast_writers_cost_three_times_their_memory() {
        let (rounds, end, left) = simulate(64 * MIB, 11.0, 12.5, 50_000);
        assert_eq!((rounds, end), (3, Next::Outrun));
        assert!(left < 50 * MIB, "{left} bytes");
        let (rounds, end, _) = simulate(64 * MIB, 7.0, 12.5, 50_000);
        assert!(rounds > 4 && end == Next::Freeze, "{rounds} rounds: a slower one is followed to its end");
    }
}
