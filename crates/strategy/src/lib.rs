//! How the memory of a process travels: sizes and rates in, decision out.
//!
//! - **stop-and-copy**: it stands still while all of its memory is sent;
//! - **pre-copy** (Theimer's, of the V system): its memory is sent while it runs, then again what it has written meanwhile, until what is left can be sent while it
//!   stands still for no longer than it may; or until that gets no less, or too much was sent, because it writes about as fast as the link carries. Of a small
//!   process a copy is kept, and what differs from it at the stop is sent again: nobody need watch it, and one round is enough;
//! - **post-copy** (Zayas', of Accent): it goes on there at once; its pages follow, first those that it misses.
#![forbid(unsafe_code)]

mod absent;
mod costs;
mod flow;
mod learnt;
mod own;
pub mod protocol;
mod push;
mod ranges;

pub use absent::{Absent, Place};
pub use costs::{COPIED_BYTES_MAX, Costs};
pub use flow::{BUFFER_BYTES, Flow, Pace, RATE_LEAST, UNSENT_BYTES};
pub use learnt::{Experience, Parts};
pub use own::Whose;
pub use push::Push;
pub use ranges::{Range, Ranges};

/// How memory travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Stop-and-copy.
    Stop,
    /// Pre-copy of a small process: it is compared at the stop with what was sent.
    Copy,
    /// Pre-copy: the kernel tells what is written meanwhile.
    Pre,
}

/// Rounds, at most.
const ROUNDS_MAX: usize = 30;
/// A round that leaves more than this part of what the one before left has come no nearer to the end.
const LESS: f64 = 0.85;
/// So many such rounds in a row, and the rest is sent at a stop.
const IN_VAIN_MAX: usize = 2;
/// What would be sent in all, with what is left, is less than this many times its memory: who writes a little slower than the link carries would be followed for
/// many rounds, which others on the link pay for.
const SENT_MAX: f64 = 3.0;
/// What fits the bound is sent while it runs if the round before left no more than this part of what was to be sent,
const MUCH_LESS: f64 = 0.5;
/// and if it would stand still for longer than this while it is sent, microseconds.
const UNNOTICED_US: f64 = 500.0;
/// Below that a round's time says more of the machine than of the link, bytes.
const TELLING_BYTES: u64 = 1 << 20;

/// What is to be done after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send what it has written, while it runs.
    Round,
    /// Stop it: the rest fits the bound, and another round would spare it little.
    Freeze,
    /// Stop it, though it will stand still for longer: it writes as fast as the link carries.
    Outrun,
}

/// A pre-copy under way.
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
    /// Of a process with so much memory of its own, that may stand still for so long.
    pub fn new(own_bytes: u64, max_freeze_us: u64, costs: Costs) -> Rounds {
        Rounds { max_freeze_us, own_bytes, costs, sent_bytes: 0, left: None, rounds: 0, in_vain: 0 }
    }

    /// So much was sent in this time.
    pub fn sent(&mut self, bytes: u64, took_us: u64) {
        // Of what is there already, nothing is sent.
        let is_most = bytes >= self.own_bytes / 2;
        if bytes >= TELLING_BYTES || (self.rounds == 0 && is_most) {
            self.costs = self.costs.with_rate(bytes.max(1) as f64 / took_us.max(1) as f64);
        }
        self.rounds += 1;
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
    }

    /// If more is left when it stands still, it would do so for too long until that is sent, bytes.
    pub fn rest_bytes_max(&self) -> u64 {
        self.costs.stop_bytes_max(self.max_freeze_us)
    }

    /// So much must be sent again. What now?
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

    /// Rounds until the stop, and what is left then, of a process that writes so many bytes each microsecond, never the same page twice.
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
    fn who_writes_nothing_needs_one_round() {
        assert_eq!(simulate(1024 * MIB, 0.0, 500.0, 100_000), (1, Next::Freeze, 0));
    }

    #[test]
    fn rounds_get_shorter_until_the_rest_fits() {
        let (rounds, end, left) = simulate(1024 * MIB, 50.0, 500.0, 20_000);
        assert_eq!(end, Next::Freeze);
        assert!((2..6).contains(&rounds) && left < 5 * MIB, "{rounds} rounds, {left} bytes");
    }

    /// What fits the bound can still be felt: it gets less as long as that is cheap.
    #[test]
    fn another_round_makes_the_stop_shorter() {
        let (rounds, end, left) = simulate(1024 * MIB, 50.0, 500.0, 200_000);
        assert_eq!((rounds, end), (4, Next::Freeze));
        assert!(left < 200 << 10, "{left} bytes");
        // A round that halves nothing is in vain.
        let (rounds, end, _) = simulate(64 * MIB, 300.0, 500.0, 200_000);
        assert_eq!((rounds, end), (1, Next::Freeze));
    }

    /// Failed once: a round of which nearly all was there already seemed to be one over a link that carries nothing.
    #[test]
    fn what_need_not_be_sent_says_nothing_of_the_link() {
        let mut rounds = Rounds::new(64 * MIB, 20_000, Costs::default());
        rounds.sent(40 << 10, 50_000);
        assert_eq!(rounds.next(30 << 10), Next::Freeze);
        let mut small = Rounds::new(400 << 10, 20_000, Costs::default());
        small.sent(400 << 10, 50_000);
        assert_eq!(small.next(400 << 10), Next::Round, "this one has told that it is slow");
    }

    #[test]
    fn who_writes_faster_than_the_link_is_not_followed_for_ever() {
        let (rounds, end, _) = simulate(1024 * MIB, 1000.0, 500.0, 20_000);
        assert_eq!((rounds, end), (2, Next::Outrun));
    }

    /// Each round leaves a little less, and what fits the bound is many rounds away.
    #[test]
    fn who_writes_nearly_as_fast_as_the_link_costs_three_times_its_memory() {
        let (rounds, end, left) = simulate(64 * MIB, 11.0, 12.5, 50_000);
        assert_eq!((rounds, end), (3, Next::Outrun));
        assert!(left < 50 * MIB, "{left} bytes");
        let (rounds, end, _) = simulate(64 * MIB, 7.0, 12.5, 50_000);
        assert!(rounds > 4 && end == Next::Freeze, "{rounds} rounds: a slower one is followed to its end");
    }
}
