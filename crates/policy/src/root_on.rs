//! The list of nodes that a home trusts with processes of root.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most nodes in such a list.
const NODES_MAX: usize = 1024;
/// The longest name of a node, bytes (the label of a host name).
const NAME_BYTES_MAX: usize = 63;

/// Nodes that may host processes with root's rights over this home. Such a node can do at home
/// whatever root can.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RootOn {
    /// No node may.
    #[default]
    None,
    /// Every member of the cluster may, also those that join later.
    All,
    /// The named nodes may.
    Nodes(BTreeSet<String>),
}

impl RootOn {
    /// The possible values, for help and errors.
    pub const ALLOWED: &'static str = "all, none, NODE,NODE";

    /// Tells whether this node may.
    pub fn includes(&self, node: &str) -> bool {
        match self {
            RootOn::None => false,
            RootOn::All => true,
            RootOn::Nodes(names) => names.contains(node),
        }
    }
}

/// The error for a text that is neither `all` nor `none` nor a list of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all, none, or names of nodes with commas between them are expected (at most {NODES_MAX})")]
pub struct RootOnError;

impl FromStr for RootOn {
    type Err = RootOnError;

    fn from_str(text: &str) -> Result<RootOn, RootOnError> {
        let is_name = |name: &str| {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let is_word = matches!(name, "all" | "none");
            (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_allowed) && !is_word
        };
        match text {
            "none" => Ok(RootOn::None),
            "all" => Ok(RootOn::All),
            list if list.split(',').count() <= NODES_MAX && list.split(',').all(is_name) => {
                Ok(RootOn::Nodes(list.split(',').map(str::to_owned).collect()))
            }
            _ => Err(RootOnError),
        }
    }
}

impl TryFrom<String> for RootOn {
    type Error = RootOnError;

    fn try_from(text: String) -> Result<RootOn, RootOnError> {
        text.parse()
    }
}

impl From<RootOn> for String {
    fn from(nodes: RootOn) -> String {
        nodes.to_string()
    }
}

impl fmt::Display for RootOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootOn::None => f.write_str("none"),
            RootOn::All => f.write_str("all"),
            RootOn::Nodes(names) => f.write_str(&names.iter().map(String::as_str).collect::<Vec<_>>().join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_node_is_trusted_by_default() {
        assert_eq!(RootOn::default(), RootOn::None);
        assert!(!RootOn::None.includes("n2") && RootOn::All.includes("n2"));
        let two: RootOn = "n3,n2".parse().unwrap();
        assert!(two.includes("n2") && two.includes("n3") && !two.includes("n") && !two.includes("n2,n3"));
    }

    #[test]
    fn texts_come_back() {
        for text in ["none", "all", "n2", "n10,n2", "a.b,c_d,e-f"] {
            assert_eq!(text.parse::<RootOn>().unwrap().to_string(), text);
            let json = serde_json::to_string(&text.parse::<RootOn>().unwrap()).unwrap();
            assert_eq!(serde_json::from_str::<RootOn>(&json).unwrap().to_string(), text);
        }
        let many = vec!["n"; NODES_MAX + 1].join(",");
        let long = "n".repeat(NAME_BYTES_MAX + 1);
        for bad in ["", ",", "n2,", "n2,,n3", "n2, n3", "all,n2", "none,n2", "ALL!", "n/2", &many, &long] {
            assert_eq!(bad.parse::<RootOn>(), Err(RootOnError), "{bad}");
        }
    }
}
