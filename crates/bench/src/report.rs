//! `tern bench report`: plots of the results of `tern bench memory`, `pairs`, `streams`, `ring` and
//! `cosched`.

use crate::{Error, cosched, memory, pairs, ring, spawn, streams};
use clap::Args as ClapArgs;
use serde::Deserialize;
use sim::{AxisLabel, Curve, svg_scaled};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The arguments of `tern bench report`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Files with results that were printed with --json, or kept with --resume
    #[arg(required = true)]
    measured: Vec<PathBuf>,
    /// Directory for the plots
    #[arg(long, default_value = ".")]
    to: PathBuf,
}

/// A line of either benchmark.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Row {
    Memory(Box<memory::Row>),
    Pairs(Box<pairs::Row>),
    Streams(Box<streams::Row>),
    Ring(Box<ring::Row>),
    Spawn(Box<spawn::Row>),
    Cosched(Box<cosched::Measured>),
}

/// Writes the plots, and gives their names.
pub fn write(args: &Args) -> Result<String, Error> {
    let mut rows = Vec::new();
    for path in &args.measured {
        rows.extend(read(path)?);
    }
    std::fs::create_dir_all(&args.to).map_err(Error::system(format!("making {}", args.to.display())))?;
    let mut names = String::new();
    for (name, plot) in plots(&rows) {
        let path = args.to.join(name);
        std::fs::write(&path, plot).map_err(Error::system(format!("writing {}", path.display())))?;
        names += &format!("{}\n", path.display());
    }
    Ok(names)
}

fn read(path: &Path) -> Result<Vec<Row>, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::system(format!("reading {}", path.display())))?;
    understand(&text).map_err(|e| Error::system(format!("understanding {}", path.display()))(e.into()))
}

/// Parses results as one JSON array, or one on each line.
fn understand(text: &str) -> serde_json::Result<Vec<Row>> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text);
    }
    text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect()
}

/// Draws all plots, with their file names.
fn plots(rows: &[Row]) -> Vec<(String, String)> {
    let memory: Vec<&memory::Row> =
        rows.iter().filter_map(|r| if let Row::Memory(r) = r { Some(&**r) } else { None }).collect();
    let pairs: Vec<&pairs::Row> =
        rows.iter().filter_map(|r| if let Row::Pairs(r) = r { Some(&**r) } else { None }).collect();
    let mut plots = by_size(&memory);
    plots.extend(by_writes(&memory));
    plots.extend(by_pairs(&pairs));
    plots.extend(by_buffer(&pairs));
    let streams: Vec<&streams::Row> =
        rows.iter().filter_map(|r| if let Row::Streams(r) = r { Some(&**r) } else { None }).collect();
    let rings: Vec<&ring::Row> =
        rows.iter().filter_map(|r| if let Row::Ring(r) = r { Some(&**r) } else { None }).collect();
    plots.extend(by_message(&streams));
    plots.extend(by_tasks(&rings));
    let jobs: Vec<&cosched::Row> = rows
        .iter()
        .filter_map(|r| match r {
            Row::Cosched(measured) => measured.job(),
            _ => None,
        })
        .collect();
    plots.extend(by_load(&jobs));
    let spawns: Vec<&spawn::Row> =
        rows.iter().filter_map(|r| if let Row::Spawn(r) = r { Some(&**r) } else { None }).collect();
    plots.extend(spawn::plots(&spawns));
    plots
}

/// A measured time: name, label in milliseconds, and value.
type Measured = (&'static str, &'static str, fn(&memory::Row) -> f64);

const TIMES: [Measured; 2] =
    [("freeze", "stands still, ms", |r| r.freeze_ms), ("free", "until its node is free, ms", |r| r.free_ms)];

