//! Draining a node: its guests leave, in the order of their size, before a deadline if there is
//! one.

use serde::{Deserialize, Serialize};

/// A question or order to a node about its drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DrainOrder {
    /// Tell the plan; nobody leaves.
    Plan {
        /// The deadline, milliseconds from now.
        by_ms: Option<u64>,
    },
    /// Begin. The node takes no guests until [`DrainOrder::End`].
    Begin {
        /// The deadline, milliseconds from now.
        by_ms: Option<u64>,
    },
    /// Tell how far the drain is.
    Watch,
    /// Take guests again.
    End,
}

/// How far a drain is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainReport {
    /// The node that is drained.
    pub node: String,
    /// The time left until the deadline, milliseconds.
    pub left_ms: Option<u64>,
    /// The rate of the link that the plan assumes, bytes per second.
    pub bytes_per_s: u64,
    /// Nobody is on the way any more, and nobody will be.
    pub finished: bool,
    /// The guests, in the order of the plan.
    pub guests: Vec<DrainedGuest>,
}

/// A guest of a node that is drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainedGuest {
    /// The name of its home.
    pub home: String,
    /// PID at home.
    pub pid: i32,
    /// The command line of the process.
    pub command: String,
    /// Resident memory, bytes.
    pub bytes: u64,
    /// The node to which it goes or went, if its home has said so.
    pub to: Option<String>,
    /// When it has left by the plan, milliseconds after the plan was made.
    pub ends_ms: u64,
    /// How far the guest is.
    pub state: DrainState,
}

/// How far one guest is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainState {
    /// Its turn comes.
    Waits,
    /// Its home moves it.
    Goes,
    /// The guest has left.
    Gone {
        /// After so long, milliseconds.
        after_ms: u64,
    },
    /// The guest cannot leave before the deadline.
    TooLate,
    /// The guest cannot leave.
    Stays {
        /// The reason, in words.
        why: String,
    },
}

impl DrainState {
    /// Tells whether nothing more will come of it.
    pub fn is_final(&self) -> bool {
        !matches!(self, DrainState::Waits | DrainState::Goes)
    }

    /// Tells whether the guest has left.
    pub fn is_gone(&self) -> bool {
        matches!(self, DrainState::Gone { .. })
    }
}
