//! `tern bench move`: the freeze time of a move by size, threads and descriptors.

use crate::crowd::Crowd;
use crate::stats::{percentile, sorted};
use crate::stream::{self, Streams};
use crate::victim::{MINIMAL, Shape, Victim, compile};
use crate::{Error, MoveArgs};
use control_protocol::moves::HopReport;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// All results of the benchmark.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Streams over the same link, if a sink was given.
    streams: Option<Streams>,
    rows: Vec<MoveRow>,
    /// The crowd that ran beside, in the rows of this name.
    crowd: String,
    /// Resident memory of the deputy of the minimal process, bytes.
    deputy_bytes: u64,
}

/// The result of moves of one kind.
#[derive(Debug, Serialize)]
struct MoveRow {
    name: String,
    /// The way of the move: `out`, `home`, `on` (directly from node to node) or `round` (from node
    /// to node through home).
    way: &'static str,
    moves: usize,
    /// Freeze time as the daemons measured it: from before the first thread was stopped until home
    /// knew that the process runs there.
    freeze_us: Spread,
    /// The longest gap on the process' own clock.
    gap_us: Spread,
    total_us: Spread,
    page_bytes: u64,
    /// Bytes of pages over the whole time, MB/s.
    rate_mb_s: f64,
    /// Medians of the phases.
    phases_us: Vec<(String, f64)>,
}

#[derive(Debug, Serialize)]
struct Spread {
    median: f64,
    p99: f64,
    least: f64,
}

impl Spread {
    fn of(samples: impl Iterator<Item = f64>) -> Spread {
        let all = sorted(samples);
        Spread { median: percentile(&all, 50), p99: percentile(&all, 99), least: percentile(&all, 0) }
    }
}

const MIB: u64 = 1 << 20;
const IN_A_CROWD: &str = "4, in a crowd";
/// The pause between two moves, in which the daemons clean up and the program runs.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs all measurements.
pub fn measure(args: &MoveArgs, state: &Path) -> Result<Report, Error> {
    let dir = args.on.dir.join(format!("tern-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
    let outcome = compile(&dir).and_then(|program| all(args, &program, state));
    let _ = std::fs::remove_dir_all(&dir);
    outcome
}

fn all(args: &MoveArgs, program: &Path, state: &Path) -> Result<Report, Error> {
    let mut bench = Bench { args, program, rows: Vec::new(), deputy_bytes: 0 };
    let bytes = if args.on.quick { 256 } else { 2048 } * MIB;
    let streams = args.sink.map(|at| stream::measure(at, bytes, &args.on.on, state)).transpose()?;
    let few = if args.on.quick { 3 } else { 10 };
    bench.round_trips("minimal", MINIMAL, args.moves)?;
    let most = if args.on.quick { 64 } else { args.largest_mib };
    for mib in [1, 4, 16, 64, 256, 1024].into_iter().filter(|mib| *mib <= most) {
        bench.round_trips(&format!("{mib} MiB"), Shape { bytes: mib * MIB, ..MINIMAL }, few)?;
    }
    for threads in [4, 16, 64] {
        bench.round_trips(&format!("{threads} threads"), Shape { threads, ..MINIMAL }, few)?;
    }
    for files in [64, 1000] {
        bench.round_trips(&format!("{files} descriptors"), Shape { files, ..MINIMAL }, few)?;
    }
    let counters = Shape { counters: 4, ..MINIMAL };
    bench.round_trips("4 eventfds", counters, few)?;
    let crowd = Crowd::start()?;
    let crowded = crowd.to_string();
    bench.round_trips(IN_A_CROWD, counters, few)?;
    drop(crowd);
    Ok(Report { streams, rows: bench.rows, crowd: crowded, deputy_bytes: bench.deputy_bytes })
}

struct Bench<'a> {
    args: &'a MoveArgs,
    program: &'a Path,
    rows: Vec<MoveRow>,
    deputy_bytes: u64,
}

struct Sample {
    legs: Vec<HopReport>,
    gap_us: f64,
}

impl Bench<'_> {
    fn round_trips(&mut self, name: &str, shape: Shape, moves: u32) -> Result<(), Error> {
        let around = ["--by-home".to_owned()];
        let mut victim = Victim::start(self.program, shape)?;
        let (mut out, mut on, mut by_home, mut home) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..=moves {
            let first = self.args.on.on.as_str();
            let mut legs = vec![(&mut out, first, &[][..])];
            if let Some(third) = &self.args.then {
                legs.push((&mut on, third.as_str(), &[][..]));
                legs.push((&mut by_home, first, &around[..]));
            }
            legs.push((&mut home, "home", &[][..]));
            for (samples, to, more) in legs {
                victim.gap_us()?;
                let legs = victim.relocate(to, more)?;
                std::thread::sleep(PAUSE);
                let gap_us = victim.gap_us()?;
                // The first round makes the room, and fills caches.
                if round > 0 {
                    samples.push(Sample { legs, gap_us });
                }
                if to != "home" && shape == MINIMAL {
                    self.deputy_bytes = victim.resident_bytes();
                }
            }
        }
        victim.end()?;
        for (way, samples) in [("out", out), ("on", on), ("round", by_home), ("home", home)] {
            if !samples.is_empty() {
                self.rows.push(row(name, way, &samples));
            }
        }
        Ok(())
    }
}

