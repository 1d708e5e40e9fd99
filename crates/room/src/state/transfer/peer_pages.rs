//! What home has of guests who are about to come home, from before they left: it says so before it
//! asks for them, and what is still the same is not sent.

use checkpoint::{Divided, PageHash, PeerPages, Run};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What home has, by process.
#[derive(Debug, Default)]
pub struct AtHome(Mutex<HashMap<i32, Has>>);

/// What home has of one process.
#[derive(Debug, Default)]
struct Has {
    stocked: PeerPages,
    /// Which try of home's wants pages in advance ([`crate::supervisor::transfer::advance`]).
    number: u32,
}

impl AtHome {
    fn all(&self) -> MutexGuard<'_, HashMap<i32, Has>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Home says so; `first`: what it said before does not count any more.
    pub fn hear(&self, pid: i32, pages: Vec<(u64, PageHash)>, first: bool) {
        let mut all = self.all();
        if first {
            all.remove(&pid);
        }
        if !pages.is_empty() {
            all.entry(pid).or_default().stocked.add(pages);
        }
    }

    /// It has something from before it left.
    pub fn has(&self, pid: i32) -> bool {
        self.all().get(&pid).is_some_and(|has| !has.stocked.is_empty())
    }

    /// It wants pages in advance; of an earlier try none counts.
    pub fn begin_advance(&self, pid: i32, number: u32) {
        let mut all = self.all();
        let has = all.entry(pid).or_default();
        has.stocked.recall();
        has.number = number;
    }

    /// Of these pages, what it has not and gets now; `None`: it does not want them any more.
    pub fn advance(&self, pid: i32, number: u32, runs: &[Run], bytes: &[u8]) -> Option<(Vec<Run>, Vec<u8>)> {
        self.all().get_mut(&pid).filter(|has| has.number == number).map(|has| has.stocked.advance(runs, bytes))
    }

    /// The pages of these that it has ([`PeerPages::divide`]).
    pub fn divide(&self, pid: i32, runs: &[Run], bytes: &[u8]) -> Option<Divided> {
        self.all().get(&pid)?.stocked.divide(runs, bytes)
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
        let said = || vec![(0x1000, checkpoint::page_hash(&page))];
        at_home.hear(7, said(), true);
        at_home.hear(7, vec![(0x2000, [0; 16])], false);
        assert!(has() && at_home.has(7) && !at_home.has(8));
        at_home.hear(7, Vec::new(), true);
        assert!(!has() && !at_home.has(7));
        at_home.hear(7, said(), true);
        at_home.forget(7);
        assert!(!has());
    }

    #[test]
    fn only_the_last_try_gets_pages_in_advance() {
        let (at_home, run, page) = (AtHome::default(), [(0x1000, 4096)], [1; 4096]);
        let all = Some((run.to_vec(), page.to_vec()));
        assert_eq!(at_home.advance(7, 1, &run, &page), None);
        at_home.begin_advance(7, 1);
        assert_eq!(at_home.advance(7, 1, &run, &page), all);
        assert!(at_home.divide(7, &run, &page).is_some() && !at_home.has(7));
        at_home.begin_advance(7, 2);
        assert!(at_home.divide(7, &run, &page).is_none());
        assert_eq!((at_home.advance(7, 1, &run, &page), at_home.advance(7, 2, &run, &page)), (None, all));
        at_home.hear(7, Vec::new(), true);
        assert_eq!(at_home.advance(7, 2, &run, &page), None);
    }
}
