//! Deviations of single processes: how much longer or shorter a process' own moves took than the
//! estimate for any process like it.

use std::collections::VecDeque;

/// The most processes and kinds of moves that are remembered.
const KNOWN_MAX: usize = 512;
/// The share (as a power) of the last deviation in the estimate of the next move.
const GAIN: f64 = 0.5;
/// The greatest deviation that one move counts for, and the inverse of the least.
const ODDS_MAX: f64 = 4.0;

/// A process' id and start time. (Ids are used again.)
pub type Whose = (i32, u64);

/// The deviations, the latest process last, by process and kind of move: measured time over
/// expected time.
#[derive(Clone, Debug)]
pub(crate) struct Own<K> {
    known: VecDeque<((Whose, K), f64)>,
}

impl<K> Default for Own<K> {
    fn default() -> Own<K> {
        Own { known: VecDeque::new() }
    }
}

impl<K: PartialEq> Own<K> {
    /// Takes a measurement: measured time over expected time.
    pub fn moved(&mut self, whose: Whose, kind: K, odds: f64) {
        let odds = if odds.is_finite() { odds.clamp(1.0 / ODDS_MAX, ODDS_MAX) } else { 1.0 };
        let key = (whose, kind);
        let before = self.known.iter().position(|(known, _)| *known == key).and_then(|at| self.known.remove(at));
        let odds = before.map_or(odds, |(_, before)| before.powf(1.0 - GAIN) * odds.powf(GAIN));
        self.known.push_back((key, odds));
        if self.known.len() > KNOWN_MAX {
            self.known.pop_front();
        }
    }

    /// Gives the factor on the estimate of the process' next move.
    pub fn odds(&self, whose: Whose, kind: &K) -> f64 {
        self.known.iter().find(|((who, its), _)| (*who, its) == (whose, kind)).map_or(1.0, |(_, odds)| *odds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_and_the_latest_are_kept() {
        let mut own = Own::default();
        own.moved((7, 1), "stop", 2.0);
        assert_eq!(
            [((7, 1), "stop"), ((7, 2), "stop"), ((7, 1), "pre")].map(|(w, k)| own.odds(w, &k)),
            [2.0, 1.0, 1.0]
        );
        own.moved((7, 1), "stop", 8.0);
        assert!((own.odds((7, 1), &"stop") - 8f64.sqrt()).abs() < 1e-9, "no more than four times");
        [f64::NAN, f64::INFINITY, 0.0].into_iter().for_each(|odds| own.moved((8, 1), "stop", odds));
        assert!((0.25..=4.0).contains(&own.odds((8, 1), &"stop")));
        (0..KNOWN_MAX as i32).for_each(|pid| own.moved((pid + 100, 1), "stop", 2.0));
        assert_eq!((own.known.len(), own.odds((7, 1), &"stop")), (KNOWN_MAX, 1.0));
    }
}
