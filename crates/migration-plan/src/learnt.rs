//! Learning from moves: what earlier moves took, by destination and strategy, estimates the next
//! one.

use crate::costs::{Costs, FIXED_US, RATE_AT_FIRST};
use crate::own::{Own, Whose};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Time for each memory area, thread but the first, and descriptor, beside [`FIXED_US`],
/// microseconds (`tern bench move`: a process of 64 threads takes eight times as long as one of one
/// thread, a process of 1000 descriptors three times; 4000 more areas double the time of a Python
/// program).
const AREA_US: f64 = 1.7;
const THREAD_US: f64 = 165.0;
const DESCRIPTOR_US: f64 = 3.5;
/// The share (as a power) of the last deviation that counts for the next estimate. Of the first few
/// moves the mean counts.
const GAIN: f64 = 0.25;
/// The greatest deviation that a single move counts for. A pause of a machine must not look like a
/// slow link.
const ODD: f64 = 4.0;
/// Bounds of a link's rate, bytes per microsecond.
const RATES: std::ops::RangeInclusive<f64> = 1e-3..=1e5;
/// Bounds of a machine's slowness against the machine on which times were measured.
const SLOWNESS: std::ops::RangeInclusive<f64> = 0.05..=50.0;
/// The most destinations and strategies that are told apart.
const WAYS_MAX: usize = 1024;

/// The parts of a process that take time in a move, apart from its memory. An unknown number is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Number of memory areas.
    pub areas: u32,
    /// Number of threads.
    pub threads: u32,
    /// Number of file descriptors.
    pub descriptors: u32,
}

impl Parts {
    /// Gives the time for these parts on the machine where times were measured, microseconds.
    fn work_us(&self) -> f64 {
        let threads = f64::from(self.threads.saturating_sub(1));
        FIXED_US + f64::from(self.areas) * AREA_US + threads * THREAD_US + f64::from(self.descriptors) * DESCRIPTOR_US
    }
}

/// The measurements of moves of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Learnt {
    /// Slowness against the machine on which times were measured.
    slowness: f64,
    /// Rate of the link, bytes per microsecond.
    rate: f64,
    moves: u32,
}

impl Default for Learnt {
    fn default() -> Learnt {
        Learnt { slowness: 1.0, rate: RATE_AT_FIRST, moves: 0 }
    }
}

impl Learnt {
    /// Takes a measurement. The fixed work and the link share the blame for the deviation by their
    /// parts of the time (a step of Kaczmarz's method, on logarithms), so that the corrected
    /// estimate would have fitted this move.
    fn moved(&mut self, Measured { parts, frozen_bytes, freeze_us }: Measured) {
        let (working, sending) = (self.slowness * parts.work_us(), frozen_bytes as f64 / self.rate);
        let expected = working + sending;
        let odds = (freeze_us as f64 / expected).clamp(1.0 / ODD, ODD);
        let gain = (1.0 / (f64::from(self.moves) + 1.5)).max(GAIN);
        let norm = (working * working + sending * sending) / expected;
        let times = |share: f64| odds.powf(gain * share / norm);
        self.slowness = (self.slowness * times(working)).clamp(*SLOWNESS.start(), *SLOWNESS.end());
        self.rate = (self.rate / times(sending)).clamp(*RATES.start(), *RATES.end());
        self.moves = self.moves.saturating_add(1);
    }

    fn costs(&self, parts: Parts) -> Costs {
        Costs::new(self.slowness * parts.work_us(), self.rate)
    }
}

/// The destination of a move, and the first word of its description ([`crate::Way`] or post-copy).
type Kind = (String, String);

/// Where and how a process moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// Name of the destination.
    pub to: &'a str,
    /// Description of the strategy; its first word counts.
    pub how: &'a str,
}

impl Route<'_> {
    fn kind(self) -> Kind {
        (self.to.to_owned(), self.how.split(' ').next().unwrap_or_default().to_owned())
    }
}

/// The costs of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The parts of the process.
    pub parts: Parts,
    /// Bytes sent during the stop.
    pub frozen_bytes: u64,
    /// The freeze time, microseconds.
    pub freeze_us: u64,
}

