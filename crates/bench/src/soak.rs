//! `tern soak`: real programs that are moved at random moments while they work. Their output must
//! be the same as natively.

mod display;
mod programs;
mod report;
mod stop;
mod victims;

use crate::Error;
use crate::run::tern;
use clap::Args as ClapArgs;
use display::Display;
use gossip::Draw;
use programs::Program;
use report::Report;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use victims::Victim;

/// The arguments of `tern soak`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Duration in minutes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Seed of all random choices; by default a random one, which is printed
    #[arg(long)]
    seed: Option<u64>,
    /// Nodes to move to, separated by commas; the default is all other nodes that take guests
    #[arg(long, value_delimiter = ',')]
    on: Vec<String>,
    /// Number of programs that run at once
    #[arg(long, default_value_t = 2)]
    at_once: usize,
    /// Only programs whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// Directory for the programs' files; those of a program that fails are kept
    #[arg(long, default_value = "/var/tmp")]
    dir: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Memory strategies to choose from. One that is impossible where a process runs is refused. Most
/// moves are as users make them.
const WAYS: [&str; 6] = ["auto", "auto", "stop", "pre", "post", "flush"];

/// Rates to choose from: over a slow link a node caches pages.
const RATES: [Option<&str>; 3] = [None, None, Some("150M")];

/// The pause between two moves.
const PAUSE_MS: std::ops::Range<u64> = 100..1000;

/// Runs the soak. Gives the exit status.
pub fn main(args: &Args) -> u8 {
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()) ^ since_epoch_ns());
    eprintln!("tern soak: seed {seed}");
    match run(args, seed) {
        Ok(report) => {
            let text = if args.json { report.json(seed) } else { report.text() };
            let _ = std::io::stdout().write_all(text.as_bytes());
            // The status with which a shell reports a program that a signal ended.
            stop::signal().map_or(u8::from(report.has_failures()), |signal| 128 + signal as u8)
        }
        Err(e) => {
            eprintln!("tern soak: {e}");
            1
        }
    }
}

fn since_epoch_ns() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos() as u64)
}

/// A program with its native output.
#[derive(Clone, Debug)]
pub(crate) struct KnownProgram {
    program: Program,
    expected: victims::Outcome,
    native_s: f64,
}

impl KnownProgram {
    /// Gives the program's name for reports.
    pub(crate) fn name(&self) -> &'static str {
        self.program.name
    }

    /// Gives the native time of the program, seconds.
    pub(crate) fn native_s(&self) -> f64 {
        self.native_s
    }
}

/// Starts a program in an empty directory.
pub(crate) fn start(known: &KnownProgram, dir: &Path) -> Result<Victim, Error> {
    Victim::start(known, dir)
}

