//! `tern bench spawn`: processes that begin on many nodes at once (Hendriks, BProc, Figs 5 and 6,
//! and the 15,000 processes), beside the same with fork(2) on this node alone.
//!
//! The program is libtern's example `many`: a copy of it on every node by `tern_vrfork`, each of
//! which forks. Its image is padded by memory whose pages are all different.

use crate::Error;
use crate::reach::output;
use crate::stats::{percentile, sorted};
use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};
use sim::{AxisLabel, Curve, svg_scaled};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The arguments of `tern bench spawn`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The example `many` of libtern, compiled (`cargo xtask library DIR` installs the library)
    #[arg(long)]
    program: PathBuf,
    /// Numbers of nodes at once; the default is one, and all others that are alive
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<usize>,
    /// Padding of the image, KiB
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1024, 4096, 16384, 65536])]
    kib: Vec<u64>,
    /// Also so many processes on each of the most nodes (BProc's paper: 150 on each of 100)
    #[arg(long, default_value_t = 150)]
    each: u32,
    /// Also start true(1) on the nodes by this program, such as `on-node` (see `tern bench reach`)
    #[arg(long)]
    ssh: Option<PathBuf>,
    /// Runs of each
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The result for one number of nodes and one image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Nodes that got processes.
    pub spawned_on: usize,
    /// Processes on each.
    pub each: u32,
    /// Padding of the image, KiB.
    pub kib: u64,
    /// Median time until all were there, seconds.
    pub spawn_s: f64,
    /// The same with fork(2) on this node.
    pub local_s: f64,
    /// Time until the first of each node was there.
    pub first_s: f64,
    /// Bytes that left this node, by its interfaces, without what it sends at rest.
    pub sent_bytes: u64,
    /// Time to start true(1) on as many nodes by ssh, if that was asked for.
    pub ssh_s: Option<f64>,
}

/// A run of the program.
struct Run {
    all_s: f64,
    first_s: f64,
    sent_bytes: u64,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    state: String,
    here: bool,
}

/// Runs all measurements, and gives the report.
pub fn measure(args: &Args) -> Result<String, Error> {
    let listed = output(tern(&["nodes", "--json"])?, b"")?;
    let listed: Vec<Node> =
        serde_json::from_slice(&listed).map_err(|e| Error::system("reading the nodes")(e.into()))?;
    let others: Vec<String> = listed.into_iter().filter(|n| !n.here && n.state == "alive").map(|n| n.name).collect();
    let most = others.len();
    let wanted = if args.nodes.is_empty() { vec![1, most] } else { args.nodes.clone() };
    if wanted.iter().any(|wanted| !(1..=most).contains(wanted)) {
        return Err(Error::Refused { why: format!("{most} other nodes are alive") });
    }
    // Rooms are made before anything is measured.
    run(&args.program, &others.join(","), 1, 0)?;
    let mut rows = Vec::new();
    for nodes in &wanted {
        for kib in &args.kib {
            rows.push(row(args, &others[..*nodes], 1, *kib)?);
        }
    }
    rows.push(row(args, &others[..wanted.iter().copied().max().unwrap_or(most)], args.each, 0)?);
    Ok(if args.json { crate::figures::json(&rows) } else { table(&rows) })
}

fn row(args: &Args, nodes: &[String], each: u32, kib: u64) -> Result<Row, Error> {
    eprintln!("{} nodes, {each} on each, {kib} KiB", nodes.len());
    let (named, here) = (nodes.join(","), format!("here:{}", nodes.len()));
    let (mut away, mut local, mut ssh) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.runs.max(1) {
        away.push(run(&args.program, &named, each, kib)?);
        local.push(run(&args.program, &here, each, kib)?.all_s);
        ssh.extend(args.ssh.as_ref().map(|program| by_ssh(program, nodes)).transpose()?);
    }
    let median = |values: Vec<f64>| percentile(&sorted(values.into_iter()), 50);
    Ok(Row {
        spawned_on: nodes.len(),
        each,
        kib,
        spawn_s: median(away.iter().map(|run| run.all_s).collect()),
        local_s: median(local),
        first_s: median(away.iter().map(|run| run.first_s).collect()),
        sent_bytes: median(away.iter().map(|run| run.sent_bytes as f64).collect()) as u64,
        ssh_s: (!ssh.is_empty()).then(|| median(ssh)),
    })
}

