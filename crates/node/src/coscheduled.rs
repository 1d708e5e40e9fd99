//! Jobs of this home, as other nodes were told of them (`coscheduling`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// All jobs by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Coscheduled {
    pub(crate) jobs: Mutex<HashMap<u64, Told>>,
}

/// A job, as other nodes were told of it.
#[derive(Debug)]
pub(crate) struct Told {
    /// Version of the order that was told last.
    pub(crate) version: u64,
    /// Moment of the last order.
    pub(crate) at: Instant,
    /// The nodes that host tasks.
    pub(crate) nodes: BTreeMap<String, OnNode>,
}

impl Told {
    /// Begins with a job of which no node knows.
    pub(crate) fn new(version: u64) -> Told {
        Told { version, at: Instant::now(), nodes: BTreeMap::new() }
    }
}

/// A node that was told of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnNode {
    /// The result of the last order.
    pub(crate) state: State,
    /// The best comparison of clocks.
    pub(crate) reading: Option<Reading>,
}

/// The state of a job on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// The node may begin with it.
    #[default]
    New,
    /// The node has begun.
    Begun,
    /// The node's agent was ended.
    Ended,
}

/// A comparison of clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Moment of the comparison.
    pub(crate) at: Instant,
    /// Moment of the last comparison, which may have been less exact.
    pub(crate) compared: Instant,
    /// The clock of this home minus the node's, microseconds.
    pub(crate) offset_us: i64,
    /// The most by which that is wrong, microseconds.
    pub(crate) error_us: i64,
}

impl Reading {
    /// A less exact reading replaces one that is older.
    pub(crate) const AGE: Duration = Duration::from_secs(60);
}