/// All measurements of moves on this node.
#[derive(Clone, Debug, Default)]
pub struct Experience {
    all: Learnt,
    kinds: BTreeMap<Kind, Learnt>,
    own: Own<Kind>,
}

impl Experience {
    /// Takes the measurement of a move.
    pub fn moved(&mut self, route: Route<'_>, measured: Measured) {
        let learnt = self.of(route);
        if self.kinds.len() < WAYS_MAX || self.kinds.contains_key(&route.kind()) {
            self.kinds.entry(route.kind()).or_insert(learnt).moved(measured);
        }
        self.all.moved(measured);
    }

    /// Takes the measurement of a move of this process.
    pub fn moved_of(&mut self, whose: Whose, route: Route<'_>, measured: Measured) {
        self.moved(route, measured);
        let expected_us = self.costs(route, measured.parts).freeze_us(measured.frozen_bytes, 0).max(1);
        self.own.moved(whose, route.kind(), measured.freeze_us as f64 / expected_us as f64);
    }

    /// Estimates the freeze time of this process, microseconds, if `bytes` are sent during the
    /// stop.
    pub fn freeze_us(&self, whose: Whose, route: Route<'_>, parts: Parts, bytes: u64) -> u64 {
        (self.costs(route, parts).freeze_us(bytes, 0) as f64 * self.own.odds(whose, &route.kind())) as u64
    }

    /// Gives the estimated costs of moving a process with these parts.
    pub fn costs(&self, route: Route<'_>, parts: Parts) -> Costs {
        self.of(route).costs(parts)
    }

    /// Lists the destinations of all measured moves.
    pub fn places(&self) -> Vec<&str> {
        let mut places: Vec<&str> = self.kinds.keys().map(|(to, _)| to.as_str()).collect();
        places.dedup();
        places
    }

