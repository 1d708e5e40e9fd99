//! `tern hosts`.

use control_protocol::hosts::{HeldHosts, HostsOrder, Term};
use control_protocol::tool::{Answer, Request};

use crate::args::Hosts;
use crate::{Dirs, Error, client, show};

/// Does what is asked. Gives the exit status: 1 if hosts were asked for, and there is none.
pub(crate) fn hosts(dirs: &Dirs, what: &Hosts) -> Result<u8, Error> {
    let (order, output, is_request) = match what {
        Hosts::List(output) => (HostsOrder::List, *output, false),
        Hosts::Request { count, long, holder, output } => {
            let term = if *long { Term::Long } else { Term::Short };
            (HostsOrder::Request { wanted: *count, term, holder: *holder }, *output, true)
        }
        Hosts::Release { hosts, holder, output } => {
            (HostsOrder::Release { hosts: hosts.clone(), holder: *holder }, *output, false)
        }
    };
    let Answer::Hosts(held) = client::ask(dirs, &Request::Hosts(order))? else {
        return Err(client::unexpected());
    };
    let has_none = held.iter().all(|held| held.hosts.is_empty());
    crate::show(output, &held, || match is_request {
        true => held.iter().flat_map(|held| &held.hosts).map(|host| format!("{host}\n")).collect(),
        false => table(&held),
    });
    Ok(u8::from(is_request && has_none))
}

fn table(held: &[HeldHosts]) -> String {
    let cells = held.iter().map(|held| {
        let lost = held.lost.iter().map(|(host, why)| format!("{host}: {}", show::printable(why)));
        vec![
            held.pid.to_string(),
            format!("{} of {}", held.hosts.len(), held.wanted),
            if held.term == Term::Long { "long" } else { "short" }.into(),
            held.hosts.join(" "),
            lost.collect::<Vec<_>>().join("; "),
        ]
    });
    show::table(&["PID", "HOLDS", "FOR", "HOSTS", "LOST"], &cells.collect::<Vec<_>>())
}
