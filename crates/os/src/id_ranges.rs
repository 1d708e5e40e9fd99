//! User and group ids of rooms on the machine that hosts them.
//!
//! Each room has a range of its own, so that no process of one room has a user id of another's:
//! limits that the kernel counts by user (processes, pending signals, watches, message queues) are
//! never shared. A range is too small for all ids that a home may use, 2^32. So its lower half
//! stands for the home's lowest ids, and its upper half for the ids around the owner's: sites that
//! give out large numbers give them out in blocks. Ids of neither half show as the overflow id, as
//! in any user namespace.

use crate::{Error, Result};

/// First id of the first range.
const FIRST: u32 = 1 << 31;
/// Ids of one range.
const IDS: u32 = 1 << 23;
/// Ids of a half.
const HALF: u32 = IDS / 2;
/// Number of ranges. One less than fit: the last id of all is none (`(uid_t) -1`).
pub const RANGES: u32 = (1 << 31) / IDS - 1;

/// The ids of one room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange(Ids);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ids {
    Range { number: u32, owner: u32 },
    Machine,
}

/// A line of a map: so many ids from `inside` on are those from `outside` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First id in the room.
    pub inside: u32,
    /// First id on this machine.
    pub outside: u32,
    /// Number of ids.
    pub count: u32,
}

impl IdRange {
    /// Returns the range of this number, below [`RANGES`], for a room of the home's user `owner`.
    ///
    /// # Errors
    /// There is no such range.
    pub fn new(number: u32, owner: u32) -> Result<IdRange> {
        if number >= RANGES {
            let kind = std::io::Error::from(std::io::ErrorKind::InvalidInput);
            return Err(Error::new(format!("taking range {number} of {RANGES} ranges of user ids"), kind));
        }
        Ok(IdRange(Ids::Range { number, owner }))
    }

    /// Returns the machine's own ids: every user of the home is the user of the same number here.
    pub fn of_machine() -> IdRange {
        IdRange(Ids::Machine)
    }

    /// Whether these are the machine's own ids. The room then needs no user namespace.
    pub fn is_machines(&self) -> bool {
        self.0 == Ids::Machine
    }

    /// Returns the id here of the room's root.
    pub fn first(&self) -> u32 {
        match self.0 {
            Ids::Range { number, .. } => FIRST + number * IDS,
            Ids::Machine => 0,
        }
    }

    /// Returns the lines of the map, at most two.
    pub fn extents(&self) -> Vec<Extent> {
        let Ids::Range { owner, .. } = self.0 else {
            return vec![Extent { inside: 0, outside: 0, count: u32::MAX }];
        };
        let lowest = Extent { inside: 0, outside: self.first(), count: HALF };
        let around = owner / HALF * HALF;
        let count = HALF.min(u32::MAX - around);
        let owners = Extent { inside: around, outside: self.first() + HALF, count };
        if around == 0 { vec![lowest] } else { vec![lowest, owners] }
    }

    /// Tells whether one of the home's ids is in the map.
    pub fn has(&self, inside: u32) -> bool {
        self.extents().iter().any(|extent| inside.checked_sub(extent.inside).is_some_and(|at| at < extent.count))
    }

    /// Returns the room's number of an id of this machine, if it has one.
    pub fn inside(&self, outside: u32) -> Option<u32> {
        self.extents().iter().find_map(|extent| {
            let at = outside.checked_sub(extent.outside)?;
            (at < extent.count).then(|| extent.inside + at)
        })
    }
}

/// Returns the lowest free range, if possible one that nobody else was given by `/etc/subuid` and
/// `/etc/subgid` (`assigned`: their text).
pub fn lowest_free(taken: &[u32], assigned: &str) -> Option<u32> {
    let free = || (0..RANGES).filter(|number| !taken.contains(number));
    free().find(|number| !is_assigned(*number, assigned)).or_else(|| free().next())
}

/// Reads what [`lowest_free`] wants to know.
pub fn assigned() -> String {
    ["/etc/subuid", "/etc/subgid"].map(|path| std::fs::read_to_string(path).unwrap_or_default()).join("\n")
}

/// Lines are `NAME:FIRST:COUNT` (subuid(5)).
fn is_assigned(number: u32, assigned: &str) -> bool {
    let begin = u64::from(FIRST + number * IDS);
    let overlaps = |line: &str| {
        let mut words = line.split(':').skip(1).map(|word| word.trim().parse::<u64>().ok());
        let (Some(Some(first)), Some(Some(count))) = (words.next(), words.next()) else { return false };
        first < begin + u64::from(IDS) && begin < first.saturating_add(count)
    };
    assigned.lines().any(overlaps)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn no_two_ranges_have_an_id_in_common() {
        let mut end = u64::from(FIRST);
        for number in 0..RANGES {
            for extent in IdRange::new(number, u32::MAX - 1).unwrap().extents() {
                assert!(u64::from(extent.outside) >= end, "{number}");
                end = u64::from(extent.outside) + u64::from(extent.count);
            }
        }
        assert!(end < u64::from(u32::MAX) && IdRange::new(RANGES, 0).is_err());
    }

    #[test]
    fn low_ids_and_those_around_the_owner_are_there() {
        for owner in [0, 1000, 65_534, 1_234_567_890, u32::MAX - 1] {
            let range = IdRange::new(3, owner).unwrap();
            let outside = |id: u32| {
                let extents = range.extents();
                let found = extents.iter().find(|e| id >= e.inside && id - e.inside < e.count);
                found.map(|e| e.outside + (id - e.inside))
            };
            for id in [0, 1, 65_534, owner] {
                assert_eq!((range.has(id), range.inside(outside(id).unwrap())), (true, Some(id)), "{owner}");
            }
            assert_eq!((outside(0), range.inside(0), range.inside(u32::MAX)), (Some(range.first()), None, None));
        }
    }

    #[test]
    fn the_machines_own_ids_are_what_they_are() {
        let own = IdRange::of_machine();
        assert!(own.is_machines() && !IdRange::new(0, 0).unwrap().is_machines());
        assert_eq!(
            (own.first(), own.inside(1000), own.has(4_000_000_000), own.has(u32::MAX)),
            (0, Some(1000), true, false)
        );
    }

    #[test]
    fn assigned_ranges_are_left_out_while_there_are_others() {
        assert_eq!(lowest_free(&[0, 1, 3], ""), Some(2));
        let third = FIRST + 2 * IDS;
        let assigned = format!("a:100000:65536\nb:{}:5\nnonsense\nc:x:y\n", third + 7);
        assert_eq!(lowest_free(&[0, 1], &assigned), Some(3));
        assert_eq!(lowest_free(&[], "all:0:4294967295"), Some(0));
        let all: Vec<u32> = (0..RANGES).collect();
        assert_eq!(lowest_free(&all, ""), None);
    }
}
