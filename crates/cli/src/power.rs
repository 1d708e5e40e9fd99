//! `tern halt` and `tern reboot`: nodes are drained, and then end.

use std::io::{BufRead as _, IsTerminal as _};

use control_protocol::power::PowerOrder;
use control_protocol::tool::{Answer, Request};

use crate::args::{self, Output, Power};
use crate::{Dirs, Error, client, drain, nodes};

/// Ends the nodes. Gives the exit status: 1 if one of them stays up.
pub(crate) fn power(dirs: &Dirs, args: &Power, order: PowerOrder) -> Result<u8, Error> {
    let nodes = nodes::chosen(dirs, &args.nodes)?;
    if !args.yes {
        confirm(&nodes, order)?;
    }
    let mut worst = 0;
    for node in nodes {
        let status = end(dirs, &node, order, args.now).unwrap_or_else(|e| {
            e.print();
            1
        });
        worst = worst.max(status);
    }
    Ok(worst)
}

/// Ends one node, if its guests have left or are not waited for.
fn end(dirs: &Dirs, node: &str, order: PowerOrder, now: bool) -> Result<u8, Error> {
    if !now {
        let output = Output { json: false };
        let args =
            args::Drain { node: Some(node.to_owned()), by_s: None, plan: false, if_shutting_down: false, output };
        if drain::drain(dirs, &args)? != 0 {
            eprintln!("tern: {node} stays up: a guest stays there (--now ends it with the machine)");
            return Ok(1);
        }
    }
    match client::ask(dirs, &Request::Power { node: node.to_owned(), order })? {
        Answer::Done => crate::print(&format!("{node}: {}\n", order.word())),
        _ => return Err(client::unexpected()),
    }
    Ok(0)
}

/// Asks the user.
fn confirm(nodes: &[String], order: PowerOrder) -> Result<(), Error> {
    let no = |why: &str| Error::Refused { reason: why.to_owned(), hint: Some("--yes does not ask".to_owned()) };
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(no("nobody can be asked: standard input is no terminal"));
    }
    eprint!("{} {}? [y/N] ", order.word(), nodes.join(", "));
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    read.map_err(|source| Error::Local { what: "read the answer", source })?;
    match line.trim() {
        "y" | "yes" => Ok(()),
        _ => Err(no("not done")),
    }
}
