//! Nodes' free memory as it will be when what is under way has come: readings are seconds old, and
//! a process that frees enough need not go twice.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ::policy::NodeView;

use super::tracked::Tracked;

/// What a node tells may be older than its reading by this, of a cluster at a pace by so much less.
const LOOKED_BEFORE: Duration = Duration::from_secs(1);

/// A process of this home that goes, or has gone, from one node to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Passage {
    from: u64,
    to: u64,
    memory_mib: u32,
    /// When it came; none: it is under way.
    came: Option<Instant>,
}

impl Passage {
    /// The last one of this process.
    pub fn of(tracked: &Tracked) -> Option<Passage> {
        let Tracked { node, memory_mib, .. } = *tracked;
        match (tracked.going, tracked.came_from) {
            (Some(to), _) => Some(Passage { from: node, to, memory_mib, came: None }),
            (None, Some(from)) => Some(Passage { from, to: node, memory_mib, came: Some(tracked.came) }),
            (None, None) => None,
        }
    }
}

/// Takes into account what the nodes' readings cannot show yet; `read` says when a node's was made.
pub(super) fn correct(
    nodes: &mut HashMap<u64, NodeView>,
    passages: impl Iterator<Item = Passage>,
    pace: u32,
    read: impl Fn(&NodeView) -> Instant,
) {
    let looked_before = LOOKED_BEFORE / pace.max(1);
    for Passage { from, to, memory_mib, came } in passages {
        let shows = |node: &NodeView| came.is_some_and(|came| came + looked_before < read(node));
        if let Some(node) = nodes.get_mut(&from).filter(|node| !shows(node)) {
            node.free_mib = node.free_mib.saturating_add(memory_mib).min(node.memory_mib);
        }
        if let Some(node) = nodes.get_mut(&to).filter(|node| !shows(node)) {
            node.free_mib = node.free_mib.saturating_sub(memory_mib);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_counted_where_it_will_be_until_readings_show_it() {
        let now = Instant::now();
        let node = |id| NodeView { id, memory_mib: 1000, free_mib: 50, ..NodeView::default() };
        let free = |came: Option<Instant>, read: Instant| {
            let mut nodes = HashMap::from([(1, node(1)), (2, node(2))]);
            let passage = Passage { from: 1, to: 2, memory_mib: 30, came };
            correct(&mut nodes, std::iter::once(passage), 10, |_| read);
            (nodes[&1].free_mib, nodes[&2].free_mib)
        };
        assert_eq!(free(None, now), (80, 20));
        assert_eq!(free(Some(now), now), (80, 20));
        assert_eq!(free(Some(now), now + Duration::from_millis(50)), (80, 20), "that look may have been before it");
        assert_eq!(free(Some(now), now + Duration::from_millis(150)), (50, 50));
    }
}
