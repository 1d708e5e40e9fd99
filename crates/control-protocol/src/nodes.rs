//! The grammar by which tools name nodes, everywhere the same.
//!
//! ```text
//! NODES = item { "," item }
//! item  = "all" | "idle" | "home" | "+" COUNT | "@" GROUP | name
//! name  = a node's name, in which [2-4,7] stands for each of these numbers, as wide as written
//! ```
//!
//! [`Nodes::parse`] knows no cluster, and so refuses only text that never names nodes.
//! [`Nodes::choose`] asks a list of nodes what the text stands for. No node is named twice, and the
//! order is that of the text. A group is what root of home calls the node's (`tern nodes --set`);
//! nodes that home does not let the user use are left out, unless they are named.

use crate::tool::NodeRow;
use std::fmt;
use std::str::FromStr;

mod ranges;

/// The word for the node that is asked.
pub const HOME: &str = "home";
/// The longest text, bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// The most nodes that one text names.
const NODES_MAX: usize = 4096;
/// The longest name of a node or a group, bytes (the label of a host name).
const NAME_BYTES_MAX: usize = 63;

/// Nodes as a user names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    text: String,
    items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    All,
    Idle,
    Home,
    /// So many nodes with the least load that no other item names.
    Count(usize),
    Group(String),
    Named(String),
}

/// Facts of one node by which a choice is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The name of the node.
    pub name: String,
    /// The node that is asked.
    pub is_home: bool,
    /// Whether the node is alive and takes guests.
    pub takes_guests: bool,
    /// Runnable tasks for each processor, thousandths; absent: not known.
    pub load_milli: Option<u32>,
    /// Whether home lets the user who asks use it.
    pub may_use: bool,
    /// The group that it belongs to, by its name and by its number.
    pub groups: Vec<String>,
}

impl NodeFacts {
    /// The facts of a row of `tern nodes`, for a user with these groups.
    pub fn of(row: &NodeRow, user: u32, groups: &[u32]) -> NodeFacts {
        let load = row.load.map(|(load, _)| load);
        let each = load.map(|load| u64::from(load.runnable_milli) * 1000 / u64::from(load.capacity_milli).max(1));
        NodeFacts {
            name: row.name.clone(),
            is_home: row.here,
            takes_guests: row.alive && row.suspended.is_none() && load.is_none_or(|load| load.rooms_max > 0),
            may_use: row.rights.check(user, groups).is_ok(),
            load_milli: each.map(|each| u32::try_from(each).unwrap_or(u32::MAX)),
            groups: row.group.iter().cloned().chain([row.rights.group.to_string()]).collect(),
        }
    }
}

/// Below this load a node is idle, thousandths of a runnable task for each processor.
const IDLE_BELOW_MILLI: u32 = 500;

/// Why a text names no nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodesError {
    /// The text does not follow the grammar.
    #[error("nodes {text:?}: {why}")]
    Grammar {
        /// The text as given, shortened.
        text: String,
        /// The reason, in words.
        why: &'static str,
    },
    /// No node has this name.
    #[error("no node of the cluster is called {name}")]
    Unknown {
        /// The name that the text says.
        name: String,
    },
    /// A node was named that is dead or takes no guests.
    #[error("node {name} is not alive, or takes no guests")]
    Unable {
        /// The name of the node.
        name: String,
    },
    /// There are fewer than wanted.
    #[error("{wanted} is wanted, and only {found} nodes are free for it")]
    TooFew {
        /// The item that says how many.
        wanted: String,
        /// How many there are.
        found: usize,
    },
    /// The text stands for no node at all now.
    #[error("no node is {text:?} now")]
    Nobody {
        /// The text as given.
        text: String,
    },
}

impl Nodes {
    /// Reads a text.
    ///
    /// # Errors
    /// [`NodesError::Grammar`].
    pub fn parse(text: &str) -> Result<Nodes, NodesError> {
        let wrong = |why| NodesError::Grammar { text: text.chars().take(80).collect(), why };
        if text.len() > TEXT_BYTES_MAX {
            return Err(wrong("the text is too long"));
        }
        let mut items = Vec::new();
        for part in ranges::parts(text).map_err(wrong)? {
            items.extend(item(part).map_err(wrong)?);
            if items.len() > NODES_MAX {
                return Err(wrong("too many nodes"));
            }
        }
        Ok(Nodes { text: text.to_owned(), items })
    }

