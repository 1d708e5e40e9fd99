//! Rights of this home's users on nodes, as root of this home says (`tern nodes --set`). The daemon
//! keeps them in the state directory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use control_protocol::rights::{NodeRights, NodeState};
use identity::Identity;

use crate::locks::lock;
use crate::{Error, account_names};

/// Note in the state directory.
const NOTE: &str = "nodes.json";
/// Most nodes about which something is said.
const NODES_MAX: usize = 4096;

/// Rights by the name of the node. Nodes that are not there have none but the default.
pub(crate) type Table = BTreeMap<String, NodeRights>;

/// The rights on all nodes.
pub(crate) struct RightsOnNodes(Mutex<Arc<Table>>);

impl RightsOnNodes {
    /// Reads the rights from the note. The daemon guesses no rights: with a damaged note it does
    /// not start.
    pub(crate) fn load(identity: &Identity) -> Result<RightsOnNodes, Error> {
        let table: Table = match identity.read_note(NOTE)? {
            None => Table::new(),
            Some(bytes) => serde_json::from_slice(&bytes)
                .map_err(|e| Error::file("read", identity.dir().join(NOTE).display().to_string(), e.into()))?,
        };
        Ok(RightsOnNodes(Mutex::new(Arc::new(table))))
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&lock(&self.0))
    }

    pub(crate) fn of(&self, node: &str) -> NodeRights {
        lock(&self.0).get(node).copied().unwrap_or_default()
    }

    /// Changes what is said about these nodes, all or none; on disk first.
    ///
    /// # Errors
    /// A change is malformed, or names nobody; the note cannot be written.
    pub(crate) fn set(&self, identity: &Identity, nodes: &[String], changes: &[String]) -> Result<(), Error> {
        let mut now = lock(&self.0);
        let mut table = Table::clone(&now);
        for node in nodes {
            let mut rights = table.get(node).copied().unwrap_or_default();
            for change in changes {
                apply(&mut rights, change)?;
            }
            match rights == NodeRights::default() {
                true => table.remove(node),
                false => table.insert(node.clone(), rights),
            };
        }
        if table.len() > NODES_MAX {
            return Err(Error::NodeRights { change: nodes.join(","), why: "too many nodes have rights of their own" });
        }
        let bytes = serde_json::to_vec_pretty(&table).map_err(|e| Error::socket("encode rights", e.into()))?;
        identity.write_note(NOTE, &bytes)?;
        *now = Arc::new(table);
        Ok(())
    }
}

/// Applies `state=`, `owner=`, `group=` or `mode=`.
fn apply(rights: &mut NodeRights, change: &str) -> Result<(), Error> {
    let wrong = |why| Error::NodeRights { change: change.chars().take(80).collect(), why };
    match change.split_once('=') {
        Some(("state", "up")) => rights.state = NodeState::Up,
        Some(("state", "unavailable")) => rights.state = NodeState::Unavailable,
        Some(("state", _)) => return Err(wrong("state is up or unavailable")),
        Some(("owner", user)) => {
            rights.owner = account_names::user(user).ok_or_else(|| wrong("no user of /etc/passwd, nor a number"))?;
        }
        Some(("group", group)) => {
            rights.group = account_names::group(group).ok_or_else(|| wrong("no group of /etc/group, nor a number"))?;
        }
        Some(("mode", text)) => {
            rights.mode = NodeRights::mode_of(text).ok_or_else(|| wrong("mode is octal, such as 0110"))?;
        }
        _ => return Err(wrong("state=, owner=, group= or mode= is wanted")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_words_or_numbers() {
        let mut rights = NodeRights::default();
        for change in ["owner=1000", "group=50", "mode=0110", "state=unavailable"] {
            apply(&mut rights, change).unwrap();
        }
        assert_eq!(rights, NodeRights { state: NodeState::Unavailable, owner: 1000, group: 50, mode: 0o110 });
        for wrong in ["", "owner", "owner=nobody-of-this-name", "mode=9", "state=down", "colour=red"] {
            assert!(apply(&mut rights, wrong).is_err(), "{wrong}");
        }
    }
}
