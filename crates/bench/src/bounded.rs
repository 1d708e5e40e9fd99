//! `tern bench freeze-bound`: programs are moved to and fro while they work. Tells how many moves
//! keep the bound on the freeze time, and what took longest in the others.

use crate::run::tern;
use crate::soak::{KnownProgram, known_programs, start};
use crate::stats::{percentile, sorted};
use crate::{Error, On};
use clap::Args as ClapArgs;
use control_protocol::moves::HopReport;
use gossip::Draw;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The arguments of `tern bench freeze-bound`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    on: On,
    /// Number of moves
    #[arg(long, default_value_t = 1000)]
    moves: u64,
    /// Bound on the freeze time, milliseconds
    #[arg(long, default_value_t = 50)]
    max_freeze_ms: u64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only programs whose name contains this text
    #[arg(long)]
    only: Option<String>,
}

/// The pause between two moves of a program.
const PAUSE_MS: std::ops::Range<u64> = 20..200;
/// The number of steps that are listed for a move that took too long.
const STEPS: usize = 4;

/// The result of the benchmark.
#[derive(Debug, Default, Serialize)]
struct Report {
    max_freeze_ms: u64,
    moves: u64,
    kept: u64,
    /// Refused moves, by reason.
    refused: BTreeMap<String, u64>,
    freeze_ms: BTreeMap<&'static str, f64>,
    misses: Vec<Miss>,
}

/// A move that took too long.
#[derive(Debug, Serialize)]
struct Miss {
    program: &'static str,
    to: String,
    how: String,
    freeze_ms: f64,
    frozen_mb: f64,
    /// The steps that took longest, milliseconds.
    steps: Vec<(String, f64)>,
}

/// Runs the benchmark, and gives its report.
pub fn measure(args: &Args) -> Result<String, Error> {
    let dir = args.on.dir.join(format!("tern-bounded-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
    let outcome = all(args, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    let report = outcome?;
    Ok(if args.on.json { crate::figures::json(&report) } else { report.text() })
}

fn all(args: &Args, dir: &Path) -> Result<Report, Error> {
    let mut draw = Draw::new(args.seed);
    let known = known_programs(args.only.as_deref(), dir)?;
    let mut report = Report { max_freeze_ms: args.max_freeze_ms, ..Report::default() };
    let mut freezes = Vec::new();
    for number in 0u64.. {
        if report.moves >= args.moves || known.is_empty() {
            break;
        }
        let one: &KnownProgram = &known[draw.below(known.len())];
        let mut victim = start(one, &dir.join(number.to_string()))?;
        while victim.ended().is_none() && report.moves < args.moves {
            std::thread::sleep(Duration::from_millis(PAUSE_MS.start + draw.below(180) as u64));
            let family = victim.family();
            let Some(pid) = (!family.is_empty()).then(|| family[draw.below(family.len())]) else { continue };
            let to = if draw.below(2) == 0 { "home" } else { &args.on.on };
            match move_to(pid, to, args.max_freeze_ms)? {
                Ok(legs) => legs.into_iter().for_each(|leg| {
                    freezes.push(leg.freeze_us as f64 / 1e3);
                    report.moved(victim.name(), leg);
                }),
                // A process that is there already was not to be moved.
                Err(why) if why.contains("already") => {}
                Err(why) => *report.refused.entry(why).or_default() += 1,
            }
        }
    }
    let freezes = sorted(freezes.into_iter());
    report.freeze_ms =
        [("median", 50), ("p99", 99), ("most", 100)].map(|(name, at)| (name, percentile(&freezes, at))).into();
    Ok(report)
}

fn move_to(pid: i32, to: &str, max_freeze_ms: u64) -> Result<Result<Vec<HopReport>, String>, Error> {
    let bound = format!("{max_freeze_ms}ms");
    let mut command = Command::new(tern()?);
    command.args(["move", &pid.to_string(), to, "--max-freeze", &bound, "--json"]).stdin(Stdio::null());
    let done = command.output().map_err(Error::system("running tern move"))?;
    if done.status.success() {
        let unread = |e: serde_json::Error| Error::system("reading what a move took")(e.into());
        return Ok(Ok(serde_json::from_slice(&done.stdout).map_err(unread)?));
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let first = said.lines().next().unwrap_or_default();
    Ok(Err(first.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect()))
}

impl Report {
    fn moved(&mut self, program: &'static str, leg: HopReport) {
        self.moves += 1;
        if leg.freeze_us <= self.max_freeze_ms * 1000 {
            self.kept += 1;
            return;
        }
        let frozen =
            leg.phases.iter().filter_map(|p| Some((p.name.strip_prefix("frozen ")?.to_owned(), p.us as f64 / 1e3)));
        let mut steps: Vec<(String, f64)> = frozen.collect();
        steps.sort_by(|a, b| b.1.total_cmp(&a.1));
        steps.truncate(STEPS);
        self.misses.push(Miss {
            program,
            to: leg.to,
            how: leg.how,
            freeze_ms: leg.freeze_us as f64 / 1e3,
            frozen_mb: leg.frozen_bytes as f64 / 1e6,
            steps,
        });
    }

    fn text(&self) -> String {
        let share = self.kept as f64 * 100.0 / self.moves.max(1) as f64;
        let mut out =
            format!("{} of {} moves ({share:.1}%) kept to {} ms\n", self.kept, self.moves, self.max_freeze_ms);
        let freezes: Vec<String> = self.freeze_ms.iter().map(|(name, ms)| format!("{name} {ms:.1}")).collect();
        let _ = writeln!(out, "frozen, ms: {}", freezes.join(", "));
        for miss in &self.misses {
            let steps: Vec<String> = miss.steps.iter().map(|(name, ms)| format!("{name} {ms:.1}")).collect();
            let _ = writeln!(
                out,
                "{:.1} ms: {} to {} by {}, {:.1} MB: {}",
                miss.freeze_ms,
                miss.program,
                miss.to,
                miss.how,
                miss.frozen_mb,
                steps.join(", ")
            );
        }
        for (why, n) in &self.refused {
            let _ = writeln!(out, "{n} not made: {why}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control_protocol::moves::Phase;

    #[test]
    fn misses_say_what_took_long() {
        let mut report = Report { max_freeze_ms: 50, ..Report::default() };
        let phase = |name: &str, us| Phase { name: name.into(), us };
        report.moved("gcc", HopReport { freeze_us: 50_000, ..HopReport::default() });
        let phases = vec![phase("prepare", 90_000), phase("frozen stop", 5000), phase("frozen pages", 60_000)];
        report.moved("gcc", HopReport { freeze_us: 65_000, how: "stop".into(), phases, ..HopReport::default() });
        assert_eq!((report.moves, report.kept), (2, 1));
        assert_eq!(report.misses[0].steps, [("pages".into(), 60.0), ("stop".into(), 5.0)]);
        assert!(report.text().starts_with("1 of 2 moves (50.0%) kept to 50 ms"));
    }
}
