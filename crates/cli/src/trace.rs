//! `tern trace`: counts the calls of a process that is away.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use control_protocol::calls::{CallPlace, CallRow, CallsReport};
use control_protocol::tool::{Answer, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::args::Trace;
use crate::{Dirs, Error, Host, client, show};

/// How often the process is looked at: what it does between the last look and its end is lost.
const EVERY: Duration = Duration::from_millis(250);

/// The counts of a process since the trace began, over all nodes where it has been.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Counts {
    pid: i32,
    /// Nodes that it ran on, in order.
    nodes: Vec<String>,
    /// For how long it was looked at, milliseconds.
    for_ms: u64,
    rows: Vec<CallRow>,
}

/// Counts until Ctrl-C, the time that was given, or the end of the process.
pub(crate) fn trace(dirs: &Dirs, args: &Trace, host: Host) -> Result<u8, Error> {
    let interrupts = (host.interrupts)().map_err(|source| Error::Local { what: "watch for interrupts", source })?;
    let begun = Instant::now();
    let mut tally = Tally::default();
    let Some(first) = ask(dirs, args)? else { return Err(Error::NotAway { pid: args.pid }) };
    tally.begin(&first);
    let over = args.for_s.map(|s| Duration::from_secs(s.into()));
    loop {
        let left = over.map_or(EVERY, |over| over.saturating_sub(begun.elapsed()).min(EVERY));
        let interrupted = left.is_zero() || waited(&interrupts, left)?;
        // A process that has ended has no owner, of which the daemon would tell.
        match ask(dirs, args) {
            Ok(report) => tally.see(report.as_ref()),
            Err(_) if !std::path::Path::new(&format!("/proc/{}", args.pid)).exists() => break,
            Err(e) => return Err(e),
        }
        if interrupted {
            break;
        }
    }
    let for_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let counts = tally.counts(args.pid, for_ms);
    Ok(crate::show(args.output, &counts, || shown(&counts)))
}

fn ask(dirs: &Dirs, args: &Trace) -> Result<Option<CallsReport>, Error> {
    match client::ask(dirs, &Request::Calls { pid: args.pid, family: args.family })? {
        Answer::Calls(report) => Ok(report),
        _ => Err(client::unexpected()),
    }
}

/// Waits for an interrupt for so long. Tells whether one came.
fn waited(interrupts: &OwnedFd, for_: Duration) -> Result<bool, Error> {
    let timeout = Timespec::try_from(for_).ok();
    let mut one = [PollFd::new(interrupts, PollFlags::IN)];
    let came = rustix::io::retry_on_intr(|| poll(&mut one, timeout.as_ref()));
    came.map(|came| came > 0).map_err(|e| Error::Local { what: "wait", source: e.into() })
}

/// The name of a call, and where it was served.
type Key = (String, CallPlace);

/// Adds up what the rooms say: each counts from the moment when the process came.
#[derive(Debug, Default)]
struct Tally {
    nodes: Vec<String>,
    before: BTreeMap<Key, CallRow>,
    sums: BTreeMap<Key, CallRow>,
}

impl Tally {
    /// Begins the sums: calls before this moment do not count.
    fn begin(&mut self, report: &CallsReport) {
        self.nodes.push(report.node.clone());
        self.before = by_key(report);
    }

    /// Takes over what a room says now; none while the process is at home.
    fn see(&mut self, report: Option<&CallsReport>) {
        let Some(report) = report else { return };
        if self.nodes.last() != Some(&report.node) {
            self.nodes.push(report.node.clone());
            self.before.clear();
        }
        let now = by_key(report);
        // The process has left and come back meanwhile.
        let began_anew =
            self.before.iter().any(|(key, before)| now.get(key).is_none_or(|row| row.calls < before.calls));
        if began_anew {
            self.before.clear();
        }
        for (key, row) in &now {
            let (calls, ns) = self.before.get(key).map_or((0, 0), |before| (before.calls, before.total_ns));
            let new = row.calls.saturating_sub(calls);
            if new == 0 {
                continue;
            }
            let sum = self.sums.entry(key.clone()).or_insert_with(|| CallRow { calls: 0, total_ns: 0, ..row.clone() });
            sum.calls += new;
            sum.total_ns = sum.total_ns.saturating_add(row.total_ns.saturating_sub(ns));
            // A call that was longer before the trace is not told from one of now.
            sum.longest_ns = sum.longest_ns.max(row.longest_ns).min(sum.total_ns);
        }
        self.before = now;
    }

    /// The sums, what took most time first.
    fn counts(self, pid: i32, for_ms: u64) -> Counts {
        let mut rows: Vec<CallRow> = self.sums.into_values().collect();
        rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.call.cmp(&b.call)));
        Counts { pid, nodes: self.nodes, for_ms, rows }
    }
}

fn by_key(report: &CallsReport) -> BTreeMap<Key, CallRow> {
    report.rows.iter().map(|row| ((row.call.clone(), row.place), row.clone())).collect()
}

fn shown(counts: &Counts) -> String {
    let all_ns = counts.rows.iter().map(|row| row.total_ns).sum::<u64>();
    let cells = counts.rows.iter().map(|row| {
        vec![
            format!("{:.1}", row.total_ns as f64 * 100.0 / all_ns.max(1) as f64),
            format!("{:.6}", row.total_ns as f64 / 1e9),
            (row.total_ns / row.calls.max(1) / 1000).to_string(),
            (row.longest_ns / 1000).to_string(),
            row.calls.to_string(),
            row.call.clone(),
            match row.place {
                CallPlace::Node => "kernel",
                CallPlace::Room => "room",
                CallPlace::Home => "home",
            }
            .into(),
        ]
    });
    let calls: u64 = counts.rows.iter().map(|row| row.calls).sum();
    let at_home: u64 = counts.rows.iter().filter(|row| row.place == CallPlace::Home).map(|row| row.calls).sum();
    let seconds = counts.for_ms as f64 / 1000.0;
    let table = show::table(
        &["% TIME", "SECONDS", "US/CALL", "LONGEST US", "CALLS", "CALL", "SERVED"],
        &cells.collect::<Vec<_>>(),
    );
    format!("{table}{calls} calls in {seconds:.1} s on {}, {at_home} of them at home\n", counts.nodes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(node: &str, calls: u64) -> CallsReport {
        let row =
            CallRow { call: "read".into(), place: CallPlace::Home, calls, total_ns: calls * 1000, longest_ns: 1500 };
        CallsReport { pid: 7, node: node.into(), rows: vec![row] }
    }

    #[test]
    fn only_calls_of_the_time_of_the_trace_count_and_moves_lose_none() {
        let mut tally = Tally::default();
        tally.begin(&report("n2", 100));
        tally.see(Some(&report("n2", 110)));
        tally.see(None);
        tally.see(Some(&report("n3", 5)));
        tally.see(Some(&report("n3", 2)));
        let counts = tally.counts(7, 1000);
        assert_eq!(counts.rows[0].calls, 17);
        assert_eq!(counts.nodes, ["n2", "n3"]);
        let text = shown(&counts);
        assert!(text.contains("read") && text.ends_with("17 calls in 1.0 s on n2, n3, 17 of them at home\n"), "{text}");
    }

    #[test]
    fn silence_counts_nothing() {
        let mut tally = Tally::default();
        tally.begin(&report("n2", 100));
        tally.see(Some(&report("n2", 100)));
        assert_eq!(tally.counts(7, 0).rows, []);
    }
}
