//! Locking that outlives panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a holder panicked: critical sections are plain assignments, so the data
/// is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
