//! `tern netmon --all`: a node samples its queues for another one.

use serde::{Deserialize, Serialize};

/// The most bytes of a recording in one answer.
pub const PART_BYTES: usize = 256 << 10;
/// The most names of one kind in an order.
pub const NAMES_MAX: usize = 16;
/// The most bytes of each name in an order.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest time, milliseconds: a year.
pub const TIME_MS_MAX: u64 = 366 * 86_400_000;

/// Orders to a node's sampler. Each is answered by [`Sampled`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sampling {
    /// Begin to sample.
    Begin(SamplingOrder),
    /// Give what was recorded since the last time.
    Read {
        /// Number of the sampler.
        id: u64,
    },
    /// End the sampler. Its recording can still be read.
    End {
        /// Number of the sampler.
        id: u64,
    },
}

/// An order to sample: the subjects, and the time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingOrder {
    /// Period of the fast sampler, microseconds.
    pub period_us: u64,
    /// Time of sampling, milliseconds, at most [`TIME_MS_MAX`].
    pub time_ms: u64,
    /// Names of layers.
    pub layers: Vec<String>,
    /// Names of interfaces.
    pub interfaces: Vec<String>,
    /// Numbers or names of processes; all, if there are none.
    pub processes: Vec<String>,
    /// Numbers or names of processes that are meant with all their descendants.
    pub jobs: Vec<String>,
}

impl SamplingOrder {
    /// Tells whether the order is within its bounds: another machine may have made it.
    pub fn is_sound(&self) -> bool {
        let lists = [&self.layers, &self.interfaces, &self.processes, &self.jobs];
        let is_name = |name: &String| {
            !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(|c| c.is_control() || c == ',')
        };
        (1..=TIME_MS_MAX).contains(&self.time_ms)
            && self.period_us > 0
            && lists.iter().all(|list| list.len() <= NAMES_MAX && list.iter().all(is_name))
    }
}

/// A part of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Number of the sampler.
    pub id: u64,
    /// The next bytes of the recording, at most [`PART_BYTES`].
    pub bytes: Vec<u8>,
    /// No more bytes follow.
    pub is_over: bool,
    /// By how much the node's clock is ahead, microseconds; only known when sampling begins.
    pub skew_us: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_have_bounds() {
        let sound = SamplingOrder { period_us: 100, time_ms: 1000, ..SamplingOrder::default() };
        assert!(sound.is_sound());
        for name in ["", "a,b", "a\n", &"x".repeat(65)] {
            assert!(!SamplingOrder { layers: vec![name.to_owned()], ..sound.clone() }.is_sound(), "{name}");
        }
        assert!(!SamplingOrder { processes: vec!["a".to_owned(); 17], ..sound.clone() }.is_sound());
        assert!(!SamplingOrder { time_ms: u64::MAX, ..sound }.is_sound());
    }
}
