//! The choice of the partner for the next readings.

use std::collections::VecDeque;

use crate::Draw;

/// The most nodes heard from lately that are remembered.
const HEARD_MAX: usize = 8;
/// One time in this many, the partner is a node that was heard from lately. Nodes that exchange
/// messages tend to be about to move processes.
const HEARD_ONE_IN: usize = 4;

/// The partner of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// The n-th of the members, in any order.
    Nth(usize),
    /// The node of this id, heard from lately.
    Heard(u64),
}

/// Chooses partners, and remembers which nodes were heard from directly.
#[derive(Clone, Debug, Default)]
pub struct Partners {
    heard: VecDeque<u64>,
}

impl Partners {
    /// Notes that this node was heard from directly.
    pub fn heard(&mut self, id: u64) {
        self.heard.retain(|known| *known != id);
        self.heard.push_back(id);
        if self.heard.len() > HEARD_MAX {
            self.heard.pop_front();
        }
    }

    /// Forgets a node that is no member any more.
    pub fn forget(&mut self, id: u64) {
        self.heard.retain(|known| *known != id);
    }

    /// Chooses the next partner among `members` other nodes; `None` if there are none.
    pub fn next(&self, members: usize, draw: &mut Draw) -> Option<Partner> {
        if members == 0 {
            return None;
        }
        if draw.one_in(HEARD_ONE_IN)
            && let Some(id) = self.heard.get(draw.below(self.heard.len()))
        {
            return Some(Partner::Heard(*id));
        }
        Some(Partner::Nth(draw.below(members)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_are_drawn_from_all_some_from_those_heard() {
        let (mut partners, mut draw) = (Partners::default(), Draw::new(1));
        assert_eq!(partners.next(0, &mut draw), None);
        (0..20).for_each(|id| partners.heard(id));
        let drawn: Vec<_> = (0..1000).filter_map(|_| partners.next(50, &mut draw)).collect();
        let heard = drawn.iter().filter(|p| matches!(p, Partner::Heard(id) if *id >= 12)).count();
        let any = drawn.iter().filter(|p| matches!(p, Partner::Nth(n) if *n < 50)).count();
        assert!((150..350).contains(&heard) && heard + any == 1000, "{heard} {any}");
        (0..20).for_each(|id| partners.forget(id));
        assert!((0..50).all(|_| matches!(partners.next(3, &mut draw), Some(Partner::Nth(_)))));
    }
}
