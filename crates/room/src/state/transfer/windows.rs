//! How much of a process may be on its way home: the home says what it has put in place.

use room_protocol::page_frames::WINDOW_BYTES;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long the home may take nothing.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

/// Bytes of pages that were sent and are not in place yet, by process.
#[derive(Debug, Default)]
pub struct Windows {
    under_way: Mutex<HashMap<i32, u64>>,
    changed: Condvar,
}

impl Windows {
    /// Nothing of this process is on its way.
    pub fn open(&self, pid: i32) {
        self.lock().insert(pid, 0);
    }

    /// Nothing more of it will be.
    pub fn close(&self, pid: i32) {
        self.lock().remove(&pid);
        self.changed.notify_all();
    }

    /// So many bytes more may be sent; waits for that. False: the home takes nothing any more.
    pub fn make_way(&self, pid: i32, bytes: u64) -> bool {
        let full =
            |all: &mut HashMap<i32, u64>| all.get(&pid).is_some_and(|sent| *sent > 0 && sent + bytes > WINDOW_BYTES);
        let waited = self.changed.wait_timeout_while(self.lock(), TAKEN_WITHIN, full);
        let (mut all, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        all.entry(pid).and_modify(|sent| *sent += bytes);
        !timeout.timed_out() && all.contains_key(&pid)
    }

    /// Waits until the home has put all in place. False: it takes nothing any more.
    pub fn await_clear(&self, pid: i32) -> bool {
        let is_under_way = |all: &mut HashMap<i32, u64>| all.get(&pid).is_some_and(|sent| *sent > 0);
        let waited = self.changed.wait_timeout_while(self.lock(), TAKEN_WITHIN, is_under_way);
        let (all, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        !timeout.timed_out() && all.contains_key(&pid)
    }

    /// The home has put so many bytes in place.
    pub fn taken(&self, pid: i32, bytes: u64) {
        if let Some(sent) = self.lock().get_mut(&pid) {
            *sent = sent.saturating_sub(bytes);
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<i32, u64>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_ahead_waits() {
        let windows = Windows::default();
        windows.open(7);
        assert!(windows.make_way(7, WINDOW_BYTES * 2));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| windows.make_way(7, 4096));
            windows.taken(7, WINDOW_BYTES * 2);
            assert!(waits.join().unwrap());
            let waits = scope.spawn(|| windows.make_way(7, WINDOW_BYTES));
            windows.close(7);
            assert!(!waits.join().unwrap());
        });
        assert!(!windows.make_way(8, 1));
    }
}
