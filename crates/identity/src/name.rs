//! Names and ids of nodes.

use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest node name, bytes (a DNS label).
pub const NAME_MAX: usize = 63;

/// Name of a node: 1 to 63 of `a-z`, `0-9` and `-`, no `-` at either end, at least one letter (a
/// certificate's DNS name may not be a number).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

impl NodeName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`Error::Name`] with the rule that the name breaks.
    pub fn new(name: impl Into<String>) -> Result<NodeName, Error> {
        let name: String = name.into();
        let broken = if name.is_empty() || name.len() > NAME_MAX {
            Some("it must have 1 to 63 characters")
        } else if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            Some("only a-z, 0-9 and - are allowed")
        } else if name.starts_with('-') || name.ends_with('-') {
            Some("it must not begin or end with -")
        } else if !name.bytes().any(|b| b.is_ascii_lowercase()) {
            Some("it needs at least one letter")
        } else {
            None
        };
        match broken {
            None => Ok(NodeName(name)),
            Some(rule) => Err(Error::Name { name: name.chars().take(NAME_MAX + 1).collect(), rule }),
        }
    }

    /// Gives the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for NodeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for NodeName {
    type Err = Error;
    fn from_str(s: &str) -> Result<NodeName, Error> {
        NodeName::new(s)
    }
}

impl TryFrom<String> for NodeName {
    type Error = Error;
    fn try_from(s: String) -> Result<NodeName, Error> {
        NodeName::new(s)
    }
}

impl From<NodeName> for String {
    fn from(n: NodeName) -> String {
        n.0
    }
}

/// Random id of a node, fixed when the node is admitted. A name may be used again after its node
/// has left; an id never is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeId(pub u64);

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["n1", "a", "node-7", "3com"] {
            assert_eq!(NodeName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "7", "N1", "a.b", "-a", "a-", "a_b", "ä", "a/b", &"x".repeat(64)] {
            assert!(NodeName::new(bad).is_err(), "{bad}");
        }
    }
}