/// Draws times by size: a plot for each link, direction and write rate; a curve for each strategy.
fn by_size(rows: &[&memory::Row]) -> Vec<(String, String)> {
    let all = grouped(rows, |r| (r.conditions(), r.direction.clone(), r.written_mb_s));
    let plot = |((link, direction, written), rows): (&(String, String, i64), &Vec<&memory::Row>)| {
        TIMES.map(|(name, y, time)| {
            let title = format!("{direction}, link {link}, {}", writes(*written));
            let curves = curves(rows, |r| (r.mib as f64, time(r)));
            let plot = svg_scaled(&title, AxisLabel::logarithmic("MiB"), AxisLabel::logarithmic(y), &curves);
            (file(&[name, "by-size", link, direction, &writes(*written)]), plot)
        })
    };
    all.iter().flat_map(plot).collect()
}

/// Draws times by write rate: a plot for each link, direction and size. A process that writes as
/// fast as it can has no rate.
fn by_writes(rows: &[&memory::Row]) -> Vec<(String, String)> {
    let rated: Vec<&memory::Row> = rows.iter().copied().filter(|r| r.written_mb_s >= 0).collect();
    let all = grouped(&rated, |r| (r.conditions(), r.direction.clone(), r.mib));
    let plot = |((link, direction, mib), rows): (&(String, String, u64), &Vec<&memory::Row>)| {
        TIMES.map(|(name, y, time)| {
            let title = format!("{direction}, link {link}, {mib} MiB");
            let curves = curves(rows, |r| (r.written_mb_s as f64, time(r)));
            let plot = svg_scaled(&title, AxisLabel::linear("written, MB/s"), AxisLabel::logarithmic(y), &curves);
            (file(&[name, "by-writes", link, direction, &format!("{mib}MiB")]), plot)
        })
    };
    all.iter().flat_map(plot).collect()
}

/// Draws the rate of a node by the number of pairs: a plot for each link, distance, strategy and
/// buffer.
fn by_pairs(rows: &[&pairs::Row]) -> Vec<(String, String)> {
    let all = grouped(rows, |r| (r.link.clone(), r.distance.clone(), r.way.clone(), r.buffer_bytes));
    let plot = |((link, distance, way, buffer), rows): (&(String, String, String, Option<u64>), &Vec<&pairs::Row>)| {
        let curve =
            |name: &str, rate: fn(&pairs::Row) -> f64| rising(name, rows.iter().map(|r| (r.pairs as f64, rate(r))));
        let curves = [
            curve("moves, median", |r| r.moves.median),
            curve("moves, least", |r| r.moves.least),
            curve("streams, median", |r| r.streams.median),
            curve("bound", bound),
            curve("to disk, all / pairs", |r| r.checkpoints.all / r.pairs as f64),
            curve("a disk for each", |r| r.disk_mb_s),
        ];
        let buffer = pairs::buffer_in_words(*buffer);
        let title = format!("pairs of nodes, link {link}, {distance}, {way}, buffer {buffer}");
        let plot =
            svg_scaled(&title, AxisLabel::linear("pairs"), AxisLabel::logarithmic("a node sends, MB/s"), &curves);
        (file(&["pairs", link, distance, way, &buffer]), plot)
    };
    all.iter().map(plot).collect()
}

/// Draws the rate of a node by the bytes sent at once: a plot for each link, distance and strategy;
/// a curve for each number of pairs, and one of the bound.
fn by_buffer(rows: &[&pairs::Row]) -> Vec<(String, String)> {
    let sized: Vec<&pairs::Row> = rows.iter().copied().filter(|r| r.buffer_bytes.is_some()).collect();
    let all = grouped(&sized, |r| (r.link.clone(), r.distance.clone(), r.way.clone()));
    let plot = |((link, distance, way), rows): (&(String, String, String), &Vec<&pairs::Row>)| {
        let kib = |r: &pairs::Row| r.buffer_bytes.unwrap_or(0) as f64 / 1024.0;
        let curves = grouped(rows, |r| r.pairs).into_iter().flat_map(|(n, rows)| {
            let curve =
                |name: String, rate: fn(&pairs::Row) -> f64| rising(&name, rows.iter().map(|r| (kib(r), rate(r))));
            [curve(format!("{n} pairs"), |r| r.moves.median), curve(format!("{n}: bound"), bound)]
        });
        let curves: Vec<Curve> = curves.collect();
        let title = format!("buffers, link {link}, {distance}, {way}");
        let (x, y) = (AxisLabel::logarithmic("buffer, KiB"), AxisLabel::logarithmic("a node sends, MB/s"));
        (file(&["buffers", link, distance, way]), svg_scaled(&title, x, y, &curves))
    };
    all.iter().map(plot).collect()
}

