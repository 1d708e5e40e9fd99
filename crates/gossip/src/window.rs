//! The window of readings: what a node knows of the loads of others.

use std::collections::BTreeMap;

/// Bounds of a window's size and age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The number of nodes in the window. At half as many again, the oldest readings are dropped.
    pub capacity: usize,
    /// The age up to which a reading is used, milliseconds.
    pub max_age_ms: u64,
}

/// A node's reading, and the time at which the node made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading<V> {
    /// Time of the reading, on the monotonic clock of the node that keeps the window, milliseconds.
    pub read_ms: u64,
    /// The values that were read.
    pub value: V,
}

/// The newest reading of each node heard of lately.
#[derive(Clone, Debug)]
pub struct Window<V> {
    bounds: Bounds,
    readings: BTreeMap<u64, Reading<V>>,
}

impl<V: Copy> Window<V> {
    /// Creates an empty window.
    pub fn new(bounds: Bounds) -> Window<V> {
        Window { bounds, readings: BTreeMap::new() }
    }

    /// Takes a reading that is `age_ms` old, if it is newer than the known one of this node and not
    /// too old. Returns whether it was taken.
    ///
    /// Ages travel, not times: clocks of different nodes are never compared, and no reading can
    /// come from the future.
    pub fn note(&mut self, id: u64, age_ms: u64, value: V, now_ms: u64) -> bool {
        let Some(read_ms) = now_ms.checked_sub(age_ms).filter(|_| age_ms <= self.bounds.max_age_ms) else {
            return false;
        };
        match self.readings.get_mut(&id) {
            // A known reading from the future was made before the clock was set back, and does not
            // tell which reading is newer.
            Some(known) if (read_ms..=now_ms).contains(&known.read_ms) => return false,
            Some(known) => *known = Reading { read_ms, value },
            None => {
                self.readings.insert(id, Reading { read_ms, value });
                self.make_room();
            }
        }
        true
    }

    /// Drops the oldest readings once the window is half as large again as its capacity, so that
    /// dropping is rare.
    fn make_room(&mut self) {
        let capacity = self.bounds.capacity;
        if self.readings.len() > capacity + capacity / 2 {
            let mut ages: Vec<(u64, u64)> = self.readings.iter().map(|(id, r)| (r.read_ms, *id)).collect();
            let surplus = ages.len() - capacity;
            ages.select_nth_unstable(surplus);
            for (_, id) in &ages[..surplus] {
                self.readings.remove(id);
            }
        }
    }

    /// Forgets a node that is gone.
    pub fn forget(&mut self, id: u64) {
        self.readings.remove(&id);
    }

    /// Gives the newest reading of this node, whatever its age.
    pub fn get(&self, id: u64) -> Option<&Reading<V>> {
        self.readings.get(&id)
    }

    /// Lists the readings that are young enough to use: node, age in milliseconds, value.
    pub fn fresh(&self, now_ms: u64) -> impl Iterator<Item = (u64, u64, V)> + '_ {
        let max_age_ms = self.bounds.max_age_ms;
        self.readings
            .iter()
            .filter_map(move |(id, r)| Some((*id, now_ms.checked_sub(r.read_ms)?, r.value)))
            .filter(move |(_, age_ms, _)| *age_ms <= max_age_ms)
    }

    /// Lists the newest `count` of the usable readings, newest first, for passing on.
    pub fn newest(&self, count: usize, now_ms: u64) -> Vec<(u64, u64, V)> {
        let mut found: Vec<(u64, u64)> = self.fresh(now_ms).map(|(id, age_ms, _)| (age_ms, id)).collect();
        if found.len() > count && count > 0 {
            found.select_nth_unstable(count - 1);
        }
        found.truncate(count);
        found.sort_unstable();
        found.into_iter().filter_map(|(age_ms, id)| Some((id, age_ms, self.readings.get(&id)?.value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(capacity: usize) -> Window<u32> {
        Window::new(Bounds { capacity, max_age_ms: 1000 })
    }

    #[test]
    fn newest_reading_wins_and_old_ones_are_not_believed() {
        let mut w = window(4);
        assert!(w.note(1, 100, 5, 5000));
        assert!(!w.note(1, 200, 9, 5000), "older than what is known");
        assert!(w.note(2, 50, 7, 5000));
        assert!(!w.note(3, 1001, 1, 5000), "too old");
        assert!(!w.note(3, u64::MAX, 1, 5000), "older than time itself");
        assert_eq!(w.newest(5, 5000), [(2, 50, 7), (1, 100, 5)]);
        assert_eq!(w.newest(1, 5000), [(2, 50, 7)]);
        assert_eq!(w.newest(0, 5000), []);
        assert_eq!(w.newest(5, 5920), [(2, 970, 7)]);
        w.forget(2);
        assert!(w.get(2).is_none() && w.get(1).is_some());
    }

    #[test]
    fn a_clock_that_is_set_makes_nothing_new_for_ever() {
        let mut w = window(4);
        w.note(1, 0, 5, 50_000);
        w.note(2, 0, 6, 50_000);
        assert_eq!(w.newest(5, 9000), [], "read in the future");
        assert!(w.note(1, 100, 7, 9000));
        assert_eq!(w.newest(5, 9000), [(1, 100, 7)]);
        assert_eq!(w.newest(5, 90_000), [], "set forward: all are old");
        assert!(w.note(1, 0, 8, 90_000) && w.note(2, 0, 9, 90_000));
        assert_eq!(w.newest(5, 90_000), [(1, 0, 8), (2, 0, 9)]);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut w = window(3);
        for id in 0..10 {
            w.note(id, 100 - id, 0, 5000);
        }
        assert!(w.readings.len() <= 4);
        assert_eq!(w.newest(3, 5000).iter().map(|r| r.0).collect::<Vec<_>>(), [9, 8, 7]);
    }
}
