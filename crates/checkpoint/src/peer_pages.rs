//! Pages that the peer has from an earlier stay of the process. The peer lists them by their
//! hashes, and unchanged pages are not sent.

use crate::pages::{PAGE, Run};
use std::collections::HashMap;

/// The most pages that are known to be at the peer, so that its list is bounded.
const KNOWN_MAX: usize = 1 << 18;

/// The first half of the blake3 hash of a page. A user who could make two pages of the same hash
/// would only harm the own process.
pub type PageHash = [u8; 16];

/// Computes the hash of a page.
pub fn page_hash(page: &[u8]) -> PageHash {
    let [hash @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *blake3::hash(page).as_bytes();
    hash
}

/// The hashes of the peer's pages, by address.
#[derive(Debug, Default)]
pub struct PeerPages {
    hashes: HashMap<u64, PageHash>,
    /// Pages that were sent in advance. They replace what the peer had before.
    advanced: HashMap<u64, Box<[u8]>>,
}

/// Pages to send, divided by whether the peer has them.
#[derive(Debug, PartialEq, Eq)]
pub struct Divided {
    /// Pages that the peer has.
    pub there: Vec<Run>,
    /// Pages to send.
    pub rest: Vec<Run>,
    /// Content of the pages to send.
    pub bytes: Vec<u8>,
}

impl PeerPages {
    /// Adds pages that the peer has listed.
    pub fn add(&mut self, pages: impl IntoIterator<Item = (u64, PageHash)>) {
        let room = KNOWN_MAX.saturating_sub(self.hashes.len());
        self.hashes.extend(pages.into_iter().take(room));
    }

    /// Tells whether the peer has no page of an earlier stay.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Forgets all pages: the peer has none any more.
    pub fn clear(&mut self) {
        *self = PeerPages::default();
    }

    /// Gives the pages among these that the peer does not have yet, for sending them in advance.
    /// They may still be the same when they are needed.
    pub fn advance(&mut self, runs: &[Run], bytes: &[u8]) -> (Vec<Run>, Vec<u8>) {
        let (rest, bytes) = match self.divide(runs, bytes) {
            Some(divided) => (divided.rest, divided.bytes),
            None => (runs.to_vec(), bytes.to_vec()),
        };
        self.advanced.extend(pages(&rest, &bytes).map(|(at, page)| (at, page.into())));
        (rest, bytes)
    }

    /// Forgets the pages that were sent in advance.
    pub fn recall(&mut self) {
        self.advanced.clear();
    }

    fn has(&self, at: u64, page: &[u8]) -> bool {
        match self.advanced.get(&at) {
            Some(advanced) => **advanced == *page,
            None => self.hashes.get(&at).is_some_and(|hash| *hash == page_hash(page)),
        }
    }

    /// Divides these pages. `None` if the peer has none of them, or if they are parts of pages.
    pub fn divide(&self, runs: &[Run], bytes: &[u8]) -> Option<Divided> {
        if (self.hashes.is_empty() && self.advanced.is_empty())
            || !runs.iter().all(|run| run.1.is_multiple_of(PAGE as u64))
        {
            return None;
        }
        let (mut there, mut rest, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (at, page) in pages(runs, bytes) {
            if self.has(at, page) {
                append(&mut there, at);
            } else {
                append(&mut rest, at);
                kept.extend_from_slice(page);
            }
        }
        (!there.is_empty()).then_some(Divided { there, rest, bytes: kept })
    }
}

/// Lists the address and the content of each page.
pub fn pages<'a>(runs: &'a [Run], bytes: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
    runs.iter().flat_map(|(at, bytes)| (*at..at.saturating_add(*bytes)).step_by(PAGE)).zip(bytes.chunks_exact(PAGE))
}

/// Appends the page at `at` to the runs.
fn append(runs: &mut Vec<Run>, at: u64) {
    match runs.last_mut() {
        Some((start, bytes)) if *start + *bytes == at => *bytes += PAGE as u64,
        _ => runs.push((at, PAGE as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8) -> Vec<u8> {
        vec![byte; PAGE]
    }

    #[test]
    fn pages_that_the_peer_has_are_not_sent() {
        let mut stocked = PeerPages::default();
        let runs = [(0x1000, 0x3000), (0x9000, 0x1000)];
        let bytes = [page(1), page(2), page(3), page(4)].concat();
        assert_eq!(stocked.divide(&runs, &bytes), None);
        let said = [(0x1000, 9), (0x2000, 2), (0x3000, 3), (0x8000, 4)];
        stocked.add(said.map(|(at, byte)| (at, page_hash(&page(byte)))));
        let divided = stocked.divide(&runs, &bytes).unwrap();
        assert_eq!(
            (&divided.there[..], &divided.rest[..]),
            (&[(0x2000, 0x2000)][..], &[(0x1000, 0x1000), (0x9000, 0x1000)][..])
        );
        assert_eq!(divided.bytes, [page(1), page(4)].concat());
        assert_eq!(stocked.divide(&[(0x2000, 0x400)], &[2; 0x400]), None, "a piece of a page");
        stocked.clear();
        assert_eq!(stocked.divide(&runs, &bytes), None);
    }

    #[test]
    fn pages_sent_in_advance_count_until_they_are_recalled() {
        let mut stocked = PeerPages::default();
        stocked.add([(0x1000, page_hash(&page(1)))]);
        let runs = [(0x1000, 0x3000)];
        let first = [page(1), page(2), page(3)].concat();
        assert_eq!(stocked.advance(&runs, &first), (vec![(0x2000, 0x2000)], [page(2), page(3)].concat()));
        // The page that arrived last counts.
        let then = [page(4), page(2), page(5)].concat();
        assert_eq!(
            stocked.advance(&runs, &then),
            (vec![(0x1000, 0x1000), (0x3000, 0x1000)], [page(4), page(5)].concat())
        );
        assert_eq!(stocked.divide(&runs, &first).unwrap().there, [(0x2000, 0x1000)]);
        assert_eq!(stocked.divide(&runs, &then).unwrap().rest, []);
        stocked.recall();
        assert_eq!(stocked.divide(&runs, &first).unwrap().there, [(0x1000, 0x1000)]);
    }

    #[test]
    fn listed_pages_are_bounded() {
        let mut stocked = PeerPages::default();
        stocked.add((0..2 * KNOWN_MAX as u64).map(|n| (n * 4096, [0; 16])));
        assert_eq!(stocked.hashes.len(), KNOWN_MAX);
    }
}
