//! A cache of the pages of processes that have left over a slow link, from home or from a node:
//! pages as they were sent. The kernel may reclaim them whenever it needs memory
//! ([`os::reclaimable_memory`]). If the process comes back, unchanged pages need not be sent
//! ([`crate::PeerPages`]). Nothing depends on the cache.

use crate::copied::FILES_BYTES_MAX;
use crate::pages::{PAGE, Run};
use crate::peer_pages::{PageHash, page_hash, pages};
use os::reclaimable_memory::{Claimed, ReclaimableMemory};
use os::share::Share;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most pages of all guests: 256 MiB.
const PAGES_MAX: usize = 1 << 16;
/// The least share of a core for which the cache is used, thousandths. A slower machine sends
/// slowly whatever its link does, and the cache would make it slower.
const CORE_LEAST_MILLI: u32 = 500;
/// Pages in one chunk.
const CHUNK_PAGES: usize = 256;
/// Bytes that are written at once.
const PART_BYTES: u64 = 512 << 10;

/// The cached pages of all processes that have left.
#[derive(Debug)]
pub struct PageCache {
    stock: Mutex<CacheState>,
    /// Whether the link was slow when it was measured last.
    slow: AtomicBool,
}

#[derive(Debug)]
struct CacheState {
    pages_max: usize,
    guests: HashMap<i32, CachedProcess>,
    /// Counts what was cached, so that the oldest goes first.
    notes: u64,
}

/// The cached pages of one process.
#[derive(Debug, Default)]
struct CachedProcess {
    places: BTreeMap<u64, usize>,
    chunks: Vec<ReclaimableMemory>,
    noted: u64,
}

impl PageCache {
    /// Creates the cache for this machine; it stays empty on a machine with less than
    /// `CORE_LEAST_MILLI`.
    pub fn of_machine() -> PageCache {
        let is_small = Share::find().cpu_quota_milli().is_some_and(|milli| milli < CORE_LEAST_MILLI);
        PageCache::new(if is_small { 0 } else { PAGES_MAX })
    }

