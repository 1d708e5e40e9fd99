//! Post-copy at the destination: which pages of the process are still missing, wherever the process
//! has moved them in its memory since the stop.

use crate::ranges::{Range, Ranges};

/// The missing pages of a post-copy move. The source knows each page by the address that the page
/// had at the stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absent {
    /// Missing pages at the addresses that they had at the stop.
    unmoved: Ranges,
    /// Missing pages that the process has moved to other addresses with mremap(2).
    moved: Vec<Moved>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Moved {
    from: u64,
    at: Range,
}

impl Moved {
    fn source(&self, at: u64) -> u64 {
        self.from + (at - self.at.0)
    }

    fn part(&self, at: Range) -> Moved {
        Moved { from: self.source(at.0), at }
    }
}

/// The destination of pages that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivedPages {
    /// The address of the pages at the source.
    pub from: u64,
    /// The addresses of the pages here.
    pub at: Range,
}

impl Absent {
    /// Creates the set from all pages that are missing at the start.
    pub fn new(ranges: Ranges) -> Absent {
        Absent { unmoved: ranges, moved: Vec::new() }
    }

    /// Gives the source's address for the missing page at `at`; `None` if that page is not missing.
    pub fn source(&self, at: u64) -> Option<u64> {
        if self.unmoved.holds(at) {
            return Some(at);
        }
        self.moved.iter().find(|m| m.at.0 <= at && at < m.at.1).map(|m| m.source(at))
    }

    /// Lists where the pages with these source addresses are missing here.
    pub fn places(&self, there: Range) -> Vec<ArrivedPages> {
        let unmoved = self.unmoved.within(there).into_iter().map(|at| ArrivedPages { from: at.0, at });
        let moved = self.moved.iter().filter_map(|m| {
            let (start, end) = (there.0.max(m.from), there.1.min(m.from + (m.at.1 - m.at.0)));
            let at = |source: u64| m.at.0 + (source - m.from);
            (start < end).then(|| ArrivedPages { from: start, at: (at(start), at(end)) })
        });
        unmoved.chain(moved).collect()
    }

    /// Removes pages from the set: they have arrived, or the process has unmapped them.
    pub fn forget(&mut self, here: Range) {
        self.unmoved.remove(here);
        drop(self.take_moved(here));
    }

    /// Notes that the process has moved the pages at `here` to another address.
    pub fn move_to(&mut self, here: Range, to: u64) {
        let unmoved = self.unmoved.remove(here).into_iter().map(|at| Moved { from: at.0, at });
        let taken: Vec<Moved> = unmoved.chain(self.take_moved(here)).collect();
        self.forget((to, to + (here.1 - here.0)));
        for moved in taken {
            let start = moved.at.0 - here.0 + to;
            self.moved.push(Moved { from: moved.from, at: (start, start + (moved.at.1 - moved.at.0)) });
        }
    }

    fn take_moved(&mut self, here: Range) -> Vec<Moved> {
        let mut taken = Vec::new();
        for m in std::mem::take(&mut self.moved) {
            let (start, end) = (here.0.max(m.at.0), here.1.min(m.at.1));
            if start >= end {
                self.moved.push(m);
                continue;
            }
            taken.push(m.part((start, end)));
            let rest = [(m.at.0, start), (end, m.at.1)];
            self.moved.extend(rest.into_iter().filter(|(s, e)| s < e).map(|at| m.part(at)));
        }
        taken
    }

    /// Tells whether no page is missing.
    pub fn is_empty(&self) -> bool {
        self.unmoved.is_empty() && self.moved.is_empty()
    }

    /// Gives the number of missing bytes.
    pub fn bytes(&self) -> u64 {
        self.unmoved.bytes() + self.moved.iter().map(|m| m.at.1 - m.at.0).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent() -> Absent {
        Absent::new([(100, 200), (300, 400)].into_iter().collect())
    }

    #[test]
    fn arrived_pages_are_not_missing() {
        let mut absent = absent();
        assert_eq!((absent.source(150), absent.source(250)), (Some(150), None));
        assert_eq!(absent.places((150, 350)).len(), 2);
        absent.forget((150, 350));
        assert_eq!((absent.bytes(), absent.source(160)), (100, None));
        absent.forget((0, 1000));
        assert!(absent.is_empty());
    }

    #[test]
    fn moved_pages_keep_their_names_there() {
        let mut absent = absent();
        absent.move_to((150, 350), 1000);
        assert_eq!((absent.source(1000), absent.source(1049), absent.source(1050)), (Some(150), Some(199), None));
        assert_eq!(absent.source(1199), Some(349));
        assert_eq!(absent.source(160), None);
        assert_eq!(
            absent.places((140, 160)),
            [ArrivedPages { from: 140, at: (140, 150) }, ArrivedPages { from: 150, at: (1000, 1010) }]
        );
        // The process moves a part of them again.
        absent.move_to((1010, 1020), 5000);
        assert_eq!((absent.source(5000), absent.source(1010), absent.source(1020)), (Some(160), None, Some(170)));
        assert_eq!(absent.bytes(), 200);
        absent.forget((1000, 1200));
        assert_eq!(absent.bytes(), 50 + 50 + 10);
    }

    #[test]
    fn pages_at_the_new_place_are_gone() {
        let mut absent = absent();
        absent.move_to((300, 350), 120);
        assert_eq!((absent.source(119), absent.source(120), absent.source(170)), (Some(119), Some(300), Some(170)));
        assert_eq!(absent.places((120, 170)), []);
        assert_eq!(absent.bytes(), 150);
    }
}
