//! What processes used, as the kernel says it to those who wait for them (getrusage(2)).

use serde::{Deserialize, Serialize};

/// `struct rusage`: user time and system time (seconds, microseconds), the largest resident size,
/// and counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage([i64; WORDS]);

const WORDS: usize = 18;
const USER_AT: usize = 0;
const SYSTEM_AT: usize = 2;
const MAX_RSS_AT: usize = 4;
const COUNTS_AT: usize = 5;
const US_PER_S: i64 = 1_000_000;

impl Usage {
    /// Size of the structure.
    pub const BYTES: usize = 8 * WORDS;

    /// Reads the structure; `None` if the bytes are too few.
    pub fn read(bytes: &[u8]) -> Option<Usage> {
        let mut words = [0; WORDS];
        for (i, word) in words.iter_mut().enumerate() {
            *word = i64::from_le_bytes(bytes.get(8 * i..8 * i + 8)?.try_into().ok()?);
        }
        Some(Usage(words))
    }

    /// The structure as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// As the kernel adds a child's to its parent's: the largest size is that of the largest.
    pub fn add(&mut self, other: &Usage) {
        for at in [USER_AT, SYSTEM_AT] {
            let us = self.0[at + 1].saturating_add(other.0[at + 1]);
            let s = self.0[at].saturating_add(other.0[at]);
            (self.0[at], self.0[at + 1]) = (s.saturating_add(us / US_PER_S), us % US_PER_S);
        }
        self.0[MAX_RSS_AT] = self.0[MAX_RSS_AT].max(other.0[MAX_RSS_AT]);
        for (mine, theirs) in self.0.iter_mut().zip(other.0).skip(COUNTS_AT) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// User and system time, microseconds.
    pub fn times_us(&self) -> (u64, u64) {
        let us = |at: usize| (self.0[at].saturating_mul(US_PER_S).saturating_add(self.0[at + 1])).max(0) as u64;
        (us(USER_AT), us(SYSTEM_AT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usages_add() {
        let mut sum = Usage([1, 700_000, 0, 5, 100, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        sum.add(&Usage([0, 400_000, 0, 6, 90, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 3]));
        assert_eq!(sum, Usage([2, 100_000, 0, 11, 100, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 5]));
        assert_eq!(sum.times_us(), (2_100_000, 11));
        assert_eq!(Usage::read(&sum.bytes()), Some(sum));
        assert_eq!(Usage::read(&[0; Usage::BYTES - 1]), None);
    }
}
