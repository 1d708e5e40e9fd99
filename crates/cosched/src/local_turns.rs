//! The turns of local work beside tasks that come first (PRIO, PRIOSPIN, EXPLICIT).
//!
//! Of each period, tasks come first in one part. In the rest they compete as others do, or stand
//! still by EXPLICIT. The parts are at the same moments of the agreed clock on all nodes, so that
//! the tasks of a job come first together.

use crate::job_mode::JobMode;
use crate::windows::{Phase, Windows};

/// The parts of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTurns {
    period_us: u64,
    /// Time from the beginning of each period in which tasks come first.
    first_us: u64,
    windows: Option<Windows>,
}

/// The turn of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTurn {
    /// Tasks come first.
    pub tasks_first: bool,
    /// Moment at which that changes, microseconds of the agreed clock.
    pub until_us: u64,
}

impl LocalTurns {
    /// The period where there are no windows, microseconds.
    pub const PERIOD_US: u64 = 100_000;

    /// Gives the turns of a mode; `None`: tasks come first whenever they run, or never. The time in
    /// which EXPLICIT has tasks stand still belongs to local work.
    pub fn of(mode: &JobMode) -> Option<LocalTurns> {
        let share = u64::from(mode.local_share.min(999));
        if share == 0 || !mode.name.comes_first() {
            return None;
        }
        let (period_us, run_us) =
            mode.windows.map_or((Self::PERIOD_US, Self::PERIOD_US), |windows| (windows.period_us(), windows.run_us()));
        let first_us = period_us - period_us * share / 1000;
        (first_us < run_us).then_some(LocalTurns { period_us, first_us, windows: mode.windows })
    }

    /// Finds the turn at a moment of the agreed clock, microseconds.
    pub fn at(&self, agreed_us: u64) -> LocalTurn {
        let begun_us = match self.windows.map(|windows| (windows.at(agreed_us), windows)) {
            None => agreed_us - agreed_us % self.period_us,
            Some((window, windows)) if window.phase == Phase::Run => window.until_us.saturating_sub(windows.run_us()),
            // Tasks that stand still do not come first either.
            Some((window, _)) => return LocalTurn { tasks_first: false, until_us: window.until_us },
        };
        let ends_us = begun_us.saturating_add(self.first_us);
        if agreed_us < ends_us {
            return LocalTurn { tasks_first: true, until_us: ends_us };
        }
        LocalTurn { tasks_first: false, until_us: begun_us.saturating_add(self.period_us) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_mode::ModeName;

    fn turns(name: ModeName, local_share: u32) -> Option<LocalTurns> {
        LocalTurns::of(&JobMode { local_share, ..JobMode::from(name) })
    }

    /// The thousandths of the time in which tasks come first.
    fn first(turns: LocalTurns) -> u64 {
        (7_000_000..8_000_000).step_by(100).filter(|us| turns.at(*us).tasks_first).count() as u64 / 10
    }

    #[test]
    fn local_work_has_its_share() {
        for share in [10, 300, 999] {
            assert_eq!(first(turns(ModeName::Prio, share).unwrap()), u64::from(1000 - share));
        }
        // Ten of a hundred milliseconds are its already.
        assert_eq!(first(turns(ModeName::Explicit, 300).unwrap()), 700);
        assert_eq!(turns(ModeName::Explicit, 100), None);
        for name in [ModeName::None, ModeName::Spin, ModeName::Sdca] {
            assert_eq!(turns(name, 300), None);
        }
        assert_eq!(turns(ModeName::PrioSpin, 0), None);
    }

    #[test]
    fn each_turn_ends_when_it_says() {
        for turns in [turns(ModeName::Prio, 300).unwrap(), turns(ModeName::Explicit, 450).unwrap()] {
            let mut at_us = 1 << 50;
            for _ in 0..100 {
                let turn = turns.at(at_us);
                assert!(turn.until_us > at_us && turns.at(turn.until_us - 1).tasks_first == turn.tasks_first);
                at_us = turn.until_us;
            }
            assert!(turns.at(u64::MAX).until_us == u64::MAX || !turns.at(u64::MAX).tasks_first);
        }
    }
}
