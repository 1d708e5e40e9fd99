//! EXPLICIT: windows in which the tasks of a job run, at the same moments on all nodes.
//!
//! The controller says once when the first window begins, by its own clock. Each node knows how far
//! its clock is off, and computes all windows by itself: window `k` begins at `epoch + k * period`.
//! No message is needed for a window, so none can come late. A node that wakes late asks which
//! phase it is in, and misses nothing.

use serde::{Deserialize, Serialize};

/// Why windows were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// A part of the period is too short to switch in, or so long that tasks would seem to hang.
    #[error("a window runs and stops for {LEAST_US} to {MOST_US} us each, not for {0} us")]
    Length(u64),
}

/// The shortest part of a period, microseconds.
const LEAST_US: u64 = 1_000;
/// The longest part of a period, microseconds.
const MOST_US: u64 = 60_000_000;

/// The two states of a job's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The first window has not begun. Tasks run as they would without windows.
    Before,
    /// Tasks run, with high priority.
    Run,
    /// Tasks are stopped: the processor is for local work.
    Stop,
}

/// One phase of the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The state of the tasks in this window.
    pub phase: Phase,
    /// Number of the period, from 0; also 0 before the first.
    pub number: u64,
    /// Moment at which the phase ends, microseconds of the agreed clock.
    pub until_us: u64,
}

/// The windows of a job, on the controller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
#[serde(try_from = "UncheckedWindows")]
pub struct Windows {
    epoch_us: u64,
    run_us: u64,
    stop_us: u64,
}

/// Windows as they came from elsewhere.
#[derive(Deserialize)]
struct UncheckedWindows {
    epoch_us: u64,
    run_us: u64,
    stop_us: u64,
}

impl TryFrom<UncheckedWindows> for Windows {
    type Error = WindowError;

    fn try_from(from: UncheckedWindows) -> Result<Windows, WindowError> {
        Windows::from_epoch(from.epoch_us).with_lengths(from.run_us, from.stop_us)
    }
}

impl Windows {
    /// The time that tasks run in each period if nothing else is said, microseconds.
    pub const RUN_US: u64 = 90_000;
    /// The time that tasks are stopped in each period if nothing else is said, microseconds.
    pub const STOP_US: u64 = 10_000;

    /// Makes windows of the usual lengths, the first of which begins at this moment of the agreed
    /// clock, microseconds.
    pub fn from_epoch(epoch_us: u64) -> Windows {
        Windows { epoch_us, run_us: Self::RUN_US, stop_us: Self::STOP_US }
    }

    /// Changes the lengths of both parts, microseconds.
    ///
    /// # Errors
    /// A part is shorter than 1 ms or longer than 60 s.
    pub fn with_lengths(self, run_us: u64, stop_us: u64) -> Result<Windows, WindowError> {
        match [run_us, stop_us].into_iter().find(|length| !(LEAST_US..=MOST_US).contains(length)) {
            Some(length) => Err(WindowError::Length(length)),
            None => Ok(Windows { run_us, stop_us, ..self }),
        }
    }

    /// Gives the time that tasks run in each period, microseconds.
    pub fn run_us(&self) -> u64 {
        self.run_us
    }

    /// Gives the length of a period, microseconds.
    pub fn period_us(&self) -> u64 {
        self.run_us + self.stop_us
    }

    /// Finds the phase at a moment of the agreed clock.
    pub fn at(&self, agreed_us: u64) -> Window {
        let Some(since_us) = agreed_us.checked_sub(self.epoch_us) else {
            return Window { phase: Phase::Before, number: 0, until_us: self.epoch_us };
        };
        let (number, within_us) = (since_us / self.period_us(), since_us % self.period_us());
        let (phase, ends_us) =
            if within_us < self.run_us { (Phase::Run, self.run_us) } else { (Phase::Stop, self.period_us()) };
        Window { phase, number, until_us: agreed_us.saturating_add(ends_us - within_us) }
    }
}

