//! Memory that bodies which leave as a group have in common.

use os::areas::Shown;
use std::collections::{HashMap, HashSet};

/// Pages of memories in common that the first of those that leave has sent.
#[derive(Debug, Default)]
pub struct MemoryGroups(pub HashMap<i32, HashSet<Shown>>);

impl MemoryGroups {
    /// A body with these memories was collected: which of them went with another. `first`: who is
    /// the first of its family.
    pub fn collected(&mut self, pid: i32, first: i32, memories: &[Shown]) -> Vec<bool> {
        if pid == first {
            self.0.insert(pid, HashSet::new());
        }
        let sent = self.0.entry(first).or_default();
        memories.iter().map(|memory| !sent.insert(*memory)).collect()
    }

    /// The departure is over.
    pub fn forget(&mut self, first: i32) {
        self.0.remove(&first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_common_is_sent_once() {
        let mut groups = MemoryGroups::default();
        let [a, b] = [((0, 1), 5), ((0, 1), 6)];
        assert_eq!(groups.collected(7, 7, &[a]), [false]);
        assert_eq!(groups.collected(8, 7, &[b, a]), [false, true]);
        assert_eq!(groups.collected(9, 9, &[a]), [false], "another family");
        assert_eq!(groups.collected(7, 7, &[a]), [false], "another try");
    }
}
