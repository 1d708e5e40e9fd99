//! `tern bench pairs`: every node of a set sends a process to another one at the same time (the
//! pattern of SCore-D's consistent checkpoints), beside plain TCP streams in the same pattern, and
//! beside writing each process to its node's disk. It runs on a lab, whose nodes share one machine,
//! so the processors bound all of it; the streams tell how much.

use crate::pair::{Done, PROGRAM};
use crate::remote::{Links, Node, Pair, Source, end, nodes, place, sink, together};
use crate::stats::sorted;
use crate::{Error, checkpoint, victim};
use clap::Args as ClapArgs;
use control_protocol::moves::parse_buffer;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The number of pairs from which on processes become smaller, so that all of them together need no
/// more memory.
const FULL_SIZE_PAIRS: u64 = 16;

/// The arguments of `tern bench pairs`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Name of the lab; it needs two nodes for each pair
    #[arg(long, default_value = "lab")]
    lab: String,
    /// Numbers of pairs at once
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
    pairs: Vec<u64>,
    /// Memory of a process, MiB; proportionally less with more than 16 pairs
    #[arg(long, default_value_t = 128)]
    mib: u64,
    /// Memory strategy of moves
    #[arg(long, default_value = "stop")]
    how: String,
    /// Bytes that are sent at once, such as 1k, 64k or 1M; auto: what the link takes in 10 ms
    #[arg(long, value_delimiter = ',', value_parser = buffer, default_values = ["auto"])]
    buffer: Vec<Buffer>,
    /// Directory of this machine for checkpoints, whose disk they measure
    #[arg(long, default_value = "/var/tmp")]
    dir: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The bytes that are sent at once, if given.
#[derive(Clone, Copy, Debug)]
struct Buffer(Option<u64>);

fn buffer(text: &str) -> Result<Buffer, String> {
    if text == "auto" { Ok(Buffer(None)) } else { parse_buffer(text).map(|bytes| Buffer(Some(bytes))) }
}

/// The result for one number of pairs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Rate of each node's link.
    pub link: String,
    /// The links between two nodes.
    pub distance: String,
    pub pairs: u64,
    pub mib: u64,
    pub way: String,
    /// Bytes that were sent at once, if given.
    pub buffer_bytes: Option<u64>,
    pub moves: Rates,
    /// Rates of plain TCP in the same pattern.
    pub streams: Rates,
    /// Rate of moves as a share of that of streams, all together.
    pub share: f64,
    /// Rate that the links allow each node, if they are limited.
    pub bound_mb_s: Option<f64>,
    /// Rate of one process that writes to disk alone, synced.
    pub disk_mb_s: f64,
    /// Rates of writing to disk and syncing; all nodes have the same disk.
    pub checkpoints: Rates,
    /// The longest stop of a process, milliseconds: moved, and written.
    pub still_ms: [f64; 2],
}

/// Rates of all nodes, MB/s.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Rates {
    /// The least rate of a node.
    pub least: f64,
    /// The median rate of a node.
    pub median: f64,
    /// The greatest rate of a node.
    pub most: f64,
    /// The rate of all together, until the last has ended.
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