/// How a node's clock differs from the agreed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeClock {
    /// The agreed clock minus the node's, microseconds.
    pub offset_us: i64,
}

impl NodeClock {
    /// Converts a reading of the node's clock to the agreed clock, microseconds.
    pub fn agreed_us(self, own_us: u64) -> u64 {
        own_us.saturating_add_signed(self.offset_us)
    }

    /// Converts a moment of the agreed clock to the node's clock, microseconds.
    pub fn own_us(self, agreed_us: u64) -> u64 {
        (i128::from(agreed_us) - i128::from(self.offset_us)).clamp(0, u64::MAX.into()) as u64
    }
}

#[cfg(test)]
mod tests {
    use gossip::Draw;

    use super::*;

    #[test]
    fn tasks_run_90_ms_and_are_stopped_10_ms() {
        let windows = Windows::from_epoch(1_000);
        let at = |us| windows.at(us);
        assert_eq!(at(0), Window { phase: Phase::Before, number: 0, until_us: 1_000 });
        assert_eq!(at(1_000), Window { phase: Phase::Run, number: 0, until_us: 91_000 });
        assert_eq!(at(90_999).phase, Phase::Run);
        assert_eq!(at(91_000), Window { phase: Phase::Stop, number: 0, until_us: 101_000 });
        assert_eq!(at(101_000), Window { phase: Phase::Run, number: 1, until_us: 191_000 });
    }

    #[test]
    fn all_nodes_agree_whatever_their_clocks_say() {
        let mut draw = Draw::new(5);
        for _ in 0..200 {
            let lengths = [(); 2].map(|()| LEAST_US + draw.bits() % 300_000);
            let epoch_us = 1 << 50;
            let windows = Windows::from_epoch(epoch_us).with_lengths(lengths[0], lengths[1]).unwrap();
            let nodes: Vec<NodeClock> =
                (0..8).map(|_| NodeClock { offset_us: (draw.bits() >> 15) as i64 - (1 << 48) }).collect();
            let mut agreed_us = epoch_us - 1000;
            for _ in 0..100 {
                let expected = windows.at(agreed_us);
                for node in &nodes {
                    let own_us = node.own_us(agreed_us);
                    assert_eq!(windows.at(node.agreed_us(own_us)), expected, "{node:?} at {agreed_us}");
                }
                // Each node sleeps until the end of the phase, and finds the next one.
                let next = windows.at(expected.until_us);
                assert!(next.phase != expected.phase && expected.until_us > agreed_us);
                assert_eq!(windows.at(expected.until_us - 1).phase, expected.phase);
                agreed_us = expected.until_us + draw.bits() % windows.period_us();
            }
        }
    }

    #[test]
    fn a_wrong_offset_shifts_windows_by_no_more_than_itself() {
        let windows = Windows::from_epoch(0);
        let (good, off) = (NodeClock::default(), NodeClock { offset_us: 150 });
        let differ = |us: &u64| windows.at(good.agreed_us(*us)).phase != windows.at(off.agreed_us(*us)).phase;
        assert_eq!((100_000..1_100_000).filter(differ).count(), 20 * 150);
    }

    #[test]
    fn absurd_windows_are_refused_and_absurd_times_end() {
        let usual = Windows::from_epoch(u64::MAX);
        for length in [0, 999, MOST_US + 1, u64::MAX] {
            assert_eq!(usual.with_lengths(length, 5_000), Err(WindowError::Length(length)));
            assert_eq!(usual.with_lengths(5_000, length), Err(WindowError::Length(length)));
        }
        assert_eq!(usual.at(0).phase, Phase::Before);
        assert_eq!(Windows::from_epoch(0).at(u64::MAX).until_us, u64::MAX);
        for offset_us in [i64::MIN, i64::MAX] {
            let node = NodeClock { offset_us };
            for us in [0, 1, u64::MAX] {
                let _ = Windows::from_epoch(5).at(node.agreed_us(us));
                let _ = node.own_us(us);
            }
        }
    }
}
