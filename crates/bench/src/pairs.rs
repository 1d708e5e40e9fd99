//! `tern bench pairs`: every node of a set sends a process to another one at the same time (the pattern of SCore-D's consistent checkpoints), beside plain TCP
//! streams in the same pattern, and beside writing each process to its node's disk. It runs on a lab: the machine of its nodes is shared, so their
//! processors bound all of it; the streams say how much.

use crate::pair::{Done, PROGRAM};
use crate::run::me;
use crate::stats::sorted;
use crate::{Error, checkpoint, victim};
use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Where sinks listen.
const SINK_PORT: u16 = 7700;
/// Pairs from which on processes become smaller, so that all of them need no more memory.
const FULL_SIZE_PAIRS: u64 = 16;

/// `tern bench pairs`
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The lab: it needs two nodes for each pair
    #[arg(long, default_value = "lab")]
    lab: String,
    /// How many pairs at once
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
    pairs: Vec<u64>,
    /// Memory of a process, MiB; with more than 16 pairs as much less
    #[arg(long, default_value_t = 128)]
    mib: u64,
    /// How it goes
    #[arg(long, default_value = "stop")]
    how: String,
    /// What the link between nodes is called in the report (the lab's --rate)
    #[arg(long, default_value = "unlimited")]
    link: String,
    /// Directory of this machine for checkpoints: its disk is what they measure
    #[arg(long, default_value = "/var/tmp")]
    dir: PathBuf,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// So many pairs at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub link: String,
    pub pairs: u64,
    pub mib: u64,
    pub way: String,
    pub moves: Rates,
    /// Plain TCP in the same pattern.
    pub streams: Rates,
    /// Of moves to streams, all together.
    pub share: f64,
    /// Written to the disk and synced; all nodes have the same disk.
    pub checkpoints: Rates,
    /// For how long processes stood still, the longest, milliseconds: moved, and written.
    pub still_ms: [f64; 2],
}

/// MB/s.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Rates {
    /// A node's, the least.
    pub least: f64,
    /// A node's, in the middle.
    pub median: f64,
    /// A node's, the most.
    pub most: f64,
    /// All together, until the last has ended.
    pub all: f64,
}

impl Rates {
    fn of(done: &[Done], took: Duration) -> Rates {
        let each = sorted(done.iter().map(|d| d.bytes as f64 / d.us));
        let bytes: u64 = done.iter().map(|d| d.bytes).sum();
        let at = |percent| crate::stats::percentile(&each, percent);
        Rates { least: at(0), median: at(50), most: at(100), all: bytes as f64 / took.as_secs_f64() / 1e6 }
    }
}

#[derive(Deserialize)]
struct Node {
    name: String,
    address: std::net::SocketAddr,
}