/// Runs all measurements, and gives the report.
pub fn measure(args: &Args) -> Result<String, Error> {
    let dir = std::env::temp_dir().join(format!("tern-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
    let compiled = victim::compile_for_any(&dir);
    let program = compiled.and_then(|path| std::fs::read(&path).map_err(Error::system("reading the program")));
    let _ = std::fs::remove_dir_all(&dir);
    let program = program?;
    let links = Links::of(&args.lab)?;
    let disk_mb_s = checkpoint::disk_mb_s(&args.dir)?;
    let mut rows = Vec::new();
    for pairs in &args.pairs {
        rows.extend(measure_pairs(args, *pairs, &program, Bounds { links, disk_mb_s })?);
    }
    Ok(if args.json { crate::figures::json(&rows) } else { table(&rows) })
}

/// Chooses the senders and the receivers.
fn pairs_of(nodes: &[Node], pairs: u64) -> Result<Vec<Pair<'_>>, Error> {
    let find = |number: u64| {
        let name = format!("n{number}");
        let missing = || Error::system(format!("looking for {name} in the lab"))(std::io::ErrorKind::NotFound.into());
        nodes.iter().find(|n| n.name == name).ok_or_else(missing)
    };
    (0..pairs).map(|n| Ok(Pair { from: find(2 * n + 1)?, to: find(2 * n + 2)? })).collect()
}

/// The bounds of all measurements in a lab.
#[derive(Clone, Copy)]
struct Bounds {
    links: Links,
    /// Rate of one process that writes to disk alone, MB/s.
    disk_mb_s: f64,
}

fn measure_pairs(args: &Args, pairs: u64, program: &[u8], bounds: Bounds) -> Result<Vec<Row>, Error> {
    let Bounds { links, disk_mb_s } = bounds;
    eprintln!("{pairs} pairs");
    let mib = if pairs > FULL_SIZE_PAIRS { args.mib * FULL_SIZE_PAIRS / pairs } else { args.mib }.max(1);
    let nodes = nodes(&args.lab)?;
    let both = pairs_of(&nodes, pairs)?;
    let _sinks = both.iter().map(|pair| sink(&args.lab, pair.to)).collect::<Result<Vec<_>, _>>()?;
    // One after the other: concurrently, making the rooms takes longer than a mover waits for one.
    let started = both.iter().map(|pair| {
        let mut source = Source::start(&args.lab, &args.how, *pair, mib, program)?;
        source.hear().map(|_| source)
    });
    let mut sources = started.collect::<Result<Vec<Source>, _>>()?;
    let mut moves = Vec::new();
    for Buffer(buffer_bytes) in &args.buffer {
        let with = buffer_bytes.map_or(String::new(), |bytes| format!(" {}k", bytes >> 10));
        together(&mut sources, "fresh")?;
        let moved = together(&mut sources, &format!("move{with}"))?;
        together(&mut sources, "home")?;
        moves.push((*buffer_bytes, moved));
    }
    let (streamed, streamed_in) = together(&mut sources, "stream")?;
    let begun = Instant::now();
    let written = checkpoint::all(&place().join(PROGRAM), &args.dir)?;
    let written_in = begun.elapsed();
    end(sources)?;
    let longest = |done: &[Done]| done.iter().map(|d| d.still_us / 1e3).fold(0.0, f64::max);
    let (streams, checkpoints) = (Rates::of(&streamed, streamed_in), Rates::of(&written, written_in));
    let row = |(buffer_bytes, (moved, moved_in)): (Option<u64>, (Vec<Done>, Duration))| {
        let moves = Rates::of(&moved, moved_in);
        Row {
            link: links.each.map_or_else(|| "unlimited".into(), bits),
            distance: links.trunk.map_or_else(|| "one bridge".into(), |rate| format!("two bridges, {}", bits(rate))),
            pairs,
            mib,
            way: args.how.clone(),
            buffer_bytes,
            moves,
            streams,
            share: moves.all / streams.all,
            bound_mb_s: links.bound_mb_s(pairs),
            disk_mb_s,
            checkpoints,
            still_ms: [longest(&moved), longest(&written)],
        }
    };
    Ok(moves.into_iter().map(row).collect())
}

/// Formats the rate of a link.
fn bits(rate: u64) -> String {
    if rate >= 1_000_000_000 {
        format!("{} Gbit/s", rate as f64 / 1e9)
    } else {
        format!("{} Mbit/s", rate as f64 / 1e6)
    }
}

/// Formats the number of bytes that are sent at once.
pub fn buffer_in_words(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "auto".into(), |bytes| format!("{} KiB", bytes >> 10))
}

fn table(rows: &[Row]) -> String {
    let disk = rows.first().map_or(0.0, |r| r.disk_mb_s);
    let mut text =
        format!("one process alone writes {disk:.0} MB/s to the disk, synced; all nodes have the same disk\n");
    let _ = writeln!(
        text,
        "{:<10} {:<22} {:>5} {:>5} {:<5} {:>8} {:>22} {:>8} {:>8} {:>22} {:>8} {:>6} {:>8} {:>9} {:>9}",
        "link",
        "distance",
        "pairs",
        "MiB",
        "way",
        "buffer",
        "move MB/s a node",
        "bound",
        "all",
        "stream MB/s a node",
        "all",
        "share",
        "disk all",
        "still ms",
        "on disk"
    );
    let each = |r: &Rates| format!("{} ({}..{})", digits(r.median), digits(r.least), digits(r.most));
    for r in rows {
        let _ = writeln!(
            text,
            "{:<10} {:<22} {:>5} {:>5} {:<5} {:>8} {:>22} {:>8} {:>8.0} {:>22} {:>8.0} {:>6.2} {:>8.0} {:>9.1} {:>9.1}",
            r.link,
            r.distance,
            r.pairs,
            r.mib,
            r.way,
            buffer_in_words(r.buffer_bytes),
            each(&r.moves),
            r.bound_mb_s.map_or_else(|| "-".into(), digits),
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

/// Formats a rate with three digits.
fn digits(mb_s: f64) -> String {
    match mb_s {
        100.0.. => format!("{mb_s:.0}"),
        10.0.. => format!("{mb_s:.1}"),
        _ => format!("{mb_s:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!([1.953, 15.62, 810.4].map(digits), ["1.95", "15.6", "810"]);
        assert_eq!([bits(100_000_000), bits(2_500_000_000)], ["100 Mbit/s", "2.5 Gbit/s"]);
        assert_eq!(buffer_in_words(buffer("1M").unwrap().0), "1024 KiB");
        assert!(buffer("auto").unwrap().0.is_none() && buffer("7M").is_err());
    }

    #[test]
    fn rates_of_each_and_of_all() {
        let done = [1u64, 2, 4].map(|mb| Done { bytes: mb * 1_000_000, us: 1e6, still_us: 0.0 });
        let rates = Rates::of(&done, Duration::from_secs(2));
        assert_eq!((rates.least, rates.median, rates.most, rates.all), (1.0, 2.0, 4.0, 3.5));
    }
}
