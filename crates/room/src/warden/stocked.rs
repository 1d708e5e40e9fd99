//! What home has of guests who are about to come home, from before they left: it says so before it asks for them, and what is still the same is not sent.

use body::{Divided, PageHash, Run, Stocked};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By process.
#[derive(Debug, Default)]
pub struct AtHome(Mutex<HashMap<i32, Stocked>>);

impl AtHome {
    fn all(&self) -> MutexGuard<'_, HashMap<i32, Stocked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Home says so; `first`: what it said before does not count any more.
    pub fn hear(&self, pid: i32, pages: Vec<(u64, PageHash)>, first: bool) {
        let mut all = self.all();
        if first {
            all.remove(&pid);
        }
        if !pages.is_empty() {
            all.entry(pid).or_default().add(pages);
        }
    }

    /// It has something.
    pub fn has(&self, pid: i32) -> bool {
        self.all().contains_key(&pid)
    }

    /// What of these pages it has ([`Stocked::divide`]).
    pub fn divide(&self, pid: i32, runs: &[Run], bytes: &[u8]) -> Option<Divided> {
        self.all().get(&pid)?.divide(runs, bytes)
    }

    /// Nothing counts any more.
    pub fn forget(&self, pid: i32) {
        self.all().remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_for_another_move_does_not_count() {
        let (at_home, page) = (AtHome::default(), [1; 4096]);
        let has = || at_home.divide(7, &[(0x1000, 4096)], &page).is_some();
        let said = || vec![(0x1000, body::page_hash(&page))];
        at_home.hear(7, said(), true);
        at_home.hear(7, vec![(0x2000, [0; 16])], false);
        assert!(has() && at_home.has(7) && !at_home.has(8));
        at_home.hear(7, Vec::new(), true);
        assert!(!has() && !at_home.has(7));
        at_home.hear(7, said(), true);
        at_home.forget(7);
        assert!(!has());
    }
}