    fn new(pages_max: usize) -> PageCache {
        let stock = Mutex::new(CacheState { pages_max, guests: HashMap::new(), notes: 0 });
        PageCache { stock, slow: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Caches pages of `pid` that were sent. Parts of pages are not cached.
    pub fn note(&self, pid: i32, runs: &[Run], bytes: &[u8]) {
        if !runs.iter().all(|run| run.1.is_multiple_of(PAGE as u64)) {
            return;
        }
        let mut stock = self.lock();
        if stock.pages_max == 0 {
            return;
        }
        stock.make_room(pid, bytes.len() / PAGE);
        stock.notes += 1;
        let (noted, pages_max) = (stock.notes, stock.pages_max.saturating_sub(stock.pages_but(pid)));
        let left = stock.guests.entry(pid).or_default();
        left.noted = noted;
        left.put(runs, bytes, pages_max);
    }

    /// Tells whether pages are cached that go over a link that is slow, or not. `None` (not known
    /// yet) counts as the last known value.
    pub fn wants(&self, slow: Option<bool>) -> bool {
        slow.into_iter().for_each(|slow| self.slow.store(slow, Ordering::Relaxed));
        slow.unwrap_or_else(|| self.slow.load(Ordering::Relaxed))
    }

    /// Tells whether pages of `pid` are cached.
    pub fn has(&self, pid: i32) -> bool {
        self.lock().guests.contains_key(&pid)
    }

    /// Forgets the pages of `pid`, which does not come back.
    pub fn forget(&self, pid: i32) {
        self.lock().guests.remove(&pid);
    }

    /// Takes the pages of `pid` out of the cache. The kernel does not reclaim them any more.
    pub fn claim(&self, pid: i32) -> Option<CachedPages> {
        let left = self.lock().guests.remove(&pid)?;
        Some(CachedPages {
            places: left.places,
            chunks: left.chunks.into_iter().map(ReclaimableMemory::claim).collect(),
            ..CachedPages::default()
        })
    }
}

impl CacheState {
    fn pages_but(&self, pid: i32) -> usize {
        self.guests.iter().filter(|(other, _)| **other != pid).map(|(_, left)| left.places.len()).sum()
    }

    /// Drops the processes that left first, until there is room for `pages` more of `pid`.
    fn make_room(&mut self, pid: i32, pages: usize) {
        let own = self.guests.get(&pid).map_or(0, |left| left.places.len());
        while self.pages_but(pid) + own + pages > self.pages_max {
            let oldest = self.guests.iter().filter(|(other, _)| **other != pid).min_by_key(|(_, left)| left.noted);
            let Some(oldest) = oldest.map(|(pid, _)| *pid) else { return };
            self.guests.remove(&oldest);
        }
    }
}

impl CachedProcess {
    /// Writes pages, at most `pages_max` of all. A page that is cached already is overwritten.
    fn put(&mut self, runs: &[Run], bytes: &[u8], pages_max: usize) {
        let mut touched = Vec::new();
        for (at, page) in pages(runs, bytes) {
            let next = self.places.len();
            let number = match self.places.get(&at) {
                Some(number) => *number,
                None if next < pages_max => next,
                None => continue,
            };
            if number == self.chunks.len() * CHUNK_PAGES {
                // Without memory fewer pages are cached.
                let Ok(chunk) = ReclaimableMemory::new(CHUNK_PAGES) else { break };
                self.chunks.push(chunk);
            }
            let chunk = number / CHUNK_PAGES;
            if self.chunks[chunk].put(number % CHUNK_PAGES, page) {
                self.places.insert(at, number);
            }
            if touched.last() != Some(&chunk) {
                touched.push(chunk);
            }
        }
        touched.into_iter().for_each(|chunk| self.chunks[chunk].cede());
    }
}

/// The cached pages of a process that is about to come back.
#[derive(Debug, Default)]
pub struct CachedPages {
    places: BTreeMap<u64, usize>,
    chunks: Vec<Claimed>,
    /// Pages that arrived in advance since ([`crate::PeerPages::advance`]).
    advanced: HashMap<u64, Box<[u8]>>,
}

impl CachedPages {
    /// Takes pages that have arrived in advance. Returns false, and takes none, beyond the limit.
    pub fn advance(&mut self, runs: &[Run], bytes: &[u8]) -> bool {
        let may_be = (self.advanced.len() * PAGE + bytes.len()) as u64 <= FILES_BYTES_MAX;
        if may_be {
            self.advanced.extend(pages(runs, bytes).map(|(at, page)| (at, page.into())));
        }
        may_be
    }

    /// Discards the pages that arrived in advance.
    pub fn recall(&mut self) {
        self.advanced.clear();
    }

    /// Counts the bytes of this run that were cached before anything arrived in advance.
    pub fn left_bytes(&self, run: Run) -> u64 {
        let (at, bytes) = run;
        (at..at.saturating_add(bytes)).step_by(PAGE).filter(|at| !self.advanced.contains_key(at)).count() as u64
            * PAGE as u64
    }

    /// Gives the content of the page at `at`.
    fn page(&self, at: u64) -> Option<&[u8]> {
        if let Some(page) = self.advanced.get(&at) {
            return Some(page);
        }
        let number = self.places.get(&at)?;
        self.chunks.get(number / CHUNK_PAGES)?.page(number % CHUNK_PAGES)
    }

    /// Lists the hashes of all pages but zeros, ascending, in parts of `at_once`, so that the
    /// receiver gets the first part soon. Zeros are never sent anyway.
    pub fn hashes(&self, at_once: usize) -> impl Iterator<Item = Vec<(u64, PageHash)>> {
        let mut hashes = self.all_hashes();
        std::iter::from_fn(move || {
            Some(hashes.by_ref().take(at_once).collect()).filter(|part: &Vec<_>| !part.is_empty())
        })
    }

    fn all_hashes(&self) -> impl Iterator<Item = (u64, PageHash)> {
        let pages = self.places.keys().filter_map(|at| Some((*at, self.page(*at)?)));
        pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0)).map(|(at, page)| (at, page_hash(page)))
    }

