//! Nodes of the stand-ins' file system: which stand-in a node is, and what it looks like.

use homefs::proto::{self, Attr, EntryOut};
use room_protocol::message::StandinId;

/// Attributes of a stand-in never change, but for those of files.
pub const FOR_EVER_S: u64 = 1 << 32;

/// The size that a stand-in shows: no offset is behind its end.
pub const HUGE: u64 = 1 << 62;

pub fn node(standin: StandinId) -> u64 {
    u64::from(standin.0) + 2
}

/// The stand-in that a node is, if it is one.
pub fn standin(node: u64) -> Option<StandinId> {
    node.checked_sub(2).and_then(|n| u32::try_from(n).ok()).map(StandinId)
}

pub fn attributes(node: u64) -> Attr {
    let (mode, size) = if node == proto::ROOT_ID { (libc::S_IFDIR | 0o755, 0) } else { (libc::S_IFREG | 0o666, HUGE) };
    Attr { ino: node, mode, size, nlink: 1, blksize: 4096, ..Attr::default() }
}

/// Answers a lookup that finds a stand-in.
pub fn entry(standin: StandinId) -> EntryOut {
    let nodeid = node(standin);
    EntryOut { nodeid, attr_valid: attributes_valid_s(Some(standin)), attr: attributes(nodeid), ..EntryOut::default() }
}

/// For how long its attributes hold: a file's change at home.
pub fn attributes_valid_s(standin: Option<StandinId>) -> u64 {
    if standin.is_some_and(StandinId::is_file) { 0 } else { FOR_EVER_S }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(standin(node(StandinId(7))), Some(StandinId(7)));
        assert_eq!(standin(1), None);
        assert_eq!(standin(u64::MAX), None);
    }
}
