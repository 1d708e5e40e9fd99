//! Names of nodes in arguments.

use control_protocol::nodes::{NodeFacts, Nodes};
use control_protocol::tool::{Answer, NodeRow, Request};

use crate::{Dirs, Error, client};

/// Chooses the nodes that the text stands for now.
pub(crate) fn chosen(dirs: &Dirs, nodes: &Nodes) -> Result<Vec<String>, Error> {
    match client::ask(dirs, &Request::Nodes)? {
        Answer::Nodes(rows) => Ok(nodes.choose(&rows.iter().map(facts).collect::<Vec<_>>())?),
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

fn facts(row: &NodeRow) -> NodeFacts {
    let load = row.load.map(|(load, _)| load);
    let full = |milli: u32| u64::from(milli).max(1);
    NodeFacts {
        name: row.name.clone(),
        is_home: row.here,
        takes_guests: row.alive && row.suspended.is_none() && load.is_none_or(|load| load.rooms_max > 0),
        load_milli: load.map(|load| {
            let each = u64::from(load.runnable_milli) * 1000 / full(load.capacity_milli);
            u32::try_from(each).unwrap_or(u32::MAX)
        }),
        group: None,
    }
}
