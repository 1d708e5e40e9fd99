//! The times of the last switches.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// So many times are kept.
const KEPT: usize = 4096;

/// The last times of a kind, and how many there were.
#[derive(Clone, Debug, Default)]
pub struct Times {
    count: u64,
    last_us: VecDeque<u64>,
}

/// A summary of many times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of times since the beginning.
    pub count: u64,
    /// Median of the last ones, microseconds.
    pub median_us: u64,
    /// The time that one in a hundred of the last ones exceeded, microseconds.
    pub p99_us: u64,
    /// The longest of the last ones, microseconds.
    pub most_us: u64,
}

impl Times {
    /// Adds a time, microseconds.
    pub fn add(&mut self, us: u64) {
        self.count += 1;
        self.last_us.push_back(us);
        if self.last_us.len() > KEPT {
            self.last_us.pop_front();
        }
    }

    /// Sums up the last ones.
    pub fn summary(&self) -> Summary {
        let mut sorted: Vec<u64> = self.last_us.iter().copied().collect();
        sorted.sort_unstable();
        let at = |thousandths: usize| sorted.get(sorted.len() * thousandths / 1000).copied().unwrap_or_default();
        Summary {
            count: self.count,
            median_us: at(500),
            p99_us: at(990),
            most_us: sorted.last().copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_times_are_summed_up() {
        let mut times = Times::default();
        assert_eq!(times.summary(), Summary::default());
        (0..1000).rev().for_each(|us| times.add(us));
        assert_eq!(times.summary(), Summary { count: 1000, median_us: 500, p99_us: 990, most_us: 999 });
        (0..KEPT).for_each(|_| times.add(7));
        assert_eq!(times.summary().most_us, 7);
    }
}