fn row(name: &str, way: &'static str, samples: &[Sample]) -> MoveRow {
    let sum = |f: &dyn Fn(&HopReport) -> u64| {
        samples.iter().map(|s| s.legs.iter().map(f).sum::<u64>() as f64).collect::<Vec<_>>()
    };
    let total_us = Spread::of(sum(&|l| l.total_us).into_iter());
    let page_bytes = percentile(&sorted(sum(&|l| l.page_bytes).into_iter()), 50);
    let mut phases: Vec<(String, Vec<f64>)> = Vec::new();
    for phase in samples.iter().flat_map(|s| &s.legs).flat_map(|l| &l.phases) {
        match phases.iter_mut().find(|(name, _)| *name == phase.name) {
            Some((_, all)) => all.push(phase.us as f64),
            None => phases.push((phase.name.clone(), vec![phase.us as f64])),
        }
    }
    MoveRow {
        name: name.to_owned(),
        way,
        moves: samples.len(),
        freeze_us: Spread::of(sum(&|l| l.freeze_us).into_iter()),
        gap_us: Spread::of(samples.iter().map(|s| s.gap_us)),
        rate_mb_s: page_bytes / total_us.median,
        total_us,
        page_bytes: page_bytes as u64,
        phases_us: phases.into_iter().map(|(name, all)| (name, percentile(&sorted(all.into_iter()), 50))).collect(),
    }
}

impl Report {
    /// Formats the results as a table.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<18} {:<5} {:>10} {:>8} {:>10} {:>8} {:>10} {:>12} {:>8}\n",
            "", "way", "freeze us", "p99", "gap us", "p99", "total us", "page bytes", "MB/s"
        );
        for r in &self.rows {
            let _ = writeln!(
                text,
                "{:<18} {:<5} {:>10.0} {:>8.0} {:>10.0} {:>8.0} {:>10.0} {:>12} {:>8.0}",
                r.name,
                r.way,
                r.freeze_us.median,
                r.freeze_us.p99,
                r.gap_us.median,
                r.gap_us.p99,
                r.total_us.median,
                r.page_bytes,
                r.rate_mb_s
            );
        }
        for r in self.rows.iter().filter(|r| r.name == "minimal") {
            let steps: Vec<String> = r.phases_us.iter().map(|(name, us)| format!("{name} {us:.0}")).collect();
            let _ = writeln!(text, "minimal, {}, us: {}", r.way, steps.join(", "));
        }
        let _ = writeln!(text, "{IN_A_CROWD}: beside {}", self.crowd);
        let _ = writeln!(text, "deputy: {} KiB resident", self.deputy_bytes >> 10);
        if let Some(s) = &self.streams {
            let _ = writeln!(
                text,
                "over the same link: one TCP stream {:.0} MB/s, one that is encrypted as moves are {:.0}",
                s.tcp_mb_s, s.encrypted_mb_s
            );
        }
        text
    }
}
