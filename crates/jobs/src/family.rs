//! Processes and their descendants.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessKey {
    /// Number of the process (PID).
    pub pid: i32,
    /// Moment at which the process began, ticks since the machine did.
    pub began: u64,
}

/// A process of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process itself.
    pub key: ProcessKey,
    /// PID of the parent.
    pub parent: i32,
    /// The kernel's name of the program, 15 bytes at most.
    pub name: String,
}

/// Processes that were named, and all that descend from them. A process stays in its family when
/// its parent has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family(BTreeSet<ProcessKey>);

impl Family {
    /// Begins with these processes, which are found by the first [`update`](Self::update).
    pub fn of(named: impl IntoIterator<Item = ProcessKey>) -> Family {
        Family(named.into_iter().collect())
    }

    /// Adds processes, which are found by the next [`update`](Self::update).
    pub fn add(&mut self, named: impl IntoIterator<Item = ProcessKey>) {
        self.0.extend(named);
    }

    /// Notes which processes the machine has now.
    pub fn update(&mut self, processes: &[Process]) {
        let present: BTreeMap<i32, ProcessKey> =
            processes.iter().map(|process| (process.key.pid, process.key)).collect();
        self.0.retain(|key| present.get(&key.pid) == Some(key));
        let mut children: BTreeMap<i32, Vec<ProcessKey>> = BTreeMap::new();
        processes.iter().for_each(|process| children.entry(process.parent).or_default().push(process.key));
        let mut pending: Vec<ProcessKey> = self.0.iter().copied().collect();
        while let Some(key) = pending.pop() {
            let new = children.get(&key.pid).into_iter().flatten().filter(|child| self.0.insert(**child));
            pending.extend(new);
        }
    }

    /// Gives the processes as of the last update.
    pub fn members(&self) -> &BTreeSet<ProcessKey> {
        &self.0
    }

    /// Tells whether all processes have ended.
    pub fn has_ended(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether the process belongs to the family.
    pub fn contains(&self, key: ProcessKey) -> bool {
        self.0.contains(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, began: u64) -> Process {
        Process { key: ProcessKey { pid, began }, parent, name: "sh".into() }
    }

    fn pids(family: &Family) -> Vec<i32> {
        family.members().iter().map(|key| key.pid).collect()
    }

    #[test]
    fn orphans_stay_in_their_family_and_so_do_theirs() {
        let mut family = Family::of([ProcessKey { pid: 10, began: 7 }]);
        family.update(&[process(1, 0, 0), process(10, 1, 7), process(11, 10, 8), process(14, 1, 8)]);
        assert_eq!(pids(&family), [10, 11]);
        family.update(&[process(1, 0, 0), process(11, 1, 8), process(12, 11, 9)]);
        assert_eq!(pids(&family), [11, 12]);
        assert!(!family.contains(ProcessKey { pid: 10, began: 7 }));
    }

    #[test]
    fn a_later_process_with_the_same_number_is_a_stranger() {
        let mut family = Family::of([ProcessKey { pid: 10, began: 7 }]);
        family.update(&[process(10, 1, 8), process(11, 10, 9)]);
        assert!(family.has_ended());
    }
}
