//! Guests as the node that hosts them sees them, and how they are sent away.

use serde::{Deserialize, Serialize};

/// Most processes in one [`PeerRequest::TakeBack`](crate::peer::PeerRequest::TakeBack).
pub const TAKEN_BACK_MAX: usize = 1024;
/// Longest reason that a home gives for one process, bytes.
pub const REASON_BYTES: usize = 400;

/// A process of another home that runs on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedGuest {
    /// PID on this machine.
    pub pid: i32,
    /// Name of its home.
    pub home: String,
    /// PID at home.
    pub home_pid: i32,
    /// User whose room it is in, as its home numbers users.
    pub uid: u32,
    /// State as in /proc/PID/stat.
    pub state: char,
    /// CPU time that it has used on this node, microseconds.
    pub cpu_us: u64,
    /// Resident memory, bytes.
    pub rss_bytes: u64,
    /// How many threads the process has.
    pub threads: u32,
    /// For how long it has been here, seconds.
    pub here_s: u64,
    /// Command line, arguments joined by spaces; empty for a user who may not see it.
    pub command: String,
    /// What became of the order to leave, if there was one.
    pub leaving: Option<Leaving>,
    /// For how long its home has been suspended, milliseconds, if it is.
    pub home_suspended_ms: Option<u64>,
}

/// What became of an order to leave a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leaving {
    /// Its home takes it back.
    Goes,
    /// It stays, for this reason.
    Stays {
        /// The failure, in words.
        why: String,
    },
}

/// The guests that an order to leave names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whom {
    /// Every guest of this node.
    All,
    /// Those of this home.
    Home(String),
    /// The one with this PID on the hosting machine.
    Pid(i32),
}

/// What is done about processes that could not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Insist {
    /// Guests that stay are left.
    No,
    /// They are tried again.
    Again,
    /// They are ended.
    Kill,
}

/// What a home says of one process that it is to take back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBack {
    /// PID at home.
    pub pid: i32,
    /// `None`: the process is not on the asking node (any more).
    pub leaving: Option<Leaving>,
    /// The node to which it has gone, if it has.
    pub to: Option<String>,
}

/// Why guests must leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaveReason {
    /// The owner sends these guests away (`tern evict`, `tern leave`).
    Evicted,
    /// The owner takes no guests now: the home's policy may find another node first.
    Closed,
    /// Somebody is at the machine: at once, to another node or home.
    InUse,
    /// The node is about to go: to another node or home.
    Drains,
}

impl LeaveReason {
    /// Says it for people.
    pub fn words(self) -> &'static str {
        match self {
            LeaveReason::Evicted => "its owner sent it away",
            LeaveReason::Closed => "its owner takes no guests",
            LeaveReason::InUse => "somebody is at the machine",
            LeaveReason::Drains => "the node is drained",
        }
    }
}

/// A process that keeps a node in its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remaining {
    /// The name of its home.
    pub home: String,
    /// The node that hosts it.
    pub node: String,
    /// PID at home.
    pub pid: i32,
    /// The command line of the process.
    pub command: String,
    /// Whether it goes, or why it stays.
    pub leaving: Leaving,
}
