//! `tern bench streams`: two processes that talk over a connected stream, by where they run: both
//! at home (native), one moved, both moved to different nodes, both moved to one node; beside them
//! a TCP connection between two nodes without tern.

use crate::balance::ask;
use crate::run::me;
use crate::{Error, On};
use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The arguments of `tern bench streams`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    on: On,
    /// Second node, for processes that are moved to different nodes
    #[arg(long)]
    then: Option<String>,
    /// Program that runs a command on another node, as ssh does (`dist/on-node`), to measure TCP
    /// between nodes; without it this is left out
    #[arg(long)]
    on_node: Option<PathBuf>,
    /// Port at which a process of the benchmark listens
    #[arg(long, default_value_t = 7701)]
    port: u16,
}

/// The sizes of messages, bytes.
const SIZES: [u64; 4] = [1, 1 << 10, 16 << 10, 64 << 10];

/// The result of one stream between two places.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The kind of the stream: tcp or unix.
    pub stream: String,
    /// The places of the two processes.
    pub placement: String,
    /// Median round trips, by the size of messages.
    pub round_trips: Vec<RoundTrip>,
    /// Bandwidth in one direction, MB/s.
    pub mb_s: f64,
}

/// The time of one round trip.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RoundTrip {
    /// Size of the message, bytes.
    pub bytes: u64,
    /// Microseconds until the same message has come back.
    pub us: f64,
}

/// Where the two processes go before they are measured.
struct Placement<'a> {
    name: &'static str,
    server: Option<&'a str>,
    asker: Option<&'a str>,
}

/// A process of a pair, which ends with this value.
struct Talker {
    child: Child,
    said: BufReader<ChildStdout>,
    pid: String,
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Talker {
    fn start(mut command: Command) -> Result<Talker, Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Error::system("starting a process that talks"))?;
        let ended = || Error::system("starting a process that talks")(std::io::ErrorKind::BrokenPipe.into());
        let said = BufReader::new(child.stdout.take().ok_or_else(ended)?);
        let mut talker = Talker { child, said, pid: String::new() };
        talker.pid = talker.hear()?;
        Ok(talker)
    }

    fn hear(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.said.read_line(&mut line).map_err(Error::system("hearing a process that talks"))?;
        if line.ends_with('\n') {
            return Ok(line.trim().to_owned());
        }
        let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        Err(Error::Failed { command: "a process that talks".into(), status, output: line })
    }

    fn measured(&mut self, order: &str) -> Result<f64, Error> {
        if let Some(input) = self.child.stdin.as_mut() {
            writeln!(input, "{order}").map_err(Error::system("asking a process that talks"))?;
        }
        let said = self.hear()?;
        said.parse().map_err(|_| Error::Failed { command: order.into(), status: "said no figure".into(), output: said })
    }

    fn go(&self, to: Option<&str>) -> Result<(), Error> {
        to.map_or(Ok(()), |node| ask(&["move", &self.pid, node]).map(drop))
    }
}

fn guest(words: &[&str]) -> Result<Command, Error> {
    let mut command = Command::new(me()?);
    command.arg("__bench-guest").args(words);
    Ok(command)
}

/// Runs all measurements.
pub fn measure(args: &Args) -> Result<String, Error> {
    let on = args.on.on.as_str();
    let mut placements = vec![
        Placement { name: "both at home", server: None, asker: None },
        Placement { name: "one end moved", server: Some(on), asker: None },
        Placement { name: "both in one room", server: Some(on), asker: Some(on) },
    ];
    if let Some(then) = args.then.as_deref() {
        placements.push(Placement { name: "both moved apart", server: Some(on), asker: Some(then) });
    }
    let mut rows = Vec::new();
    for stream in ["tcp", "unix"] {
        for placement in &placements {
            rows.push(moved(args, stream, placement)?);
        }
    }
    if let Some(on_node) = &args.on_node {
        rows.push(direct(args, on_node)?);
    }
    Ok(if args.on.json { crate::figures::json(&rows) } else { table(&rows) })
}