fn run(args: &Args, seed: u64) -> Result<Report, Error> {
    let mut draw = Draw::new(seed);
    let nodes = targets(&args.on)?;
    stop::watch()?;
    let dir = args.dir.join(format!("tern-soak-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(Error::system(format!("making {}", dir.display())))?;
    let outcome = in_directory(args, &dir, &nodes, &mut draw);
    // The files of a program that failed are kept for examination.
    let _ = std::fs::remove_dir(&dir);
    outcome
}

fn in_directory(args: &Args, dir: &Path, nodes: &[String], draw: &mut Draw) -> Result<Report, Error> {
    let known = known_programs(args.only.as_deref(), dir)?;
    let (mut report, mut display) = (Report::default(), Display::new());
    if known.is_empty() && stop::signal().is_none() {
        report.failures.push("none of its programs is installed here, or has such a name".into());
        return Ok(report);
    }
    let begun = Instant::now();
    let whole = Duration::from_secs_f64(args.minutes * 60.0);
    let end = begun + whole;
    let mut running: Vec<Victim> = Vec::new();
    let mut number = 0;
    loop {
        if stop::signal().is_some() {
            display.clear();
            running.into_iter().for_each(Victim::abandon);
            report.seconds = begun.elapsed().as_secs_f64();
            return Ok(report);
        }
        display.running(begun.elapsed(), whole, running.len(), &report);
        running.retain_mut(|victim| match victim.ended() {
            Some(complaint) => {
                display.clear();
                report.program_ended(victim.name(), victim.is_late(), complaint, victim.history());
                false
            }
            None => true,
        });
        let over = Instant::now() >= end;
        while running.len() < args.at_once && !over {
            number += 1;
            let one = &known[draw.below(known.len())];
            running.push(Victim::start(one, &dir.join(number.to_string()))?);
        }
        if running.is_empty() {
            display.clear();
            report.seconds = begun.elapsed().as_secs_f64();
            return Ok(report);
        }
        let pause_ms = PAUSE_MS.start + draw.below((PAUSE_MS.end - PAUSE_MS.start) as usize) as u64;
        std::thread::sleep(Duration::from_millis(pause_ms / args.at_once as u64));
        let mut movable: Vec<&mut Victim> = running.iter_mut().filter(|victim| !victim.is_late()).collect();
        if movable.is_empty() {
            continue;
        }
        let victim = movable.swap_remove(draw.below(movable.len()));
        let family = victim.family();
        if let Some(pid) = (!family.is_empty()).then(|| family[draw.below(family.len())]) {
            let place = draw.below(nodes.len() + 1);
            let place = nodes.get(place).map_or("home", String::as_str);
            let way = WAYS[draw.below(WAYS.len())];
            let name = victims::comm(pid);
            let rate = RATES[draw.below(RATES.len())];
            victim.note(&format!("{pid} ({name}) to {place}, {way}, {}", rate.unwrap_or("at once")));
            let result = move_to(pid, place, way, rate)?;
            victim.note(result.as_ref().map_or_else(|why| why.as_str(), |()| "moved"));
            report.moved(victim.name(), place, result);
        }
    }
}

/// Lists the programs that are installed and whose names contain `only`, after running each
/// natively once.
pub(crate) fn known_programs(only: Option<&str>, dir: &Path) -> Result<Vec<KnownProgram>, Error> {
    let mut known = Vec::new();
    let wanted = |p: &&Program| only.is_none_or(|only| p.name.contains(only));
    let all: Vec<&Program> =
        programs::ALL.iter().filter(wanted).filter(|p| p.needs.iter().all(|n| victims::is_there(n))).collect();
    let mut display = Display::new();
    for (number, program) in all.iter().enumerate() {
        if stop::signal().is_some() {
            break;
        }
        display.natively(program.name, number + 1, all.len());
        let begun = Instant::now();
        let expected = victims::natively(program, &dir.join("native"))?;
        known.push(KnownProgram { program: **program, expected, native_s: begun.elapsed().as_secs_f64() });
    }
    display.clear();
    Ok(known)
}

/// Chooses the nodes to move to: the named ones, or all others.
///
/// # Errors
/// No daemon answers, a named node is not there, or there is no other node.
fn targets(named: &[String]) -> Result<Vec<String>, Error> {
    let others = other_nodes()?;
    let refused = |why: String| Err(Error::Refused { why });
    match named.iter().find(|name| !others.contains(name)) {
        Some(absent) => {
            refused(format!("node {absent} is not alive, or is this one; others that are: {}", others.join(", ")))
        }
        None if others.is_empty() => {
            refused("no other node is alive that programs could be moved to (tern nodes)".into())
        }
        None if named.is_empty() => Ok(others),
        None => Ok(named.to_vec()),
    }
}

/// Lists the other nodes, by `tern nodes`.
fn other_nodes() -> Result<Vec<String>, Error> {
    let out = Command::new(tern()?).args(["nodes", "--json"]).output().map_err(Error::system("asking for nodes"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr).trim_end().to_owned();
        return Err(Error::Refused { why: said.strip_prefix("tern: ").unwrap_or(&said).to_owned() });
    }
    let nodes: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    let rows = nodes.as_array().or_else(|| nodes["nodes"].as_array()).cloned().unwrap_or_default();
    let other = |row: &&serde_json::Value| row["here"] != true && row["state"] == "alive";
    Ok(rows.iter().filter(other).filter_map(|row| Some(row["name"].as_str()?.to_owned())).collect())
}

/// Runs `tern move`. Gives success, or the reason for the refusal.
fn move_to(pid: i32, place: &str, way: &str, rate: Option<&str>) -> Result<Result<(), String>, Error> {
    let out = Command::new(tern()?)
        .args(["move", &pid.to_string(), place, "--how", way, "--max-freeze", "20ms"])
        .args(rate.map(|rate| format!("--rate={rate}")))
        .stdin(Stdio::null())
        .output()
        .map_err(Error::system("running tern move"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    Ok(if out.status.success() { Ok(()) } else { Err(said.lines().next().unwrap_or_default().to_owned()) })
}