    /// Gives the content of these runs, in parts that are written at once; `None` for a part that
    /// is not completely cached.
    pub fn parts<'a>(&'a self, runs: &'a [Run]) -> impl Iterator<Item = (Run, Option<Vec<u8>>)> + 'a {
        let part = |(at, bytes): &Run| {
            let (at, bytes) = (*at, *bytes);
            (0..bytes)
                .step_by(PART_BYTES as usize)
                .map(move |from| (at.saturating_add(from), PART_BYTES.min(bytes - from)))
        };
        runs.iter().flat_map(part).map(|part| (part, self.part(part)))
    }

    fn part(&self, run: Run) -> Option<Vec<u8>> {
        let (at, bytes) = run;
        let mut found = Vec::with_capacity(bytes as usize);
        for at in (at..at.saturating_add(bytes)).step_by(PAGE) {
            found.extend_from_slice(self.page(at)?);
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8) -> Vec<u8> {
        vec![byte; PAGE]
    }

    #[test]
    fn returning_processes_find_the_pages_sent_last() {
        let cache = PageCache::new(PAGES_MAX);
        cache.note(7, &[(0x1000, 0x2000), (0x9000, 0x1000)], &[page(1), page(2), page(3)].concat());
        cache.note(7, &[(0x2000, 0x1000), (0xa000, 0x1000)], &[page(4), page(0)].concat());
        cache.note(7, &[(0x5000, 0x400)], &[5; 0x400]);
        assert!(cache.claim(8).is_none());
        let left = cache.claim(7).unwrap();
        let expected = [(0x1000, 1), (0x2000, 4), (0x9000, 3)].map(|(at, byte)| (at, page_hash(&page(byte))));
        assert_eq!(left.hashes(2).collect::<Vec<_>>(), [&expected[..2], &expected[2..]]);
        let runs = [(0x1000, 0x2000), (0x1000, 0x3000), (u64::MAX - 4095, 4096)];
        let expected = [(runs[0], Some([page(1), page(4)].concat())), (runs[1], None), (runs[2], None)];
        assert_eq!(left.parts(&runs).collect::<Vec<_>>(), expected);
        assert!(cache.claim(7).is_none(), "once");
    }

    #[test]
    fn pages_that_arrived_in_advance_count() {
        let cache = PageCache::new(PAGES_MAX);
        cache.note(7, &[(0x1000, 0x2000)], &[page(1), page(2)].concat());
        let mut left = cache.claim(7).unwrap();
        assert!(left.advance(&[(0x2000, 0x2000)], &[page(3), page(4)].concat()));
        let runs = [(0x1000, 0x3000)];
        let all = |left: &CachedPages| left.parts(&runs).next().and_then(|(_, pages)| pages);
        assert_eq!((all(&left), left.left_bytes(runs[0])), (Some([page(1), page(3), page(4)].concat()), 4096));
        assert!(!left.advance(&[(0x10000, FILES_BYTES_MAX)], &vec![0; FILES_BYTES_MAX as usize]), "too much");
        left.recall();
        let first = left.parts(&[(0x1000, 0x2000)]).next().and_then(|(_, pages)| pages);
        assert_eq!((all(&left), first), (None, Some([page(1), page(2)].concat())));
    }

    #[test]
    fn a_link_is_what_it_was_until_more_is_known() {
        let cache = PageCache::new(PAGES_MAX);
        let wanted = [None, Some(true), None, Some(false), None].map(|slow| cache.wants(slow));
        assert_eq!(wanted, [false, true, true, false, false]);
    }

    #[test]
    fn pages_of_processes_that_left_first_make_room() {
        let cache = PageCache::new(4);
        let note = |pid, at: u64, pages: u64| {
            cache.note(pid, &[(at * 4096, pages * 4096)], &vec![1; pages as usize * PAGE]);
        };
        let left = || {
            let stock = cache.lock();
            let mut all: Vec<_> = stock.guests.iter().map(|(pid, left)| (*pid, left.places.len())).collect();
            all.sort_unstable();
            all
        };
        note(1, 0, 1);
        note(2, 0, 2);
        note(1, 8, 1);
        assert_eq!(left(), [(1, 2), (2, 2)]);
        note(3, 0, 1);
        assert_eq!(left(), [(1, 2), (3, 1)]);
        // A single process keeps what was cached first.
        note(1, 10, 9);
        assert_eq!(left(), [(1, 4)]);
        cache.forget(1);
        assert_eq!(left(), []);
    }
}
