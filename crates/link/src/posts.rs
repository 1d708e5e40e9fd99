//! Frames that nobody waits for. They are kept for a moment, so that many go in one write and wake
//! the peer once. Any other frame takes them along: frames keep their order.

use crate::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The longest time for which a posted frame is kept.
pub(crate) const KEPT: Duration = Duration::from_micros(300);
/// Posted frames beyond this size are written at once.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

/// Tells the thread that writes posted frames of them.
#[derive(Default)]
pub(crate) struct Posts {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    Posted,
    Closed,
}

impl Posts {
    pub(crate) fn post(&self) {
        let mut state = lock(&self.state);
        if *state == State::None {
            *state = State::Posted;
            self.changed.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        *lock(&self.state) = State::Closed;
        self.changed.notify_one();
    }

    /// Waits until a frame is posted; returns false if the sender is gone.
    pub(crate) fn wait(&self) -> bool {
        let waits = self.changed.wait_while(lock(&self.state), |state| *state == State::None);
        let mut state = waits.unwrap_or_else(PoisonError::into_inner);
        let goes_on = *state != State::Closed;
        if goes_on {
            *state = State::None;
        }
        goes_on
    }
}
