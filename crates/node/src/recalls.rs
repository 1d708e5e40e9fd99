//! The processes that are to leave nodes, and how far each is.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

/// What is done about a process.
pub(crate) enum RecallState {
    /// The policy may move it.
    Offered { since: Instant },
    /// A thread moves it.
    UnderWay,
    /// The process could not leave.
    Failed { at: Instant, why: String },
    /// The process has gone to this node.
    Gone { at: Instant, to: String },
}

/// The processes that are to leave nodes, by PID.
#[derive(Default)]
pub(crate) struct Recalls(pub(crate) Mutex<HashMap<i32, RecallState>>);
