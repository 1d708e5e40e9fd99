//! Which node of the file system is which path below /dev, and which stand-ins wait to be opened.

use homefs::proto::ROOT_ID;
use room_protocol::message::StandinId;
use std::collections::HashMap;

/// Nodes of paths have numbers from here on; those of stand-ins are below.
const FIRST: u64 = 1 << 40;
/// Stand-ins of devices have numbers from here on: home gives out those below, and the rest of the
/// room those above.
const FIRST_STANDIN: u32 = 1 << 30;
const LAST_STANDIN: u32 = (FIRST_STANDIN | StandinId::FILE) - 1;
/// The most paths that are remembered: more than any /dev has.
const PATHS_MAX: usize = 1 << 16;

/// A device that is about to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Absolute path at home.
    pub path: Vec<u8>,
    /// Flags of the open, as the program said them.
    pub flags: i32,
}

/// The table of paths.
#[derive(Debug, Default)]
pub struct Paths {
    nodes: HashMap<Vec<u8>, u64>,
    paths: Vec<Vec<u8>>,
    opening: HashMap<StandinId, Opening>,
    standins: u32,
}

impl Paths {
    /// The node is /dev, or a path below it.
    pub fn is_path(&self, node: u64) -> bool {
        self.path(node).is_some()
    }

    /// The path of a node.
    pub fn path(&self, node: u64) -> Option<Vec<u8>> {
        if node == ROOT_ID {
            return Some(b"/dev".to_vec());
        }
        let index = usize::try_from(node.checked_sub(FIRST)?).ok()?;
        self.paths.get(index).cloned()
    }

    /// The node of a path. When there are too many, the last one's.
    pub fn node(&mut self, path: Vec<u8>) -> u64 {
        if let Some(node) = self.nodes.get(&path) {
            return *node;
        }
        if self.paths.len() == PATHS_MAX
            && let Some(last) = self.paths.pop()
        {
            self.nodes.remove(&last);
        }
        let node = FIRST + self.paths.len() as u64;
        self.paths.push(path.clone());
        self.nodes.insert(path, node);
        node
    }

    /// A path is about to be opened: the stand-in that it gets.
    pub fn open(&mut self, path: Vec<u8>, flags: i32) -> StandinId {
        self.standins = (self.standins + 1) % (LAST_STANDIN - FIRST_STANDIN);
        let standin = StandinId(FIRST_STANDIN + self.standins);
        self.opening.insert(standin, Opening { path, flags });
        standin
    }

    /// It is opened now.
    pub fn take_opening(&mut self, standin: StandinId) -> Option<Opening> {
        self.opening.remove(&standin)
    }

    /// The kernel has forgotten a node: if it was to be opened, it is not.
    pub fn forget(&mut self, node: u64) {
        if let Some(standin) = crate::state::files::standins::nodes::standin(node) {
            self.opening.remove(&standin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_nodes() {
        let mut paths = Paths::default();
        assert_eq!(paths.path(ROOT_ID), Some(b"/dev".to_vec()));
        let pts = paths.node(b"/dev/pts".to_vec());
        assert_eq!((paths.node(b"/dev/pts".to_vec()), paths.path(pts)), (pts, Some(b"/dev/pts".to_vec())));
        assert!(!paths.is_path(pts + 1) && !paths.is_path(2));
    }

    #[test]
    fn each_open_has_a_stand_in_of_its_own() {
        let mut paths = Paths::default();
        let (one, two) = (paths.open(b"/dev/tty".to_vec(), 0), paths.open(b"/dev/tty".to_vec(), 2));
        assert_ne!(one, two);
        assert_eq!(paths.take_opening(two).map(|o| o.flags), Some(2));
        paths.forget(u64::from(one.0) + 2);
        assert_eq!((paths.take_opening(one), paths.take_opening(two)), (None, None));
    }
}
