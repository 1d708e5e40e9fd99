//! `tern bench memory`: compares the memory strategies by the freeze time, the time until the
//! former node is free, the bytes sent, and the longest gap that the process notices itself, from a
//! second before the move until ten after.

use crate::heap::{self, Heap};
use crate::victim::{MINIMAL, Shape, Victim, compile};
use crate::{Error, On, stats::percentile, stats::sorted};
use clap::Args as ClapArgs;
use control_protocol::moves::HopReport;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// The time before a move in which the program's clock is watched, and ...
const BEFORE: Duration = Duration::from_secs(1);
/// ... the time after it.
const AFTER: Duration = Duration::from_secs(10);
const AFTER_QUICK: Duration = Duration::from_secs(1);

/// The arguments of `tern bench memory`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    on: On,
    /// Sizes of the process, MiB
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64, 256, 1024])]
    mib: Vec<u64>,
    /// MB that the process writes each second; -1: as fast as it can
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, default_values_t = [0, 10, 50, 200, -1])]
    writes: Vec<i64>,
    /// Memory strategies to compare
    #[arg(long, value_delimiter = ',', default_values_t = ["stop", "pre", "post", "flush", "auto"].map(str::to_owned))]
    ways: Vec<String>,
    /// Moves of each kind
    #[arg(long, default_value_t = 3)]
    moves: u32,
    /// Name of the link between the nodes in the report (the lab's --rate)
    #[arg(long, default_value = "unlimited")]
    link: String,
    /// Fill the process with the heap of this process, repeated if needed, instead of random bytes
    #[arg(long, value_name = "PID")]
    heap: Option<i32>,
    /// File of results so far; what an interrupted run has measured is not measured again
    #[arg(long)]
    resume: Option<PathBuf>,
}

/// The result of moves of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub link: String,
    /// The content of the process' memory.
    #[serde(default = "random")]
    pub content: String,
    pub mib: u64,
    pub written_mb_s: i64,
    pub way: String,
    /// The direction, `out` or `home`.
    pub direction: String,
    /// The chosen strategy, at the last move.
    pub how: String,
    pub moves: u32,
    pub freeze_ms: f64,
    pub freeze_most_ms: f64,
    /// Time until nothing is left on the former node.
    pub free_ms: f64,
    /// Pages sent, MB.
    pub sent_mb: f64,
    /// Pages that were requested before they came by themselves, MB.
    pub asked_mb: f64,
    /// Pages on the wire, compressed where that is quicker, MB.
    #[serde(default)]
    pub wire_mb: f64,
    pub gap_ms: f64,
    pub gap_most_ms: f64,
}

/// The kind of one row.
#[derive(Clone, Copy)]
struct Kind<'a> {
    link: &'a str,
    content: &'a str,
    mib: u64,
    written_mb_s: i64,
    way: &'a str,
}

fn random() -> String {
    "random bytes".into()
}

impl Row {
    fn is_of(&self, kind: &Kind) -> bool {
        (self.link.as_str(), self.content.as_str(), self.mib, self.written_mb_s, self.way.as_str())
            == (kind.link, kind.content, kind.mib, kind.written_mb_s, kind.way)
    }

    /// Names the link, and the content if it was not random bytes.
    pub fn conditions(&self) -> String {
        if self.content == random() { self.link.clone() } else { format!("{}, {}", self.link, self.content) }
    }
}

