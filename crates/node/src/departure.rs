//! Whether this node is about to leave its cluster.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::locks::lock;

/// No guests are taken for so long after the tool has asked to leave: it asks twice a second.
const CLOSED_FOR: Duration = Duration::from_secs(15);

/// Whether this node is about to leave.
#[derive(Default)]
pub(crate) struct Departure(Mutex<Option<Instant>>);

impl Departure {
    /// Guests are not taken.
    pub(crate) fn is_under_way(&self) -> bool {
        lock(&self.0).is_some_and(|asked| asked.elapsed() < CLOSED_FOR)
    }

    pub(crate) fn note(&self) {
        *lock(&self.0) = Some(Instant::now());
    }
}
