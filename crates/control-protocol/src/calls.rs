//! What `tern trace` is told: the calls that a process has made away from home.

use serde::{Deserialize, Serialize};

/// The calls of one process in the room where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsReport {
    /// PID at home.
    pub pid: i32,
    /// The node that it runs on.
    pub node: String,
    /// Calls since it came to that node.
    pub rows: Vec<CallRow>,
}

/// How often a process has made a call that one place served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRow {
    /// The name of the system call.
    pub call: String,
    /// Where it was served.
    pub place: CallPlace,
    /// The number of calls.
    pub calls: u64,
    /// From the moment it was taken to its answer, all together, nanoseconds.
    pub total_ns: u64,
    /// The longest one, nanoseconds.
    pub longest_ns: u64,
}

/// The place that served a call which tern looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallPlace {
    /// The kernel of the hosting node.
    Node,
    /// tern, on the hosting node.
    Room,
    /// Home, after a round trip.
    Home,
}