    /// Gives the node if the text is one plain name, as most are.
    pub fn single(&self) -> Option<&str> {
        match self.items.as_slice() {
            [Item::Named(name)] => Some(name),
            [Item::Home] => Some(HOME),
            _ => None,
        }
    }

    /// Chooses among these nodes. `all` stands for every living node but home.
    ///
    /// # Errors
    /// A named node is not there or not able, a count is not reached, or nobody is left.
    pub fn choose(&self, cluster: &[NodeFacts]) -> Result<Vec<String>, NodesError> {
        let mut chosen: Vec<&str> = Vec::new();
        let explicit = self.items.iter().filter(|item| !matches!(item, Item::Count(_)));
        for name in explicit.map(|item| matching(item, cluster)).collect::<Result<Vec<_>, _>>()?.concat() {
            if !chosen.contains(&name) {
                chosen.push(name);
            }
        }
        for item in &self.items {
            let Item::Count(wanted) = item else { continue };
            let mut free: Vec<&NodeFacts> =
                others(cluster).filter(|node| !chosen.contains(&node.name.as_str())).collect();
            free.sort_by_key(|node| node.load_milli.unwrap_or(u32::MAX));
            if free.len() < *wanted {
                return Err(NodesError::TooFew { wanted: format!("+{wanted}"), found: free.len() });
            }
            chosen.extend(free.iter().take(*wanted).map(|node| node.name.as_str()));
        }
        if chosen.is_empty() {
            return Err(NodesError::Nobody { text: self.text.clone() });
        }
        Ok(chosen.into_iter().map(str::to_owned).collect())
    }
}

/// Nodes other than home that can be used.
fn others(cluster: &[NodeFacts]) -> impl Iterator<Item = &NodeFacts> {
    cluster.iter().filter(|node| node.takes_guests && node.may_use && !node.is_home)
}

fn matching<'a>(item: &Item, cluster: &'a [NodeFacts]) -> Result<Vec<&'a str>, NodesError> {
    let names = |wanted: &dyn Fn(&NodeFacts) -> bool| {
        Ok(others(cluster).filter(|node| wanted(node)).map(|node| node.name.as_str()).collect())
    };
    match item {
        Item::All => names(&|_| true),
        Item::Idle => names(&|node| node.load_milli.is_some_and(|load| load < IDLE_BELOW_MILLI)),
        Item::Group(group) => names(&|node| node.groups.contains(group)),
        Item::Home => Ok(cluster.iter().filter(|node| node.is_home).map(|node| node.name.as_str()).collect()),
        Item::Named(name) => {
            let found = cluster.iter().find(|node| node.name == *name);
            let node = found.ok_or_else(|| NodesError::Unknown { name: name.clone() })?;
            match node.takes_guests || node.is_home {
                true => Ok(vec![&node.name]),
                false => Err(NodesError::Unable { name: name.clone() }),
            }
        }
        Item::Count(_) => Ok(Vec::new()),
    }
}

fn item(part: &str) -> Result<Vec<Item>, &'static str> {
    if let Some(count) = part.strip_prefix('+') {
        let count = count.parse().ok().filter(|count| (1..=NODES_MAX).contains(count));
        return Ok(vec![Item::Count(count.ok_or("a number of nodes is expected behind +")?)]);
    }
    if let Some(group) = part.strip_prefix('@') {
        return match is_name(group) {
            true => Ok(vec![Item::Group(group.to_owned())]),
            false => Err("the name of a group is expected behind @"),
        };
    }
    match part {
        "all" => return Ok(vec![Item::All]),
        "idle" => return Ok(vec![Item::Idle]),
        HOME => return Ok(vec![Item::Home]),
        _ => {}
    }
    let names = ranges::expand(part, NODES_MAX)?;
    match names.iter().all(|name| is_name(name)) {
        true => Ok(names.into_iter().map(Item::Named).collect()),
        false => Err("names of nodes have letters, digits, and - _ . between them"),
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_allowed)
}

impl FromStr for Nodes {
    type Err = NodesError;

    fn from_str(text: &str) -> Result<Nodes, NodesError> {
        Nodes::parse(text)
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
