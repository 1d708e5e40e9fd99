//! Nodes' loads as this home knows them: readings are seconds old, but where its own processes are
//! it knows.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// A reading shows processes that left so long before it, for loads are told high, ...
const SHOWS_BEFORE: Duration = Duration::from_secs(3);
/// ... and may show some that were noticed here so long after it.
const SHOWS_AFTER: Duration = Duration::from_secs(1);
/// Readings older than this are not believed anyway.
const KEPT: Duration = Duration::from_secs(20);

/// Demand by node, thousandths of a core.
pub(super) type Demands = HashMap<u64, u32>;

/// What this home's processes have wanted where. Times are the policy's, of a cluster at a pace
/// shorter by it.
pub(super) struct ForeignLoad {
    pace: u32,
    past: VecDeque<(Instant, Demands)>,
}

impl ForeignLoad {
    pub fn new(pace: u32) -> ForeignLoad {
        ForeignLoad { pace: pace.max(1), past: VecDeque::new() }
    }

    /// As it is now.
    pub fn note(&mut self, now: Instant, demands: Demands) {
        let kept = KEPT / self.pace;
        while self.past.front().is_some_and(|(at, _)| now.duration_since(*at) > kept) {
            self.past.pop_front();
        }
        self.past.push_back((now, demands));
    }

    /// What others want there, by a reading made at `read`: no process of this home is taken for
    /// another's.
    pub fn of_others_milli(&self, node: u64, told_milli: u32, read: Instant) -> u32 {
        let (before, after) = (SHOWS_BEFORE / self.pace, SHOWS_AFTER / self.pace);
        // What was noted last before that time still held then.
        let ends = self.past.iter().skip(1).map(|(at, _)| Some(*at)).chain([None]);
        let shown = self
            .past
            .iter()
            .zip(ends)
            .filter(|((at, _), end)| *at <= read + after && end.is_none_or(|end| end + before >= read));
        let most = shown.filter_map(|((_, demands), _)| demands.get(&node).copied()).max().unwrap_or(0);
        told_milli.saturating_sub(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_processes_are_not_taken_for_others() {
        let begin = Instant::now();
        let at = |s: f64| begin + Duration::from_secs_f64(s / 20.0);
        let mut load = ForeignLoad::new(20);
        load.note(at(0.0), HashMap::from([(2, 1000)]));
        load.note(at(5.0), HashMap::from([(3, 1000)]));
        // It left 2 at 5 s: told high, its load shows for a while.
        assert_eq!(load.of_others_milli(2, 1000, at(4.0)), 0);
        assert_eq!(load.of_others_milli(2, 600, at(7.0)), 0);
        assert_eq!(load.of_others_milli(2, 600, at(9.0)), 600);
        // It came to 3 then, seen there by a reading made a moment before.
        assert_eq!(load.of_others_milli(3, 2000, at(4.5)), 1000);
        assert_eq!(load.of_others_milli(3, 2000, at(3.0)), 2000);
        load.note(at(100.0), HashMap::new());
        assert_eq!(load.past.len(), 1);
    }
}
