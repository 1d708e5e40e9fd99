//! How far a suspension of this node or of the room's is.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How far a suspension is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// There is none.
    #[default]
    Awake,
    /// The room was told.
    Told,
    /// The room's bodies stand still.
    Suspended,
    /// The room was told that it is over.
    Waking,
}

/// Whether the room is suspended.
#[derive(Default)]
pub struct Suspension {
    stage: Mutex<Stage>,
    changed: Condvar,
}

impl Suspension {
    /// Tells whether the room is suspended, or about to be.
    pub fn is_under_way(&self) -> bool {
        *self.lock() != Stage::Awake
    }

    /// Gives how far it is.
    pub fn stage(&self) -> Stage {
        *self.lock()
    }

    /// Notes how far it is.
    pub fn enter(&self, stage: Stage) {
        *self.lock() = stage;
        self.changed.notify_all();
    }

    /// Waits until it is not at this stage any more, at most for so long. Gives how far it is.
    pub fn leaves(&self, stage: Stage, within: Duration) -> Stage {
        let waited = self.changed.wait_timeout_while(self.lock(), within, |now| *now == stage);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
