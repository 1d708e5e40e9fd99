//! A suspension of home or of this node: the bodies stand still, and the link may be silent.

use link::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A link is given up so long after the room's own limit, so that the room says why it ends.
const LINK_MARGIN: Duration = Duration::from_secs(60);

/// Whether the room is suspended, and until when.
#[derive(Default)]
pub struct Suspension {
    ends: Mutex<Option<Instant>>,
    changed: Condvar,
    /// The time without contact after which home counts as lost when nothing is suspended.
    lost_after: OnceLock<Duration>,
}

impl Suspension {
    /// Notes the limit that holds when nothing is suspended.
    pub fn lost_after(&self, silence: Duration) {
        let _ = self.lost_after.set(silence);
    }

    /// Begins a suspension, or gives the one under way another limit.
    pub fn begin(&self, uplink: &Sender, within: Duration) {
        if let Err(e) = uplink.lose_after(within + LINK_MARGIN) {
            tracing::warn!("home is not waited for: {e}");
        }
        *self.lock() = Some(Instant::now() + within);
        self.changed.notify_all();
    }

    /// Ends the suspension.
    pub fn end(&self) {
        *self.lock() = None;
        self.changed.notify_all();
    }

    /// Restores the link's limit after each suspension. Returns when one has lasted too long.
    pub fn watch(&self, uplink: &Sender) {
        loop {
            let waits = self.changed.wait_while(self.lock(), |ends| ends.is_none());
            let mut ends = waits.unwrap_or_else(PoisonError::into_inner);
            while let Some(at) = *ends {
                let left = at.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return;
                }
                ends = self.changed.wait_timeout(ends, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            drop(ends);
            let Some(silence) = self.lost_after.get() else { continue };
            if let Err(e) = uplink.lose_after_contact(*silence, LINK_MARGIN) {
                tracing::warn!("home is waited for too long: {e}");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
