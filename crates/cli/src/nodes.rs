//! Names of nodes in arguments.

use control_protocol::nodes::{NodeFacts, Nodes};
use control_protocol::tool::{Answer, NodeRow, Request};

use crate::{Dirs, Error, client};

/// Chooses the nodes that the text stands for now.
pub(crate) fn chosen(dirs: &Dirs, nodes: &Nodes) -> Result<Vec<String>, Error> {
    match client::ask(dirs, &Request::Nodes)? {
        Answer::Nodes(rows) => Ok(nodes.choose(&facts(&rows))?),
        _ => Err(client::unexpected()),
    }
}

/// Gives the one node that the text stands for: the first, if there are several.
pub(crate) fn one(dirs: &Dirs, text: &str) -> Result<String, Error> {
    let nodes = Nodes::parse(text)?;
    if let Some(name) = nodes.single() {
        return Ok(name.to_owned());
    }
    Ok(chosen(dirs, &nodes)?.swap_remove(0))
}

/// Says about nodes who of this home may use them. Nodes may be down.
pub(crate) fn set(dirs: &Dirs, nodes: &Nodes, changes: &[String]) -> Result<(), Error> {
    let Answer::Nodes(rows) = client::ask(dirs, &Request::Nodes)? else { return Err(client::unexpected()) };
    let there = |row| NodeFacts { takes_guests: true, may_use: true, ..row };
    let nodes = nodes.choose(&facts(&rows).into_iter().map(there).collect::<Vec<_>>())?;
    client::ask(dirs, &Request::SetNodes { nodes, changes: changes.to_vec() }).map(drop)
}

fn facts(rows: &[NodeRow]) -> Vec<NodeFacts> {
    let (user, groups) = (rustix::process::geteuid().as_raw(), groups());
    rows.iter().map(|row| NodeFacts::of(row, user, &groups)).collect()
}

fn groups() -> Vec<u32> {
    let more = rustix::process::getgroups().unwrap_or_default();
    let own = rustix::process::getegid();
    std::iter::once(own).chain(more).map(rustix::process::Gid::as_raw).collect()
}
