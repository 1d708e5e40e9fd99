//! Pages of running bodies that have gone home, by process and try.

use crate::state::transfer::windows::Windows;
use checkpoint::Ahead;
use room_protocol::message::onward::Ticket;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pages of running bodies that have gone home, by process and try.
#[derive(Debug, Default)]
pub struct HomewardTries(Mutex<HashMap<i32, (Ticket, Option<Ahead>)>>);

impl HomewardTries {
    pub fn all(&self) -> MutexGuard<'_, HashMap<i32, (Ticket, Option<Ahead>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A try begins.
    pub fn begin(&self, pid: i32, ticket: Ticket) {
        self.all().insert(pid, (ticket, None));
    }

    /// Opens the window of a try, unless that has been called off already. In the tracer's thread:
    /// there an earlier one is closed.
    pub fn open(&self, windows: &Windows, pid: i32, ticket: &Ticket) {
        let all = self.all();
        if all.get(&pid).is_some_and(|(of, _)| of == ticket) {
            windows.open(pid);
        }
        drop(all);
    }

    pub fn keep(&self, pid: i32, ticket: &Ticket, ahead: Ahead) {
        if let Some(kept) = self.all().get_mut(&pid).filter(|(of, _)| of == ticket) {
            kept.1 = Some(ahead);
        }
    }

    /// What went in this try; whatever there is else is worth nothing any more.
    pub fn take(&self, pid: i32, ticket: Option<Ticket>) -> Option<Ahead> {
        self.all().remove(&pid).filter(|(of, _)| Some(*of) == ticket).and_then(|(_, ahead)| ahead)
    }

    /// Nothing of it counts.
    pub fn forget(&self, pid: i32) {
        self.all().remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use checkpoint::Copied;

    #[test]
    fn who_was_called_off_sends_nothing() {
        let (homeward, windows) = (HomewardTries::default(), Windows::default());
        homeward.begin(7, [1; 16]);
        homeward.forget(7);
        homeward.open(&windows, 7, &[1; 16]);
        assert!(!windows.make_way(7, 1));
        homeward.begin(7, [2; 16]);
        homeward.open(&windows, 7, &[2; 16]);
        assert!(windows.make_way(7, 1));
    }

    #[test]
    fn what_went_in_another_try_counts_nothing() {
        let ahead = || Ahead::copied(Copied::of(std::process::id() as i32, &[]).unwrap(), Vec::new(), 0);
        let homeward = HomewardTries::default();
        homeward.begin(7, [1; 16]);
        homeward.keep(7, &[2; 16], ahead());
        assert!(homeward.take(7, Some([1; 16])).is_none());
        homeward.begin(7, [3; 16]);
        homeward.keep(7, &[3; 16], ahead());
        assert!(homeward.take(7, Some([3; 16])).is_some());
        homeward.begin(7, [4; 16]);
        homeward.keep(7, &[4; 16], ahead());
        assert!(homeward.take(7, None).is_none() && homeward.take(7, Some([4; 16])).is_none());
    }
}
