//! Results for people: aligned columns, plain words.

use std::collections::HashMap;
use std::fmt::Write as _;

use control_protocol::facts::{Availability, Finding, Grade, Load};
use control_protocol::history::ago;
use control_protocol::rights::NodeState;
use control_protocol::tool::{NodeRow, PsRow, WhyReport};

/// The silence of a node from which on it is shown, milliseconds. Below it, the next packet may
/// answer.
const SILENT_FROM_MS: u64 = 1000;

/// Formats rows under a header, with two spaces between aligned columns; the last column is not
/// padded.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..header.len())
        .map(|i| {
            rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).chain([header[i].len()]).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<&str> = cells.collect();
        let mut text = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let pad = if i + 1 == cells.len() { 0 } else { widths[i].saturating_sub(cell.chars().count()) + 2 };
            let _ = write!(text, "{cell}{:pad$}", "");
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(&mut header.iter().copied());
    rows.iter().for_each(|r| line(&mut r.iter().map(String::as_str)));
    out
}

pub(crate) fn nodes(rows: &[NodeRow]) -> String {
    let cells = rows.iter().map(|r| {
        let load = r.load.map(|(l, _)| l).filter(|_| r.alive);
        let show = |f: &dyn Fn(&Load) -> String| load.as_ref().map_or_else(|| "-".into(), f);
        vec![
            format!("{}{}", r.name, if r.here { " *" } else { "" }),
            match r.suspended {
                Some(spell) => format!("suspended {}", age(spell.since_ms / 1000)),
                None => state(r).into(),
            },
            show(&|l| format!("{:.2}", f64::from(l.runnable_milli) / 1e3)),
            show(&|l| match l.capacity_milli {
                whole if whole == l.cores * 1000 => l.cores.to_string(),
                milli => format!("{:.2} of {}", f64::from(milli) / 1e3, l.cores),
            }),
            show(&|l| format!("{:.2}", f64::from(l.speed_milli) / 1e3)),
            show(&|l| format!("{}/{}", mib(l.available_mib.into()), mib(l.memory_mib.into()))),
            show(&|l| l.rooms.to_string()),
            show(&availability),
            r.address.clone(),
        ]
    });
    table(
        &["NODE", "STATE", "LOAD", "CORES", "SPEED", "FREE/MEM", "ROOMS", "GUESTS", "ADDRESS"],
        &cells.collect::<Vec<_>>(),
    )
}

/// Says whether a node answers, in a word.
pub(crate) fn state(row: &NodeRow) -> &'static str {
    match row.suspended {
        Some(_) => "suspended",
        None if row.alive && row.rights.state == NodeState::Unavailable => "unavailable",
        None if row.alive => "alive",
        None => "down",
    }
}

/// Says whether a node takes guests, and why not.
fn availability(load: &Load) -> String {
    match load.availability {
        Availability::Open => "open".into(),
        Availability::Idle => format!("idle {}", age(load.unused_s.into())),
        Availability::InUse => "in use".into(),
        Availability::Busy => "busy".into(),
        Availability::Draining => "draining".into(),
        Availability::Closed => "closed".into(),
    }
}

pub(crate) fn ps(rows: &[PsRow]) -> String {
    let users = users();
    let cells = rows.iter().map(|r| {
        let g = &r.guest;
        vec![
            g.pid.to_string(),
            users.get(&g.uid).cloned().unwrap_or_else(|| g.uid.to_string()),
            whereabouts(r),
            g.shown_state().to_string(),
            cpu_time(g.cpu_us),
            mib(g.rss_bytes >> 20),
            g.threads.to_string(),
            printable(&g.command),
        ]
    });
    table(&["PID", "USER", "NODE", "S", "TIME", "RSS", "THREADS", "COMMAND"], &cells.collect::<Vec<_>>())
}

/// Gives the node of a process, and the state of the link to it.
fn whereabouts(row: &PsRow) -> String {
    match row.silent_ms.filter(|ms| *ms >= SILENT_FROM_MS) {
        _ if !row.connected => format!("{} (cut off)", row.node),
        Some(ms) => format!("{} (silent for {} s)", row.node, ms / 1000),
        None => row.node.clone(),
    }
}

/// Formats the report on a process: first its state, then its history.
pub(crate) fn why(report: &WhyReport) -> String {
    let mut text: String = report.lines.iter().map(|line| format!("{}\n", printable(line))).collect();
    for event in &report.history {
        let when = ago(report.now_ms.saturating_sub(event.at_ms));
        let _ = writeln!(text, "{when}: {}", printable(&event.words()));
    }
    text
}

pub(crate) fn findings(findings: &[Finding]) -> String {
    let cells = findings.iter().map(|f| {
        let grade = match f.grade {
            Grade::Good => "ok",
            Grade::Costs => "costs",
            Grade::Bad => "BAD",
        };
        vec![f.subject.clone(), grade.into(), f.detail.clone()]
    });
    table(&["WHAT", "", "FOUND"], &cells.collect::<Vec<_>>())
}

pub(crate) fn mib(mib: u64) -> String {
    if mib >= 10 << 10 { format!("{}G", mib >> 10) } else { format!("{mib}M") }
}

pub(crate) fn cpu_time(us: u64) -> String {
    let s = us / 1_000_000;
    if s >= 3600 {
        format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    } else {
        format!("{}:{:02}.{:02}", s / 60, s % 60, us / 10_000 % 100)
    }
}

/// Formats a time as ps(1) does (etime): `[[DD-]hh:]mm:ss`.
pub(crate) fn age(s: u64) -> String {
    let (days, hours, minutes, seconds) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes:02}:{seconds:02}"),
        (0, _) => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// Replaces control characters: a program chooses its command line, and must not control the
/// terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Reads user names from /etc/passwd, because a static program has no name service.
/// The names of this machine's users.
pub(crate) fn users() -> HashMap<u32, String> {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    text.lines()
        .filter_map(|l| {
            let mut fields = l.split(':');
            let name = fields.next()?;
            Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let rows = vec![vec!["n1".into(), "x".into()], vec!["long-name".into(), String::new()]];
        assert_eq!(table(&["A", "B"], &rows), "A          B\nn1         x\nlong-name\n");
    }

    #[test]
    fn units() {
        assert_eq!(cpu_time(61_230_000), "1:01.23");
        assert_eq!(cpu_time(3_661_000_000), "1:01:01");
        assert_eq!((age(75), age(3661), age(90_061)), ("01:15".into(), "01:01:01".into(), "1-01:01:01".into()));
        assert_eq!((mib(512), mib(20480)), ("512M".into(), "20G".into()));
        assert_eq!(printable("a\x1b[31mb\n"), "a?[31mb?");
    }
}