/// Measures all; the report.
pub fn measure(args: &Args) -> Result<String, Error> {
    let dir = std::env::temp_dir().join(format!("tern-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
    let compiled = victim::compile_for_any(&dir);
    let program = compiled.and_then(|path| std::fs::read(&path).map_err(Error::system("reading the program")));
    let _ = std::fs::remove_dir_all(&dir);
    let program = program?;
    let rows: Vec<Row> = args.pairs.iter().map(|pairs| row(args, *pairs, &program)).collect::<Result<_, _>>()?;
    Ok(if args.json { crate::figures::json(&rows) } else { table(&rows) })
}

/// Where nodes have the program that is moved: its name is none that anybody else has.
fn place() -> PathBuf {
    PathBuf::from(format!("/var/tmp/tern-pairs-{}", std::process::id()))
}

/// A command in a node of the lab; it ends with us.
struct Remote(Child);

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn in_node(lab: &str, node: &str, words: &[String]) -> Result<Command, Error> {
    let mut command = Command::new(me()?);
    command.args(["lab", "--name", lab, "exec", node, "--", "tern"]).args(words).stdin(Stdio::piped());
    command.stdout(Stdio::piped());
    Ok(command)
}

/// One who sends.
struct Source {
    remote: Remote,
    said: BufReader<ChildStdout>,
}

impl Source {
    fn start(args: &Args, from: &str, to: &Node, mib: u64, program: &[u8]) -> Result<Source, Error> {
        let sink = std::net::SocketAddr::new(to.address.ip(), SINK_PORT);
        let words = ["bench", "pair", "--to", &to.name, "--sink", &sink.to_string(), "--mib", &mib.to_string()];
        let more = ["--how", &args.how, "--dir", &place().display().to_string()].map(str::to_owned);
        let words: Vec<String> = words.into_iter().map(str::to_owned).chain(more).collect();
        let failed = || Error::system(format!("running tern in {from}"));
        let mut child = in_node(&args.lab, from, &words)?.spawn().map_err(failed())?;
        let said = child.stdout.take().map(BufReader::new);
        let mut remote = Remote(child);
        let size = (program.len() as u64).to_le_bytes();
        if let Some(input) = remote.0.stdin.as_mut() {
            input.write_all(&size).and_then(|()| input.write_all(program)).map_err(failed())?;
        }
        let said = said.ok_or(std::io::ErrorKind::BrokenPipe.into()).map_err(failed())?;
        Ok(Source { remote, said })
    }

    fn tell(&mut self, word: &str) -> Result<(), Error> {
        let Some(input) = self.remote.0.stdin.as_mut() else { return Ok(()) };
        writeln!(input, "{word}").and_then(|()| input.flush()).map_err(Error::system("telling a node what to do"))
    }

    fn hear(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.said.read_line(&mut line).map_err(Error::system("hearing of a node"))?;
        let ended = || Error::Failed {
            command: "tern bench pair".into(),
            status: "it ended (what it said is above)".into(),
            output: line.clone(),
        };
        if line.ends_with('\n') { Ok(line.trim().to_owned()) } else { Err(ended()) }
    }
}

/// Each looks at all its memory, tidies up, and ends.
fn end(sources: Vec<Source>) -> Result<(), Error> {
    for mut source in sources {
        drop(source.remote.0.stdin.take());
        let status = source.remote.0.wait().map_err(Error::system("waiting for a node's part"))?;
        if !status.success() {
            let output = "what it said is above".to_owned();
            return Err(Error::Failed { command: "tern bench pair".into(), status: status.to_string(), output });
        }
    }
    Ok(())
}

/// All do the same at once.
fn together(sources: &mut [Source], word: &str) -> Result<(Vec<Done>, Duration), Error> {
    let begun = Instant::now();
    sources.iter_mut().try_for_each(|source| source.tell(word))?;
    let heard = sources.iter_mut().map(|source| {
        let line = source.hear()?;
        serde_json::from_str(&line).map_err(|e| Error::system("reading what a node has done")(e.into()))
    });
    let done = heard.collect::<Result<_, _>>()?;
    Ok((done, begun.elapsed()))
}

fn row(args: &Args, pairs: u64, program: &[u8]) -> Result<Row, Error> {
    eprintln!("{pairs} pairs");
    let mib = if pairs > FULL_SIZE_PAIRS { args.mib * FULL_SIZE_PAIRS / pairs } else { args.mib }.max(1);
    let nodes = nodes(&args.lab)?;
    let find = |number: u64| {
        let name = format!("n{number}");
        let missing = || Error::system(format!("looking for {name} in the lab"))(std::io::ErrorKind::NotFound.into());
        nodes.iter().find(|n| n.name == name).ok_or_else(missing)
    };
    let both = (0..pairs).map(|n| Ok((find(2 * n + 1)?, find(2 * n + 2)?))).collect::<Result<Vec<_>, Error>>()?;
    let sink = ["bench".to_owned(), "sink".to_owned(), "--once".to_owned(), format!("0.0.0.0:{SINK_PORT}")];
    let _sinks = both
        .iter()
        .map(|(_, to)| {
            in_node(&args.lab, &to.name, &sink)?.spawn().map(Remote).map_err(Error::system("running a sink"))
        })
        .collect::<Result<Vec<Remote>, _>>()?;
    let started = both.iter().map(|(from, to)| Source::start(args, &from.name, to, mib, program));
    let mut sources = started.collect::<Result<Vec<Source>, _>>()?;
    sources.iter_mut().try_for_each(|source| source.hear().map(drop))?;
    let (moved, moved_in) = together(&mut sources, "move")?;
    together(&mut sources, "home")?;
    let (streamed, streamed_in) = together(&mut sources, "stream")?;
    let begun = Instant::now();
    let written = checkpoint::all(&place().join(PROGRAM), &args.dir)?;
    let written_in = begun.elapsed();
    end(sources)?;
    let (moves, streams) = (Rates::of(&moved, moved_in), Rates::of(&streamed, streamed_in));
    let longest = |done: &[Done]| done.iter().map(|d| d.still_us / 1e3).fold(0.0, f64::max);
    Ok(Row {
        link: args.link.clone(),
        pairs,
        mib,
        way: args.how.clone(),
        moves,
        streams,
        share: moves.all / streams.all,
        checkpoints: Rates::of(&written, written_in),
        still_ms: [longest(&moved), longest(&written)],
    })
}

fn nodes(lab: &str) -> Result<Vec<Node>, Error> {
    let words = ["nodes", "--json"].map(str::to_owned);
    let done = in_node(lab, "n1", &words)?.output().map_err(Error::system("asking for the lab's nodes"))?;
    let wrong =
        |output: String| Error::Failed { command: "tern nodes".into(), status: done.status.to_string(), output };
    serde_json::from_slice(&done.stdout).map_err(|e| wrong(e.to_string()))
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<10} {:>5} {:>5} {:<5} {:>24} {:>9} {:>24} {:>9} {:>6} {:>9} {:>9} {:>9}\n",
        "link",
        "pairs",
        "MiB",
        "way",
        "move MB/s a node",
        "all",
        "stream MB/s a node",
        "all",
        "share",
        "disk all",
        "still ms",
        "on disk"
    );
    let each = |r: &Rates| format!("{:.0} ({:.0}..{:.0})", r.median, r.least, r.most);
    for r in rows {
        let _ = writeln!(
            text,
            "{:<10} {:>5} {:>5} {:<5} {:>24} {:>9.0} {:>24} {:>9.0} {:>6.2} {:>9.0} {:>9.1} {:>9.1}",
            r.link,
            r.pairs,
            r.mib,
            r.way,
            each(&r.moves),
            r.moves.all,
            each(&r.streams),
            r.streams.all,
            r.share,
            r.checkpoints.all,
            r.still_ms[0],
            r.still_ms[1]
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_each_and_of_all() {
        let done = [1u64, 2, 4].map(|mb| Done { bytes: mb * 1_000_000, us: 1e6, still_us: 0.0 });
        let rates = Rates::of(&done, Duration::from_secs(2));
        assert_eq!((rates.least, rates.median, rates.most, rates.all), (1.0, 2.0, 4.0, 3.5));
    }
}
