//! `tern bench programs`: the time of moving real programs, beside the forecast of `tern why`; and
//! the share of their memory that they need before it has followed.

use crate::run::tern;
use crate::soak::{KnownProgram, known_programs, start};
use crate::stats::median_and_least;
use crate::victim::{MINIMAL, Shape, Victim, compile};
use crate::{Error, On};
use clap::Args as ClapArgs;
use control_protocol::moves::HopReport;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The arguments of `tern bench programs`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    on: On,
    /// Name of the link between the nodes in the report (the lab's --rate)
    #[arg(long, default_value = "unlimited")]
    link: String,
    /// Only programs whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// Moves of each program by stop-and-copy, there and back, one after the other (fewer if it
    /// ends before)
    #[arg(long, default_value_t = 5)]
    moves: u32,
}

/// A program is moved after this share of the time that it needs natively, ...
const MOVED_AFTER: f64 = 0.3;
/// ... and again after it has been back for this share.
const AGAIN_AFTER: f64 = 0.05;

/// The result for one program.
#[derive(Debug, Serialize)]
struct ProgramRow {
    link: String,
    program: &'static str,
    /// Number of moves by stop-and-copy. The medians of them count, because one move takes half as
    /// long again as the next.
    moves: usize,
    forecast_mb: f64,
    sent_mb: f64,
    forecast_ms: f64,
    freeze_ms: f64,
    /// Error of the first forecast, as a share of the measured time: nothing was known of the
    /// program then.
    first_error: f64,
    /// Post-copy: freeze time, memory that followed, and the part of it for which a thread waited
    /// (with what was sent along).
    post_freeze_ms: f64,
    followed_mb: f64,
    asked_share: f64,
}