/// Draws round trips by the size of messages: a plot for each kind of stream, a curve for each
/// placement.
fn by_message(rows: &[&streams::Row]) -> Vec<(String, String)> {
    let all = grouped(rows, |r| r.stream.clone());
    let plot = |(stream, rows): (&String, &Vec<&streams::Row>)| {
        let curves: Vec<Curve> = rows
            .iter()
            .map(|r| rising(&r.placement, r.round_trips.iter().map(|trip| (trip.bytes as f64, trip.us))))
            .collect();
        let (x, y) = (AxisLabel::logarithmic("bytes of a message"), AxisLabel::logarithmic("round trip, us"));
        (file(&["streams", stream]), svg_scaled(&format!("streams, {stream}"), x, y, &curves))
    };
    all.iter().map(plot).collect()
}

/// Draws the time of rings by the number of tasks: a plot for each library and size, a curve for
/// each way to spread it.
fn by_tasks(rows: &[&ring::Row]) -> Vec<(String, String)> {
    let all = grouped(rows, |r| (r.library.clone(), r.kib));
    let plot = |((library, kib), rows): (&(String, u64), &Vec<&ring::Row>)| {
        let curves: Vec<Curve> = grouped(rows, |r| r.column.clone())
            .into_iter()
            .map(|(name, rows)| rising(&name, rows.iter().map(|r| (f64::from(r.tasks), r.seconds))))
            .collect();
        let title = format!("ring, {library}, messages of {kib} KiB");
        let (x, y) = (AxisLabel::linear("tasks"), AxisLabel::logarithmic("s"));
        (file(&["ring", library, &format!("{kib}KiB")]), svg_scaled(&title, x, y, &curves))
    };
    all.iter().map(plot).collect()
}

/// Draws the time of coscheduled jobs by the local load: a plot for each program, a curve for each
/// mode (Figs 4 and 5 of the paper).
fn by_load(rows: &[&cosched::Row]) -> Vec<(String, String)> {
    let all = grouped(rows, |r| r.program.clone());
    let plot = |(program, rows): (&String, &Vec<&cosched::Row>)| {
        let curves: Vec<Curve> = grouped(rows, |r| r.mode.clone())
            .into_iter()
            .map(|(name, rows)| rising(&name, rows.into_iter().map(|r| (f64::from(r.local_load), r.seconds))))
            .collect();
        let (x, y) = (AxisLabel::linear("compilers beside the job"), AxisLabel::linear("s"));
        (file(&["cosched", program]), svg_scaled(&format!("coscheduling, {program}"), x, y, &curves))
    };
    all.iter().map(plot).collect()
}

/// Gives the bound on a node's rate: that of limited links, or else of plain streams in the same
/// pattern.
fn bound(row: &pairs::Row) -> f64 {
    row.bound_mb_s.unwrap_or(row.streams.all / row.pairs as f64)
}

fn rising(name: &str, points: impl Iterator<Item = (f64, f64)>) -> Curve {
    let mut points: Vec<(f64, f64)> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Curve { name: name.into(), points }
}

fn grouped<'a, R, K: Ord>(rows: &[&'a R], key: impl Fn(&R) -> K) -> BTreeMap<K, Vec<&'a R>> {
    let mut all: BTreeMap<K, Vec<&R>> = BTreeMap::new();
    rows.iter().for_each(|row| all.entry(key(row)).or_default().push(row));
    all
}

