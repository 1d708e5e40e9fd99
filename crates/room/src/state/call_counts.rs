//! Counts a guest's calls that its filter hands over, by number and by the place that served them
//! (`tern trace -c`).

use os::seccomp::Answer;
use room_protocol::message::{CallCount, CallPlace};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The counts of one process, since it came to this room.
#[derive(Debug, Default)]
pub struct CallCounts(Mutex<BTreeMap<(u32, CallPlace), CallCount>>);

impl CallCounts {
    /// Counts one call that has taken so long.
    fn note(&self, nr: u32, place: CallPlace, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = CallCount { nr, place, calls: 0, total_ns: 0, longest_ns: 0 };
        let count = counts.entry((nr, place)).or_insert(empty);
        count.calls += 1;
        count.total_ns = count.total_ns.saturating_add(took_ns);
        count.longest_ns = count.longest_ns.max(took_ns);
    }

    /// Gives all counts.
    pub fn rows(&self) -> Vec<CallCount> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }
}

/// The counts of a process, and those of it with its descendants and other relatives.
#[derive(Clone, Debug, Default)]
pub struct FamilyCounts {
    /// Calls of the process alone.
    pub own: Arc<CallCounts>,
    /// Calls of all processes of this room that descend from the same one that came here, also of
    /// those that have ended.
    pub family: Arc<CallCounts>,
}

impl FamilyCounts {
    /// The counts of a new child.
    pub fn child(&self) -> FamilyCounts {
        FamilyCounts { own: Arc::default(), family: self.family.clone() }
    }

    fn note(&self, nr: u32, place: CallPlace, took: Duration) {
        self.own.note(nr, place, took);
        self.family.note(nr, place, took);
    }
}

/// A call that is under way, to be counted when it is answered.
#[derive(Debug)]
pub struct TimedCall {
    counts: FamilyCounts,
    nr: u32,
    began: Instant,
    asks_home: AtomicBool,
}

impl TimedCall {
    /// A call that begins now.
    pub fn begin(counts: FamilyCounts, nr: u32) -> TimedCall {
        TimedCall { counts, nr, began: Instant::now(), asks_home: AtomicBool::new(false) }
    }

    /// Notes that home is asked, and waited for.
    pub fn asks_home(&self) {
        self.asks_home.store(true, Ordering::Relaxed);
    }

    /// Counts the call, which ends with this answer.
    pub fn ends(&self, answer: &Answer) {
        let place = match answer {
            _ if self.asks_home.load(Ordering::Relaxed) => CallPlace::Home,
            Answer::Continue => CallPlace::Node,
            Answer::Value(_) => CallPlace::Room,
        };
        self.counts.note(self.nr, place, self.began.elapsed());
    }

    /// Counts the call, which ends with a descriptor that home has opened.
    pub fn ends_at_home(&self) {
        self.counts.note(self.nr, CallPlace::Home, self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_where_they_were_served() {
        let counts = FamilyCounts::default();
        TimedCall::begin(counts.clone(), 39).ends(&Answer::Value(1));
        TimedCall::begin(counts.clone(), 39).ends(&Answer::Continue);
        for _ in 0..2 {
            let forwarded = TimedCall::begin(counts.clone(), 39);
            forwarded.asks_home();
            forwarded.ends(&Answer::Value(1));
        }
        let rows: Vec<_> = counts.own.rows().iter().map(|row| (row.nr, row.place, row.calls)).collect();
        assert_eq!(rows, [(39, CallPlace::Node, 1), (39, CallPlace::Room, 1), (39, CallPlace::Home, 2)]);
        assert!(counts.own.rows().iter().all(|row| row.longest_ns <= row.total_ns));
    }

    #[test]
    fn a_childs_calls_are_its_familys_too() {
        let parent = FamilyCounts::default();
        TimedCall::begin(parent.clone(), 39).ends(&Answer::Continue);
        TimedCall::begin(parent.child(), 39).ends(&Answer::Continue);
        let calls = |counts: &CallCounts| counts.rows().iter().map(|row| row.calls).sum::<u64>();
        assert_eq!((calls(&parent.own), calls(&parent.family)), (1, 2));
    }
}