    /// Finds the measurements of this kind; else those of another strategy with the same
    /// destination, else those of all moves.
    fn of(&self, route: Route<'_>) -> Learnt {
        let there = || self.kinds.iter().find(|((to, _), _)| to == route.to).map(|(_, learnt)| learnt);
        let first = |learnt: &Learnt| Learnt { moves: 0, ..*learnt };
        self.kinds.get(&route.kind()).copied().unwrap_or_else(|| first(there().unwrap_or(&self.all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SMALL: Parts = Parts { areas: 20, threads: 1, descriptors: 3 };

    fn route<'a>(to: &'a str, how: &'a str) -> Route<'a> {
        Route { to, how }
    }

    /// Notes a move: bytes sent during the stop, and the freeze time.
    fn moved(experience: &mut Experience, route: Route<'_>, parts: Parts, frozen_bytes: u64, freeze_us: u64) {
        experience.moved(route, Measured { parts, frozen_bytes, freeze_us });
    }

    fn said_us(experience: &Experience, to: &str, parts: Parts, bytes: u64) -> f64 {
        experience.costs(route(to, "stop"), parts).freeze_us(bytes, 0) as f64
    }

    /// The moves take 5 ms and more for each thread and send 150 bytes per microsecond, in sizes
    /// that vary widely.
    #[test]
    fn costs_of_moves_are_learnt() {
        let mut experience = Experience::default();
        let takes = |parts: Parts, bytes: u64| (3.0 * parts.work_us()) as u64 + bytes / 150;
        for n in 0..60u64 {
            let bytes = [8 * MIB, 100 << 10, MIB, 64 * MIB, 4096][n as usize % 5];
            let parts = Parts { threads: [1, 1, 20][n as usize % 3], ..SMALL };
            moved(&mut experience, route("n2", "stop"), parts, bytes, takes(parts, bytes));
        }
        for (bytes, threads) in [(0, 1), (MIB, 40), (20 * MIB, 1), (0, 64)] {
            let parts = Parts { threads, ..SMALL };
            let ratio = said_us(&experience, "n2", parts, bytes) / takes(parts, bytes) as f64;
            assert!((0.9..1.1).contains(&ratio), "{bytes}, {threads}: {ratio}");
        }
    }

    #[test]
    fn each_place_and_way_is_learnt_alone() {
        let mut experience = Experience::default();
        for _ in 0..20 {
            moved(&mut experience, route("n2", "stop"), SMALL, 16 * MIB, 40_000);
            moved(&mut experience, route("n3", "stop"), SMALL, 16 * MIB, 1_300_000);
            moved(&mut experience, route("n3", "pre (2 rounds)"), SMALL, 4096, 9000);
        }
        for (place, wanted) in [("n2", 40_000.0), ("n3", 1_300_000.0)] {
            let ratio = said_us(&experience, place, SMALL, 16 * MIB) / wanted;
            assert!((0.9..1.1).contains(&ratio), "{place}: {ratio}");
        }
        let pre = experience.costs(route("n3", "pre"), SMALL).freeze_us(4096, 0);
        assert!((8000..10_000).contains(&pre), "{pre}");
        assert_eq!(experience.places(), ["n2", "n3"]);
    }

    #[test]
    fn deviations_of_one_process_count_for_it_alone() {
        let mut experience = Experience::default();
        let (slow, other) = ((7, 1), (8, 1));
        for n in 0..20 {
            let (whose, us) = if n % 4 == 0 { (slow, 9000) } else { (other, 3000) };
            experience.moved_of(
                whose,
                route("n2", "stop"),
                Measured { parts: SMALL, frozen_bytes: MIB, freeze_us: us },
            );
        }
        let said = |whose| experience.freeze_us(whose, route("n2", "stop"), SMALL, MIB) as f64;
        assert!((0.75..1.3).contains(&(said(slow) / 9000.0)), "{}", said(slow));
        assert!((0.75..1.3).contains(&(said(other) / 3000.0)), "{}", said(other));
        assert_eq!(said((9, 1)) as u64, experience.costs(route("n2", "stop"), SMALL).freeze_us(MIB, 0));
    }

    #[test]
    fn a_pause_is_no_slow_link() {
        let mut experience = Experience::default();
        (0..5).for_each(|_| moved(&mut experience, route("n2", "stop"), SMALL, MIB, 4200));
        let before = said_us(&experience, "n2", SMALL, 20 * MIB);
        moved(&mut experience, route("n2", "stop"), SMALL, MIB, 5_000_000);
        assert!(said_us(&experience, "n2", SMALL, 20 * MIB) < 2.0 * before);
        (0..100).for_each(|_| moved(&mut experience, route("n2", "stop"), SMALL, MIB, 5_000_000));
        assert_eq!(experience.costs(route("n2", "stop"), SMALL).stop_bytes_max(100_000), MIB / 8);
    }

    #[test]
    fn odd_moves_do_not_make_much_difference() {
        let mut experience = Experience::default();
        (0..20).for_each(|_| moved(&mut experience, route("n2", "stop"), SMALL, 20 * MIB, 50_000));
        moved(&mut experience, route("n2", "stop"), SMALL, 4096, 10_000_000);
        moved(&mut experience, route("n2", "stop"), SMALL, 64 * MIB, 0);
        let said = said_us(&experience, "n2", SMALL, 20 * MIB);
        assert!((25_000.0..90_000.0).contains(&said), "{said}");
    }

    #[test]
    fn nonsense_stays_finite() {
        let mut experience = Experience::default();
        let most = Parts { areas: u32::MAX, threads: u32::MAX, descriptors: u32::MAX };
        for (parts, bytes, us) in [(most, u64::MAX, 0), (Parts::default(), 0, u64::MAX), (most, 0, u64::MAX)] {
            (0..200).for_each(|n| moved(&mut experience, route(&format!("n{}", n % 7), ""), parts, bytes, us));
        }
        (0..3000).for_each(|n| moved(&mut experience, route(&format!("x{n}"), "stop"), SMALL, MIB, 5000));
        assert_eq!(experience.kinds.len(), WAYS_MAX);
        assert!(said_us(&experience, "n2", SMALL, MIB) > 0.0);
    }
}
