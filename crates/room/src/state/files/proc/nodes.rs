//! Which node of the file system is which path below /proc. A node is kept as long as the kernel
//! knows it.

use homefs::proto::ROOT_ID;
use std::collections::HashMap;

/// Numbers of nodes begin behind the root's.
const FIRST: u64 = ROOT_ID + 1;

/// The table. Paths are relative to /proc, its own is empty.
#[derive(Debug)]
pub struct Nodes {
    ids: HashMap<Vec<u8>, u64>,
    nodes: HashMap<u64, Node>,
    next: u64,
}

#[derive(Debug)]
struct Node {
    path: Vec<u8>,
    lookups: u64,
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes { ids: HashMap::new(), nodes: HashMap::new(), next: FIRST }
    }
}

impl Nodes {
    /// The path of a node.
    pub fn path(&self, id: u64) -> Option<&[u8]> {
        if id == ROOT_ID { Some(b"") } else { self.nodes.get(&id).map(|node| node.path.as_slice()) }
    }

    /// The path of a name in a directory.
    pub fn below(&self, id: u64, name: &[u8]) -> Option<Vec<u8>> {
        let parent = self.path(id)?;
        Some(if parent.is_empty() { name.to_vec() } else { [parent, b"/", name].concat() })
    }

    /// A lookup finds this path.
    pub fn found(&mut self, path: &[u8]) -> u64 {
        let id = *self.ids.entry(path.to_vec()).or_insert_with(|| {
            self.next += 1;
            self.next - 1
        });
        self.nodes.entry(id).or_insert_with(|| Node { path: path.to_vec(), lookups: 0 }).lookups += 1;
        id
    }

    /// The kernel drops so many lookups of a node.
    pub fn forget(&mut self, id: u64, lookups: u64) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0
            && let Some(node) = self.nodes.remove(&id)
        {
            self.ids.remove(&node.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_live_as_long_as_the_kernel_knows_them() {
        let mut nodes = Nodes::default();
        let one = nodes.found(b"1");
        assert_eq!((nodes.found(b"1"), nodes.path(one)), (one, Some(&b"1"[..])));
        assert_eq!(nodes.below(ROOT_ID, b"1"), Some(b"1".to_vec()));
        assert_eq!(nodes.below(one, b"fd"), Some(b"1/fd".to_vec()));
        nodes.forget(one, 1);
        assert_eq!(nodes.path(one), Some(&b"1"[..]));
        nodes.forget(one, 1);
        assert_eq!((nodes.path(one), nodes.below(one, b"fd")), (None, None));
        assert_ne!(nodes.found(b"1"), one);
        nodes.forget(77, 1);
    }
}
