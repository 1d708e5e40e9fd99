//! `tern drain`, `tern undrain` and `tern notice`.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use control_protocol::drain::{DrainOrder, DrainReport, DrainState, DrainedGuest};
use control_protocol::tool::{Answer, Request};

use crate::args::{self, Output};
use crate::show::{self, printable};
use crate::{Dirs, Error, client};

/// The time between two requests for the state of the drain.
const ASKED_EVERY: Duration = Duration::from_millis(250);

fn ask(dirs: &Dirs, node: Option<&str>, order: DrainOrder) -> Result<DrainReport, Error> {
    match client::ask(dirs, &Request::Drain { node: node.map(str::to_owned), order })? {
        Answer::Drain(report) => Ok(report),
        _ => Err(client::unexpected()),
    }
}

/// Drains a node: prints the plan, and then what becomes of each guest. Gives the exit status: 1 if
/// a guest stays.
pub(crate) fn drain(dirs: &Dirs, args: &args::Drain) -> Result<u8, Error> {
    if args.if_shutting_down && !is_shutting_down() {
        return Ok(0);
    }
    let (node, by_ms) = (args.node.as_deref(), args.by_s.map(|s| u64::from(s) * 1000));
    if args.plan {
        let plan = ask(dirs, node, DrainOrder::Plan { by_ms })?;
        return Ok(crate::show(args.output, &plan, || shown(&plan)));
    }
    let plan = ask(dirs, node, DrainOrder::Begin { by_ms })?;
    if !args.output.json {
        crate::print(&shown(&plan));
    }
    let mut told = BTreeMap::new();
    loop {
        let report = ask(dirs, node, DrainOrder::Watch)?;
        if !args.output.json {
            report.guests.iter().filter_map(|guest| news(&mut told, guest)).for_each(|line| crate::print(&line));
        }
        if report.finished {
            if args.output.json {
                crate::show(args.output, &report, String::new);
            } else {
                crate::print(&summary(&report));
            }
            return Ok(u8::from(!report.guests.iter().all(|guest| guest.state.is_gone())));
        }
        std::thread::sleep(ASKED_EVERY);
    }
}

/// Takes guests again.
pub(crate) fn undrain(dirs: &Dirs, node: Option<&str>) -> Result<(), Error> {
    ask(dirs, node, DrainOrder::End).map(drop)
}

/// Drains this node, and names the processes of this home that end with it.
pub(crate) fn notice(dirs: &Dirs, by_s: u32, output: Output) -> Result<u8, Error> {
    if let Answer::Ps { rows, .. } = client::ask(dirs, &Request::Ps)? {
        for row in rows {
            let (pid, command) = (row.guest.pid, printable(&row.guest.command));
            eprintln!("tern: process {pid} of this home, on {} ({command}), ends with this machine", row.node);
        }
    }
    let args = args::Drain { node: None, by_s: Some(by_s), plan: false, if_shutting_down: false, output };
    drain(dirs, &args)
}

/// Tells whether systemd shuts this machine down.
fn is_shutting_down() -> bool {
    let said = Command::new("systemctl").arg("is-system-running").output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim() == "stopping")
}

/// Formats a plan.
fn shown(report: &DrainReport) -> String {
    if report.guests.is_empty() {
        return format!("no guest is on {}\n", report.node);
    }
    let cells = report.guests.iter().map(|guest| {
        let within = match guest.state {
            DrainState::TooLate => format!("{} s: too late", tenths(guest.ends_ms)),
            _ => format!("{} s", tenths(guest.ends_ms)),
        };
        vec![
            guest.home.clone(),
            guest.pid.to_string(),
            guest.to.clone().unwrap_or_else(|| "?".into()),
            show::mib(guest.bytes >> 20),
            within,
            printable(&guest.command),
        ]
    });
    let table = show::table(&["HOME", "ITS PID", "TO", "MEM", "WITHIN", "COMMAND"], &cells.collect::<Vec<_>>());
    let rate = report.bytes_per_s >> 20;
    format!("{table}the plan assumes {rate} MiB/s (tern policy set bandwidth_mib_s=)\n")
}

fn tenths(ms: u64) -> String {
    format!("{}.{}", ms / 1000, ms % 1000 / 100)
}

/// Gives the line about a guest whose state has changed.
fn news(told: &mut BTreeMap<(String, i32), DrainState>, guest: &DrainedGuest) -> Option<String> {
    let key = (guest.home.clone(), guest.pid);
    if matches!(guest.state, DrainState::Waits) || told.insert(key, guest.state.clone()).as_ref() == Some(&guest.state)
    {
        return None;
    }
    let name = format!("{} of {} ({})", guest.pid, guest.home, printable(&guest.command));
    let to = guest.to.as_ref().unwrap_or(&guest.home);
    match &guest.state {
        DrainState::Waits => None,
        DrainState::Goes => Some(format!("{name} goes\n")),
        DrainState::Gone { after_ms } => Some(format!("{name} went to {to} after {} s\n", tenths(*after_ms))),
        DrainState::TooLate => Some(format!("{name} stays: it cannot leave before the deadline\n")),
        DrainState::Stays { why } => Some(format!("{name} stays: {why}\n")),
    }
}

fn summary(report: &DrainReport) -> String {
    let gone = report.guests.iter().filter(|guest| guest.state.is_gone()).count();
    format!("{gone} of {} guests have left {}; it takes none until `tern undrain`\n", report.guests.len(), report.node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let mut guest = DrainedGuest {
            home: "n1".into(),
            pid: 7,
            command: "cc1".into(),
            bytes: 200 << 20,
            to: Some("n3".into()),
            ends_ms: 2150,
            state: DrainState::Waits,
        };
        let report = DrainReport {
            node: "n2".into(),
            bytes_per_s: 100 << 20,
            guests: vec![guest.clone(), DrainedGuest { state: DrainState::TooLate, ..guest.clone() }],
            ..DrainReport::default()
        };
        let plan = shown(&report);
        assert!(plan.contains("n1    7        n3  200M  2.1 s") && plan.contains("2.1 s: too late"), "{plan}");
        let mut told = BTreeMap::new();
        let mut say = |state| {
            guest.state = state;
            news(&mut told, &guest)
        };
        assert_eq!(say(DrainState::Waits), None);
        assert_eq!(say(DrainState::Goes).as_deref(), Some("7 of n1 (cc1) goes\n"));
        assert_eq!(say(DrainState::Goes), None);
        let gone = say(DrainState::Gone { after_ms: 2200 });
        assert_eq!(gone.as_deref(), Some("7 of n1 (cc1) went to n3 after 2.2 s\n"));
        assert!(summary(&report).starts_with("0 of 2 guests have left n2"));
    }
}