/// Measures what is not in the results yet, and gives the report.
pub fn measure(args: &Args) -> Result<String, Error> {
    let dir = args.on.dir.join(format!("tern-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
    let outcome = compile(&dir).and_then(|program| {
        let heap = args.heap.map(|pid| heap::keep(pid, &dir.join("heap"))).transpose()?;
        all(args, &program, heap.as_ref())
    });
    let _ = std::fs::remove_dir_all(&dir);
    let rows = outcome?;
    Ok(if args.on.json { crate::figures::json(&rows) } else { table(&rows) })
}

fn all(args: &Args, program: &Path, heap: Option<&Heap>) -> Result<Vec<Row>, Error> {
    let mut rows = args.resume.as_deref().map_or(Ok(Vec::new()), kept)?;
    let content = heap.map_or_else(random, |heap| heap.of.clone());
    let (link, content) = (args.link.as_str(), content.as_str());
    let kinds = args.mib.iter().flat_map(|mib| args.writes.iter().map(move |written| (*mib, *written)));
    let kinds = kinds.flat_map(|(mib, written_mb_s)| {
        args.ways.iter().map(move |way| Kind { link, content, mib, written_mb_s, way: way.as_str() })
    });
    let kinds: Vec<_> = kinds.collect();
    make_room(args, program)?;
    for (n, kind) in kinds.iter().enumerate() {
        if rows.iter().any(|row| row.is_of(kind)) {
            continue;
        }
        let Kind { mib, written_mb_s, way, .. } = kind;
        eprintln!("{} of {}: {mib} MiB of {content}, {written_mb_s} MB/s written, {way}", n + 1, kinds.len());
        let new = round_trips(args, program, heap, *kind)?;
        if let Some(path) = &args.resume {
            keep(path, &new)?;
        }
        rows.extend(new);
    }
    Ok(rows)
}

/// Makes the room by the first moves.
fn make_room(args: &Args, program: &Path) -> Result<(), Error> {
    let first = Victim::start(program, MINIMAL)?;
    first.relocate(&args.on.on, &[])?;
    first.relocate("home", &[])?;
    first.end()
}

fn kept(path: &Path) -> Result<Vec<Row>, Error> {
    match std::fs::read_to_string(path) {
        // A last line that was cut off is measured again.
        Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(Error::system(format!("reading {}", path.display()))(e)),
    }
}

fn keep(path: &Path, rows: &[Row]) -> Result<(), Error> {
    let failed = || Error::system(format!("writing {}", path.display()));
    let mut file = File::options().append(true).create(true).open(path).map_err(failed())?;
    let lines: String = rows.iter().filter_map(|row| Some(serde_json::to_string(row).ok()? + "\n")).collect();
    file.write_all(lines.as_bytes()).map_err(failed())
}

struct Sample {
    leg: HopReport,
    gap_ms: f64,
}

/// Measures round trips. Each process is new, because the node may have cached pages of one that
/// was there before.
fn round_trips(args: &Args, program: &Path, heap: Option<&Heap>, kind: Kind) -> Result<Vec<Row>, Error> {
    let written = u64::try_from(kind.written_mb_s).ok().map(|mb| mb * 1_000_000);
    let shape = Shape { bytes: kind.mib * MIB, written, ..MINIMAL };
    let after = if args.on.quick { AFTER_QUICK } else { AFTER };
    let (mut out, mut home) = (Vec::new(), Vec::new());
    for _ in 0..args.moves {
        let mut victim = Victim::start_filled(program, shape, heap.map(|heap| heap.path.as_path()))?;
        out.push(sample(&mut victim, &args.on.on, kind.way, after)?);
        home.push(sample(&mut victim, "home", kind.way, after)?);
        victim.end()?;
    }
    Ok([("out", out), ("home", home)].into_iter().filter_map(|(to, samples)| row(kind, to, &samples)).collect())
}

fn sample(victim: &mut Victim, to: &str, way: &str, after: Duration) -> Result<Sample, Error> {
    victim.gap_us()?;
    std::thread::sleep(BEFORE);
    let legs = victim.relocate(to, &["--how".to_owned(), way.to_owned()])?;
    std::thread::sleep(after);
    let gap_ms = victim.gap_us()? / 1e3;
    Ok(Sample { leg: legs.into_iter().next().unwrap_or_default(), gap_ms })
}

fn row(kind: Kind, to: &str, samples: &[Sample]) -> Option<Row> {
    let last = samples.last()?;
    let of = |f: &dyn Fn(&Sample) -> f64| {
        let all = sorted(samples.iter().map(f));
        (percentile(&all, 50), percentile(&all, 100))
    };
    let (freeze_ms, freeze_most_ms) = of(&|s| s.leg.freeze_us as f64 / 1e3);
    let (gap_ms, gap_most_ms) = of(&|s| s.gap_ms);
    Some(Row {
        link: kind.link.into(),
        content: kind.content.into(),
        mib: kind.mib,
        written_mb_s: kind.written_mb_s,
        way: kind.way.into(),
        direction: to.into(),
        how: last.leg.how.clone(),
        moves: samples.len() as u32,
        freeze_ms,
        freeze_most_ms,
        free_ms: of(&|s| s.leg.total_us as f64 / 1e3).0,
        sent_mb: of(&|s| s.leg.page_bytes as f64 / 1e6).0,
        wire_mb: of(&|s| s.leg.wire_bytes as f64 / 1e6).0,
        asked_mb: of(&|s| s.leg.asked_bytes as f64 / 1e6).0,
        gap_ms,
        gap_most_ms,
    })
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<10} {:>6} {:>7} {:<6} {:<5} {:>10} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}  {}\n",
        "link",
        "MiB",
        "MB/s",
        "way",
        "to",
        "freeze ms",
        "most",
        "free ms",
        "sent MB",
        "wire MB",
        "asked MB",
        "gap ms",
        "most",
        "how"
    );
    for r in rows {
        let _ = writeln!(
            text,
            "{:<10} {:>6} {:>7} {:<6} {:<5} {:>10.2} {:>8.2} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.2} {:>8.2}  {}",
            r.conditions(),
            r.mib,
            r.written_mb_s,
            r.way,
            r.direction,
            r.freeze_ms,
            r.freeze_most_ms,
            r.free_ms,
            r.sent_mb,
            r.wire_mb,
            r.asked_mb,
            r.gap_ms,
            r.gap_most_ms,
            r.how
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_run_goes_on_where_it_was() {
        let path = std::env::temp_dir().join(format!("tern-bench-memory-{}", std::process::id()));
        let sample = || Sample { leg: HopReport { freeze_us: 1500, ..HopReport::default() }, gap_ms: 2.0 };
        let kind = Kind { link: "100m", content: "random bytes", mib: 16, written_mb_s: -1, way: "post" };
        let new = row(kind, "out", &[sample()]).into_iter().collect::<Vec<_>>();
        keep(&path, &new).unwrap();
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"link\": \"cut").unwrap();
        let found = kept(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((found.len(), found[0].freeze_ms, found[0].is_of(&kind)), (1, 1.5, true));
        assert!(!found[0].is_of(&Kind { written_mb_s: 0, ..kind }));
        assert!(!found[0].is_of(&Kind { content: "heap of redis", ..kind }));
        assert!(kept(&path).unwrap().is_empty());
    }
}
