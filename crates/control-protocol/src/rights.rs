//! Whether users of a home may use a node. Each home says so for its own users, as BProc's front
//! end does ("Process Space", access control): a node has a state, an owner, a group, and the three
//! execute bits of a mode. A node's owner says there which guests it takes at all.

use serde::{Deserialize, Serialize};

/// The bits that a mode may have: execute, for owner, group and others.
const MODE_BITS: u16 = 0o111;

/// The rights of a home's users on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRights {
    /// Whether processes go there at all.
    pub state: NodeState,
    /// User at home to whom the first execute bit applies.
    pub owner: u32,
    /// Group at home to which the second one applies.
    pub group: u32,
    /// The execute bits.
    pub mode: u16,
}

/// Whether a home uses a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// As the rights say.
    #[default]
    Up,
    /// By root alone.
    Unavailable,
}

/// Why a user may not use a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The node is unavailable.
    #[error("root of this home has made it unavailable")]
    Unavailable,
    /// The execute bit of the user is not set.
    #[error("its mode is {mode:04o} for user {owner} and group {group}, by root of this home")]
    Mode {
        /// The execute bits.
        mode: u16,
        /// Owner of the node.
        owner: u32,
        /// Group of the node.
        group: u32,
    },
}

impl Default for NodeRights {
    fn default() -> NodeRights {
        NodeRights { state: NodeState::Up, owner: 0, group: 0, mode: MODE_BITS }
    }
}

impl NodeRights {
    /// Tells whether a user with these groups may use the node. The first bit that applies decides,
    /// as for files (path_resolution(7)). Root may.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self, user: u32, groups: &[u32]) -> Result<(), Denied> {
        let bit = match user {
            0 => return Ok(()),
            user if user == self.owner => 0o100,
            _ if groups.contains(&self.group) => 0o010,
            _ => 0o001,
        };
        match self.state {
            NodeState::Unavailable => Err(Denied::Unavailable),
            NodeState::Up if self.mode & bit == 0 => {
                Err(Denied::Mode { mode: self.mode, owner: self.owner, group: self.group })
            }
            NodeState::Up => Ok(()),
        }
    }

    /// Reads a mode: octal digits, of which the execute bits count.
    pub fn mode_of(text: &str) -> Option<u16> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        u16::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= 0o777).map(|mode| mode & MODE_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bit_that_applies_decides() {
        let rights = NodeRights { owner: 1000, group: 50, mode: 0o011, ..NodeRights::default() };
        let denied = |user, groups: &[u32]| rights.check(user, groups).is_err();
        assert!(denied(1000, &[50]), "the owner, though the group may");
        assert!(!denied(1001, &[7, 50]) && !denied(1002, &[]) && !denied(0, &[]));
        let group_only = NodeRights { mode: 0o010, ..rights };
        assert!(group_only.check(1002, &[7]).is_err() && group_only.check(1002, &[50]).is_ok());
    }

    #[test]
    fn root_alone_uses_what_is_unavailable() {
        let rights = NodeRights { state: NodeState::Unavailable, owner: 1000, ..NodeRights::default() };
        assert_eq!(rights.check(1000, &[]), Err(Denied::Unavailable));
        assert_eq!(rights.check(0, &[]), Ok(()));
        assert_eq!(NodeRights::default().check(1000, &[]), Ok(()));
    }

    #[test]
    fn a_mode_is_octal() {
        assert_eq!(NodeRights::mode_of("0755"), Some(0o111));
        assert_eq!(NodeRights::mode_of("110"), Some(0o110));
        for wrong in ["", "8", "-1", "+1", "1000", "0o1", "x"] {
            assert_eq!(NodeRights::mode_of(wrong), None, "{wrong}");
        }
    }
}