/// Runs the program until all of its processes are there, and ends them.
fn run(program: &Path, nodes: &str, each: u32, kib: u64) -> Result<Run, Error> {
    let failed = || Error::system(format!("running {}", program.display()));
    let before = sent_bytes();
    let mut command = Command::new(program);
    command.args([nodes, &each.to_string(), &kib.to_string()]).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(failed())?;
    let mut lines =
        BufReader::new(child.stdout.take().ok_or_else(|| Error::Refused { why: "no output".into() })?).lines();
    let mut said = Vec::new();
    let times = loop {
        let Some(line) = lines.next().transpose().map_err(failed())? else { break None };
        said.push(line);
        if let Some(times) = said.last().and_then(|line| times_of(line)) {
            break Some(times);
        }
    };
    let sent = sent_bytes().saturating_sub(before);
    let group = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process_group(group, rustix::process::Signal::TERM).map_err(|e| failed()(e.into()))?;
    let status = child.wait().map_err(failed())?;
    match times {
        Some((all_s, first_s)) if said.len() == 1 => Ok(Run { all_s, first_s, sent_bytes: sent }),
        _ => Err(Error::Failed {
            command: format!("{} {nodes}", program.display()),
            status: status.to_string(),
            output: said.join("; "),
        }),
    }
}

/// The times of the program's line about all of its processes.
fn times_of(line: &str) -> Option<(f64, f64)> {
    let (_, times) = line.split_once(" processes after ")?;
    let mut times = times.split(' ').filter_map(|word| word.parse().ok());
    Some((times.next()?, times.next()?))
}

/// Bytes that this node's interfaces have sent (proc_net_dev: the ninth number), but loopback's.
fn sent_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let sent = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        numbers.split_ascii_whitespace().nth(8)?.parse::<u64>().ok().filter(|_| name.trim() != "lo")
    };
    text.lines().filter_map(sent).sum()
}

/// Starts true(1) on all nodes at once by this program.
fn by_ssh(program: &Path, nodes: &[String]) -> Result<f64, Error> {
    let failed = || Error::system(format!("running {}", program.display()));
    let begun = Instant::now();
    let start = |node: &String| Command::new(program).args([node, "true"]).stdin(Stdio::null()).spawn();
    let started: Vec<_> = nodes.iter().map(start).collect::<Result<_, _>>().map_err(failed())?;
    for mut child in started {
        child.wait().map_err(failed())?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn tern(words: &[&str]) -> Result<Command, Error> {
    let mut command = Command::new(crate::run::tern()?);
    command.args(words);
    Ok(command)
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>5} {:>5} {:>7} {:>9} {:>9} {:>9} {:>7} {:>10} {:>12} {:>9}\n",
        "nodes", "each", "KiB", "spawn s", "first s", "local s", "ratio", "sent MiB", "MiB a node", "ssh s"
    );
    for r in rows {
        let sent = r.sent_bytes as f64 / f64::from(1 << 20);
        let ssh = r.ssh_s.map_or_else(|| "-".into(), |s| format!("{s:.3}"));
        let _ = writeln!(
            text,
            "{:>5} {:>5} {:>7} {:>9.3} {:>9.3} {:>9.3} {:>7.1} {:>10.1} {:>12.2} {:>9}",
            r.spawned_on,
            r.each,
            r.kib,
            r.spawn_s,
            r.first_s,
            r.local_s,
            r.spawn_s / r.local_s,
            sent,
            sent / r.spawned_on as f64,
            ssh
        );
    }
    text
}

/// Draws the time by size for one process (the paper's Fig 5), and by nodes for each size (Fig 6).
pub fn plots(rows: &[&Row]) -> Vec<(String, String)> {
    let of = |chosen: &dyn Fn(&Row) -> bool, point: &dyn Fn(&Row) -> (f64, f64)| {
        rows.iter().filter(|r| r.each == 1 && chosen(r)).map(|r| point(r)).collect::<Vec<_>>()
    };
    let curve = |name: String, points: Vec<(f64, f64)>| Curve { name, points };
    let mib = |r: &Row| r.kib as f64 / 1024.0;
    let one = [
        curve("to another node".into(), of(&|r| r.spawned_on == 1, &|r| (mib(r), r.spawn_s))),
        curve("fork(2)".into(), of(&|r| r.spawned_on == 1, &|r| (mib(r), r.local_s))),
    ];
    let mut sizes: Vec<u64> = rows.iter().map(|r| r.kib).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let by_nodes: Vec<Curve> = sizes
        .iter()
        .map(|kib| curve(format!("{kib} KiB"), of(&|r| r.kib == *kib, &|r| (r.spawned_on as f64, r.spawn_s))))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let linear = AxisLabel::linear;
    vec![
        ("spawn-by-size.svg".into(), svg_scaled("A process on one node", linear("MiB"), linear("s"), &one)),
        ("spawn-by-nodes.svg".into(), svg_scaled("One on each node", linear("nodes"), linear("s"), &by_nodes)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_line_is_understood() {
        let line = "15000 processes after 48.686 s, 35.193 s of them for the first of each node";
        assert_eq!(times_of(line), Some((48.686, 35.193)));
        assert_eq!(times_of("n4: Host is down"), None);
    }
}
