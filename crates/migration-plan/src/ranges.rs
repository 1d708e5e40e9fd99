//! Sets of addresses, as ranges that neither touch nor overlap.

use std::collections::BTreeMap;

/// Start and end of a range of addresses; the end is not included.
pub type Range = (u64, u64);

/// A set of ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl FromIterator<Range> for Ranges {
    fn from_iter<I: IntoIterator<Item = Range>>(ranges: I) -> Ranges {
        let mut all = Ranges::default();
        ranges.into_iter().for_each(|range| all.insert(range));
        all
    }
}

impl Ranges {
    /// Adds the addresses of a range.
    pub fn insert(&mut self, range: Range) {
        let (mut start, mut end) = range;
        if start >= end {
            return;
        }
        let touching: Vec<Range> =
            self.ends.range(..=end).rev().take_while(|(_, e)| **e >= start).map(|(s, e)| (*s, *e)).collect();
        for (s, e) in touching {
            self.ends.remove(&s);
            self.bytes -= e - s;
            (start, end) = (start.min(s), end.max(e));
        }
        self.ends.insert(start, end);
        self.bytes += end - start;
    }

    /// Removes a range. Returns the parts that were in the set, ascending.
    pub fn remove(&mut self, range: Range) -> Vec<Range> {
        let found = self.within(range);
        for (from, to) in &found {
            // The range that contains this part begins at or before it.
            let Some((s, e)) = self.ends.range(..=from).next_back().map(|(s, e)| (*s, *e)) else { continue };
            self.ends.remove(&s);
            if s < *from {
                self.ends.insert(s, *from);
            }
            if *to < e {
                self.ends.insert(*to, e);
            }
            self.bytes -= to - from;
        }
        found
    }

    /// Gives the parts of a range that are in the set, ascending.
    pub fn within(&self, range: Range) -> Vec<Range> {
        let (start, end) = range;
        let before = self.ends.range(..start).next_back();
        let inside = self.ends.range(start..end.max(start));
        let parts = before.into_iter().chain(inside).map(|(s, e)| ((*s).max(start), (*e).min(end)));
        parts.filter(|(s, e)| s < e).collect()
    }

    /// Tells whether the set contains this address.
    pub fn holds(&self, at: u64) -> bool {
        self.ends.range(..=at).next_back().is_some_and(|(_, end)| at < *end)
    }

    /// Gives the first range at or behind this address, cut to begin there; else the first range of
    /// the set.
    pub fn next_from(&self, at: u64) -> Option<Range> {
        if let Some((_, end)) = self.ends.range(..=at).next_back().filter(|(_, end)| at < **end) {
            return Some((at, *end));
        }
        self.ends.range(at..).chain(self.ends.iter()).next().map(|(s, e)| (*s, *e))
    }

    /// Gives the number of bytes in the set.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Tells whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Iterates over all ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Range> {
        self.ends.iter().map(|(s, e)| (*s, *e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ranges: &Ranges) -> Vec<Range> {
        ranges.iter().collect()
    }

    #[test]
    fn ranges_join_and_part() {
        let mut ranges: Ranges = [(10, 20), (30, 40), (20, 25)].into_iter().collect();
        assert_eq!((all(&ranges), ranges.bytes()), (vec![(10, 25), (30, 40)], 25));
        assert_eq!(ranges.remove((15, 35)), [(15, 25), (30, 35)]);
        assert_eq!((all(&ranges), ranges.bytes()), (vec![(10, 15), (35, 40)], 10));
        assert_eq!(ranges.remove((0, 10)), []);
        ranges.insert((0, 100));
        assert_eq!((all(&ranges), ranges.bytes()), (vec![(0, 100)], 100));
        assert_eq!(ranges.remove((40, 60)), [(40, 60)]);
        assert!(ranges.holds(39) && !ranges.holds(40) && !ranges.holds(59) && ranges.holds(60) && !ranges.holds(100));
    }

    #[test]
    fn the_next_one_goes_round() {
        let ranges: Ranges = [(10, 20), (30, 40)].into_iter().collect();
        assert_eq!(ranges.next_from(0), Some((10, 20)));
        assert_eq!(ranges.next_from(12), Some((12, 20)));
        assert_eq!(ranges.next_from(20), Some((30, 40)));
        assert_eq!(ranges.next_from(40), Some((10, 20)));
        assert_eq!(Ranges::default().next_from(0), None);
    }

    /// Compares the set with a plain set of numbers, for some thousand random steps.
    #[test]
    fn as_a_set_of_numbers() {
        let (mut ranges, mut set, mut seed) = (Ranges::default(), std::collections::BTreeSet::new(), 1u64);
        let mut chance = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for _ in 0..3000 {
            let start = chance(100);
            let end = start + chance(20);
            if chance(2) == 0 {
                ranges.insert((start, end));
                set.extend(start..end);
            } else {
                let bytes: u64 = ranges.remove((start, end)).iter().map(|(s, e)| e - s).sum();
                assert_eq!(bytes, (start..end).filter(|n| set.remove(n)).count() as u64);
            }
            assert!(all(&ranges).windows(2).all(|w| w[0].1 < w[1].0));
            assert_eq!(
                all(&ranges).iter().flat_map(|(s, e)| *s..*e).collect::<Vec<_>>(),
                set.iter().copied().collect::<Vec<_>>()
            );
            assert_eq!(ranges.bytes(), set.len() as u64);
        }
    }
}