/// Runs the benchmark, and gives its report.
pub fn measure(args: &Args) -> Result<String, Error> {
    let dir = args.on.dir.join(format!("tern-programs-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
    let outcome = all(args, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    let rows = outcome?;
    Ok(if args.on.json { crate::figures::json(&rows) } else { table(&rows) })
}

/// Moves a small program in several sizes, because a daemon that has moved nothing yet knows
/// neither the link nor the machines.
fn learn(args: &Args, dir: &Path) -> Result<(), Error> {
    let program = compile(dir)?;
    for (bytes, threads) in [(MINIMAL.bytes, 1), (16 << 20, 1), (1 << 20, 8)] {
        let victim = Victim::start(&program, Shape { bytes, threads, ..MINIMAL })?;
        for way in ["stop", "stop", "stop", "post"] {
            victim.relocate(&args.on.on, &["--how".to_owned(), way.to_owned()])?;
            victim.relocate("home", &["--how".to_owned(), way.to_owned()])?;
        }
        victim.end()?;
    }
    Ok(())
}

fn all(args: &Args, dir: &Path) -> Result<Vec<ProgramRow>, Error> {
    learn(args, dir)?;
    let mut rows = Vec::new();
    for (number, known) in known_programs(args.only.as_deref(), dir)?.iter().enumerate() {
        eprintln!("{}", known.name());
        let sight = |way: &str, moves: u32| sights(args, known, &dir.join(format!("{number}-{way}")), way, moves);
        let (stops, posts) = (sight("stop", args.moves)?, sight("post", 1)?);
        let Some((_, post)) = posts.first().filter(|_| !stops.is_empty()) else {
            eprintln!("{}: it could not be moved at that moment", known.name());
            continue;
        };
        let middle = |of: fn(&ForecastMove) -> f64| median_and_least(&stops.iter().map(of).collect::<Vec<_>>()).0;
        rows.push(ProgramRow {
            link: args.link.clone(),
            program: known.name(),
            moves: stops.len(),
            forecast_mb: middle(|(forecast, _)| forecast.bytes / 1e6),
            sent_mb: middle(|(_, leg)| leg.page_bytes as f64 / 1e6),
            forecast_ms: middle(|(forecast, _)| forecast.ms),
            freeze_ms: middle(|(_, leg)| leg.freeze_us as f64 / 1e3),
            first_error: stops.first().map_or(f64::NAN, |(said, leg)| said.ms * 1e3 / leg.freeze_us as f64 - 1.0),
            post_freeze_ms: post.freeze_us as f64 / 1e3,
            followed_mb: post.followed_bytes as f64 / 1e6,
            asked_share: post.asked_bytes as f64 / post.followed_bytes.max(1) as f64,
        });
    }
    Ok(rows)
}

/// A forecast, and the move that followed.
type ForecastMove = (Forecast, HopReport);

/// Runs a program, and moves it `moves` times by this strategy.
fn sights(args: &Args, known: &KnownProgram, dir: &Path, way: &str, moves: u32) -> Result<Vec<ForecastMove>, Error> {
    let mut victim = start(known, dir)?;
    std::thread::sleep(Duration::from_secs_f64(known.native_s() * MOVED_AFTER));
    let mut seen = Vec::new();
    for number in 0..moves {
        // The largest of its processes does the work.
        let Some(pid) = victim.family().into_iter().max_by_key(|pid| resident(*pid)) else { break };
        let Some(forecast) = forecast(pid, &args.on.on)? else { break };
        let Some(leg) = go(pid, &args.on.on, way)? else { break };
        seen.push((forecast, leg));
        if number + 1 < moves {
            if go(pid, "home", way)?.is_none() {
                break;
            }
            std::thread::sleep(Duration::from_secs_f64(known.native_s() * AGAIN_AFTER));
        }
    }
    while victim.ended().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(seen)
}

fn resident(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Forecast {
    bytes: f64,
    ms: f64,
}

/// Asks `tern why` for the forecast; `None` if the process has gone.
fn forecast(pid: i32, to: &str) -> Result<Option<Forecast>, Error> {
    let done = Command::new(tern()?)
        .args(["why", &pid.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(Error::system("running tern why"))?;
    Ok(read_forecast(&String::from_utf8_lossy(&done.stdout), to))
}

fn read_forecast(text: &str, to: &str) -> Option<Forecast> {
    let starts = [format!("moving it to {to} would send"), "moving it would send".to_owned()];
    let line = text.lines().find(|line| starts.iter().any(|start| line.starts_with(start)))?;
    let words: Vec<&str> = line.split([' ', ',', '(']).filter(|w| !w.is_empty()).collect();
    let before =
        |unit: &str| words.iter().position(|w| *w == unit).and_then(|at| words[..at].last()?.parse::<f64>().ok());
    let bytes = before("KiB").map(|n| n * 1024.0).or_else(|| before("MiB").map(|n| n * 1024.0 * 1024.0))?;
    // With pre-copy the freeze time of stop-and-copy comes last, in brackets.
    let ms = words.iter().rposition(|w| *w == "about").and_then(|at| words.get(at + 1)?.parse().ok())?;
    Some(Forecast { bytes, ms })
}

fn go(pid: i32, to: &str, way: &str) -> Result<Option<HopReport>, Error> {
    let done = Command::new(tern()?)
        .args(["move", &pid.to_string(), to, "--how", way, "--json"])
        .stdin(Stdio::null())
        .output()
        .map_err(Error::system("running tern move"))?;
    Ok(serde_json::from_slice::<Vec<HopReport>>(&done.stdout).ok().and_then(|legs| legs.into_iter().next()))
}

fn table(rows: &[ProgramRow]) -> String {
    let mut text = format!(
        "{:<10} {:<18} {:>5} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>9} {:>9} {:>7}\n",
        "link",
        "program",
        "moves",
        "said MB",
        "sent MB",
        "said ms",
        "froze ms",
        "error",
        "first",
        "post ms",
        "MB after",
        "needed"
    );
    for r in rows {
        let _ = writeln!(
            text,
            "{:<10} {:<18} {:>5} {:>9.2} {:>9.2} {:>9.1} {:>9.1} {:>6.0}% {:>6.0}% {:>9.1} {:>9.2} {:>6.0}%",
            r.link,
            r.program,
            r.moves,
            r.forecast_mb,
            r.sent_mb,
            r.forecast_ms,
            r.freeze_ms,
            (r.forecast_ms / r.freeze_ms - 1.0) * 100.0,
            r.first_error * 100.0,
            r.post_freeze_ms,
            r.followed_mb,
            r.asked_share * 100.0
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_are_read() {
        let small = "x\nmoving it would send 160 KiB while it runs, and it would stand still for about 1.2 ms (about 1.9 ms at once: --how stop)\n";
        assert_eq!(read_forecast(small, "n2"), Some(Forecast { bytes: 163_840.0, ms: 1.9 }));
        let large = "moving it to n3 would send 7 MiB, and it would stand still for about 3 ms\nmoving it to n2 would send at least 1024 MiB, while it runs, so that it stands still for at most 100 ms if it writes slower than the link carries (about 2600.5 ms at once: --how stop)";
        assert_eq!(read_forecast(large, "n2"), Some(Forecast { bytes: 1024.0 * 1048576.0, ms: 2600.5 }));
        assert_eq!(read_forecast("7 runs on n2", "n2"), None);
    }
}