/// Gives one curve for each strategy.
fn curves(rows: &[&memory::Row], point: impl Fn(&memory::Row) -> (f64, f64)) -> Vec<Curve> {
    let ways = grouped(rows, |r| r.way.clone());
    ways.into_iter().map(|(name, rows)| rising(&name, rows.into_iter().map(&point))).collect()
}

fn writes(mb_s: i64) -> String {
    if mb_s < 0 { "writes as fast as it can".into() } else { format!("writes {mb_s} MB per s") }
}

/// Makes a file name of these words.
fn file(words: &[&str]) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    words.join("-").chars().map(plain).collect::<String>() + ".svg"
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: &str = r#"{"link":"1 Gbit/s","mib":16,"written_mb_s":50,"way":"pre","direction":"out","how":"pre (2 rounds)","moves":3,"freeze_ms":4.5,"freeze_most_ms":5.0,
        "free_ms":80.0,"sent_mb":17.0,"asked_mb":0.0,"gap_ms":5.0,"gap_most_ms":6.0}"#;
    const PAIRS: &str = r#"{"link":"unlimited","distance":"one bridge","pairs":2,"mib":128,"way":"stop","buffer_bytes":4096,"bound_mb_s":null,"disk_mb_s":5.0,"moves":{"least":1.0,"median":2.0,"most":3.0,"all":4.0},
        "streams":{"least":1.0,"median":2.0,"most":3.0,"all":4.0},"share":1.0,"checkpoints":{"least":1.0,"median":2.0,"most":3.0,"all":4.0},"still_ms":[1.0,2.0]}"#;

    const STREAMS: &str = r#"{"stream":"tcp","placement":"both at home","round_trips":[{"bytes":1,"us":12.0},{"bytes":1024,"us":14.0}],"mb_s":900.0}"#;
    const RING: &str = r#"{"library":"pvm","tasks":4,"kib":16,"column":"nodes","cycles":60,"seconds":0.5,"moves":0}"#;

    const COSCHED: &str = r#"{"program":"mg W","mode":"prio","local_load":1,"seconds":1.5,"compile_s":null,"compiles":0}
        {"switch_us":1.0,"signal_us":2.0,"explicit_us":6.0,"implicit_us":2.0,"measured_explicit_us":null}
        {"beside":"prio","jobs":2,"median_ms":1.0,"p95_ms":1.0,"p99_ms":1.0,"longest_ms":1.0,"ended":0}"#;

    #[test]
    fn coscheduled_jobs_are_plotted() {
        let plots = plots(&understand(COSCHED).unwrap());
        assert_eq!(plots.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["cosched-mg-w.svg"]);
        assert!(plots[0].1.contains(">prio<"));
    }

    #[test]
    fn jobs_and_streams_are_plotted() {
        let plots = plots(&understand(&format!("{STREAMS}\n{RING}\n")).unwrap());
        let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["streams-tcp.svg", "ring-pvm-16kib.svg"]);
        assert!(plots[0].1.contains("both at home") && plots[1].1.contains("nodes"));
    }

    #[test]
    fn results_are_plotted() {
        let rows = understand(&format!("[{MEMORY},{PAIRS}]")).unwrap();
        let plots = plots(&rows);
        let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
        let wanted = [
            "freeze-by-size-1-gbit-s-out-writes-50-mb-per-s.svg",
            "free-by-size-1-gbit-s-out-writes-50-mb-per-s.svg",
            "freeze-by-writes-1-gbit-s-out-16mib.svg",
            "free-by-writes-1-gbit-s-out-16mib.svg",
            "pairs-unlimited-one-bridge-stop-4-kib.svg",
            "buffers-unlimited-one-bridge-stop.svg",
        ];
        assert_eq!(names, wanted);
        assert!(plots.iter().all(|(_, plot)| plot.ends_with("</svg>\n")));
        let line = |text: &str| text.replace('\n', " ");
        assert_eq!(understand(&format!("{}\n{}\n", line(MEMORY), line(PAIRS))).unwrap().len(), 2);
        assert!(understand("{}").is_err());
    }
}
