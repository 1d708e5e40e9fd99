//! Lists of nodes and processes.

use control_protocol::nodes::{NodeFacts, Nodes};
use control_protocol::tool::{Answer, NodeRow, PsRow, Request};

use crate::daemon;
use crate::errors::{Errno, Outcome};

/// The nodes of the cluster, by name.
pub fn nodes() -> Outcome<Vec<NodeRow>> {
    match daemon::ask(&Request::Nodes, &[])?.0 {
        Answer::Nodes(rows) => Ok(rows),
        _ => Err(Errno(libc::EPROTO)),
    }
}

/// Processes of this home that are away: the caller's, or all for root.
pub fn processes() -> Outcome<Vec<PsRow>> {
    match daemon::ask(&Request::Ps, &[])?.0 {
        Answer::Ps { rows, .. } => Ok(rows),
        _ => Err(Errno(libc::EPROTO)),
    }
}

/// The node on which a process of this home runs.
pub fn node_of(pid: i32) -> Outcome<String> {
    match daemon::ask(&Request::Why { pid, to: None }, &[])?.0 {
        Answer::Why(report) => Ok(report.node),
        _ => Err(Errno(libc::EPROTO)),
    }
}

/// The nodes that a text of `tern sh` names.
pub fn named(text: &str) -> Outcome<Vec<String>> {
    let nodes_of = Nodes::parse(text).map_err(|_| Errno(libc::EINVAL))?;
    let user = rustix::process::geteuid().as_raw();
    let more = rustix::process::getgroups().unwrap_or_default().into_iter();
    let groups: Vec<u32> = more.chain([rustix::process::getegid()]).map(rustix::process::Gid::as_raw).collect();
    let facts: Vec<NodeFacts> = nodes()?.iter().map(|row| NodeFacts::of(row, user, &groups)).collect();
    nodes_of.choose(&facts).map_err(|_| Errno(libc::ENXIO))
}
