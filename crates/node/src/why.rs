//! `tern why`: where a process is, what has happened to it, and whether it could be moved.

use std::sync::Arc;

use control_protocol::history::Happening;
use control_protocol::steward::{FromSteward, ToSteward};
use control_protocol::tool::{Answer, WhyReport};
use packet::Peer;

use crate::daemon::Daemon;
use crate::owners::owner_or_root;
use crate::{Error, forecast, history, moving, policy_answers, rooms};

/// Below it a node's silence is not told: the next packet may answer.
const SILENT_FROM_MS: u64 = 1000;

/// Without a name, so many nodes are looked at.
const NODES_MAX: usize = 3;

pub(crate) fn why(daemon: &Arc<Daemon>, peer: Peer, pid: i32, to: Option<String>) -> Result<Answer, Error> {
    let owner = owner_or_root(peer, pid, "asking after another user's process")?;
    let mut report = where_it_is(daemon, pid);
    if !report.away {
        report.lines.push(format!("{pid} runs here, on {}: it is not away", report.node));
    }
    report.lines.extend(start(daemon, pid));
    match leaves_with(daemon, peer, pid, report.away) {
        Err(why) => report.lines.push(format!("it cannot be moved now: {why}")),
        Ok(others) => {
            if !others.is_empty() {
                let others: Vec<String> = others.iter().map(ToString::to_string).collect();
                let others = others.join(", ");
                report.lines.push(format!("it moves together with processes that share memory with it: {others}"));
            }
            report.lines.extend(places(daemon, pid, &report.node, to));
            if !report.away {
                report.lines.extend(forecast::forecast(pid, &daemon.experience()));
            }
        }
    }
    report.lines.extend(policy_answers::why(daemon, pid, owner));
    report.history = history::of(daemon, pid);
    report.now_ms = history::now_ms();
    Ok(Answer::Why(report))
}

/// The processes that would leave with it, or why the process cannot leave the place where it is,
/// whatever the destination; by the checks of `tern move`.
fn leaves_with(daemon: &Daemon, peer: Peer, pid: i32, away: bool) -> Result<Vec<i32>, String> {
    match moving::check(peer, pid) {
        Err(e) => Err(refused(e)),
        // Its room looks at it when it is to leave.
        Ok(()) if away => Ok(Vec::new()),
        Ok(()) => {
            let leaving = moving::Leaving::check(daemon, pid, false).map_err(refused)?;
            leaving.hosts.check_any().map_err(refused)?;
            (daemon.options.leaves_with)(pid)
        }
    }
}

/// The nodes to which it could be moved, or not and why: the one that is named, or some.
fn places(daemon: &Arc<Daemon>, pid: i32, node: &str, to: Option<String>) -> Vec<String> {
    let away = moving::room_of(daemon, pid).map(|away| away.guest);
    let others = || {
        let table = daemon.table();
        let names = table.iter().filter(|known| known.alive).map(|known| known.member.name.clone());
        names.filter(|name| name != node).take(NODES_MAX).collect::<Vec<_>>()
    };
    let names = to.map_or_else(others, |to| vec![to]);
    let (mut good, mut lines) = (Vec::new(), Vec::new());
    for name in names.into_iter().filter(|name| name != node) {
        match moving::rehearse(daemon, pid, away.as_ref(), &name) {
            Ok(()) => good.push(name),
            Err(e) => lines.push(format!("it cannot be moved to {name} now: {}", e.chain())),
        }
    }
    if !good.is_empty() {
        lines.insert(0, format!("it can be moved to {}", good.join(", ")));
    }
    lines
}

/// Asks the rooms whether one has it, and what is to be said of it there.
fn where_it_is(daemon: &Daemon, pid: i32) -> WhyReport {
    let mut report = WhyReport { pid, node: daemon.me().name, ..WhyReport::default() };
    for (id, steward) in rooms::stewards(&daemon.options.run_dir) {
        match steward.ask(&ToSteward::Why { pid }, &[]) {
            Ok(FromSteward::Why { lines }) if lines.is_empty() => {}
            Ok(FromSteward::Why { lines }) => {
                let host = steward.list().map(|(host, ..)| host).unwrap_or_default();
                // Asking the room for its list has sent something: by now its kernel has
                // acknowledged that, or is silent.
                report.silent_ms = steward.silent_ms().filter(|ms| *ms >= SILENT_FROM_MS);
                report.lines.extend(lines);
                if let Some(ms) = report.silent_ms {
                    report.lines.push(format!("{host} has not answered for {} s", ms / 1000));
                }
                (report.node, report.away) = (host, true);
            }
            Ok(_) => report.lines.push(format!("room {id}: unexpected answer")),
            Err(e) => report.lines.push(format!("room {id} does not answer: {e}")),
        }
    }
    report
}

/// The `tern run` that started it, in words.
fn start(daemon: &Daemon, pid: i32) -> Option<String> {
    let (first, event) = history::start_of(daemon, pid)?;
    let Happening::Placed { ref node, .. } = event.what else { return None };
    Some(match first == pid {
        true => format!("`tern run` started it, on {node}"),
        false => format!("it descends from process {first}, which `tern run` started on {node}"),
    })
}

/// The reason of a refusal in words, with its hint.
fn refused(e: Error) -> String {
    let hint = e.hint().map_or(String::new(), |hint| format!(" ({hint})"));
    match e {
        Error::NotMoved { why, .. } => why,
        e => e.chain() + &hint,
    }
}