fn moved(args: &Args, stream: &str, placement: &Placement<'_>) -> Result<Row, Error> {
    eprintln!("{stream}, {}", placement.name);
    let path = args.on.dir.join(format!("tern-bench-streams-{}", std::process::id()));
    let at = match stream {
        "tcp" => format!("tcp:127.0.0.1:{}", args.port),
        _ => format!("unix:{}", path.display()),
    };
    let server = Talker::start(guest(&["talk-serve", &at])?)?;
    let asker = Talker::start(guest(&["talk-ask", &at])?)?;
    let _ = std::fs::remove_file(path);
    server.go(placement.server)?;
    asker.go(placement.asker)?;
    timed(args, asker, stream, placement.name)
}

/// Measures a TCP connection from this node to a process of another one.
fn direct(args: &Args, on_node: &std::path::Path) -> Result<Row, Error> {
    eprintln!("tcp, direct");
    let nodes: serde_json::Value = serde_json::from_str(&ask(&["nodes", "--json"])?).unwrap_or_default();
    let node = nodes.as_array().into_iter().flatten().find(|n| n["name"] == args.on.on.as_str());
    let address = node.and_then(|n| n["address"].as_str()?.rsplit_once(':').map(|(host, _)| host.to_owned()));
    let address = address.ok_or_else(|| Error::Refused { why: format!("{} is no node of the cluster", args.on.on) })?;
    let at = format!("tcp:{address}:{}", args.port + 1);
    let mut there = Command::new(on_node);
    there.arg(&args.on.on).arg(me()?).args(["__bench-guest", "talk-serve", &at]);
    let _server = Talker::start(there)?;
    timed(args, Talker::start(guest(&["talk-ask", &at])?)?, "tcp", "direct between nodes")
}

fn timed(args: &Args, mut asker: Talker, stream: &str, placement: &str) -> Result<Row, Error> {
    let (count, mib, samples) = if args.on.quick { (20, 2, 3) } else { (500, 64, 5) };
    asker.measured(&format!("ping 1 {}", count / 10))?;
    let mut round_trips = Vec::new();
    for bytes in SIZES {
        let us = (0..samples).map(|_| Ok(asker.measured(&format!("ping {bytes} {count}"))? / 1e3));
        let us = us.collect::<Result<Vec<f64>, Error>>()?;
        round_trips.push(RoundTrip { bytes, us: crate::stats::median_and_least(&us).0 });
    }
    let mb_s = asker.measured(&format!("bulk {mib}"))?;
    Ok(Row { stream: stream.into(), placement: placement.into(), round_trips, mb_s })
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<6} {:<22}", "stream", "processes");
    for bytes in SIZES {
        let _ = write!(text, " {:>12}", format!("us, {bytes} B"));
    }
    let _ = writeln!(text, " {:>9} {:>10} {:>10} {:>10}", "MB/s", "x native", "x direct", "MB/s share");
    let of = |stream: &str, placement: &str| rows.iter().find(|r| r.stream == stream && r.placement == placement);
    let first = |row: &Row| row.round_trips.first().map_or(f64::NAN, |r| r.us);
    for row in rows {
        let _ = write!(text, "{:<6} {:<22}", row.stream, row.placement);
        for trip in &row.round_trips {
            let _ = write!(text, " {:>12.1}", trip.us);
        }
        let native = of(&row.stream, "both at home").map_or(f64::NAN, |native| first(row) / first(native));
        let direct = of("tcp", "direct between nodes");
        let (latency, share) =
            direct.map_or((f64::NAN, f64::NAN), |direct| (first(row) / first(direct), row.mb_s / direct.mb_s));
        let _ = writeln!(text, " {:>9.1} {native:>10.2} {latency:>10.2} {share:>10.3}", row.mb_s);
    }
    text
}
