//! The processes that are to come home, and how far each is.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

/// What is done about a process.
pub(crate) enum RecallState {
    /// The policy may move it.
    Offered { since: Instant },
    /// A thread brings it home.
    UnderWay,
    /// It could not come.
    Failed { at: Instant, why: String },
}

/// The processes that are to come home, by PID.
#[derive(Default)]
pub(crate) struct Recalls(pub(crate) Mutex<HashMap<i32, RecallState>>);
