//! One run: all jobs of a workload, and the background, as real processes.

use super::Job;
use super::cluster::{Cluster, ask, others};
use super::job::now_ns;
use crate::Error;
use crate::burn::burn;
use crate::run::{me, tern};
use rustix::time::ClockId;
use sim::{Strategy, Workload};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time between two readings of the nodes' memory.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Rounds of [`burn`] between two readings of the clock.
const BEAT_ROUNDS: u64 = 100_000;
/// A job reaches its size in this share of its work.
const GROWS_IN: u64 = 8;
const PAGE_BYTES: usize = 4096;
const MIB: usize = 1 << 20;

/// The measurement of a run.
#[derive(Default)]
pub struct Ran {
    /// Makespan in the scenario's seconds, for cores of the speed that was measured before the run.
    pub makespan_s: f64,
    /// Speed of the cores during the run, as a share of that speed. Processors do not keep their
    /// speed, least of all virtual ones.
    pub core_speed: f64,
    /// Time at which each job began to compute after the first was started, in the scenario's
    /// seconds; empty if a job does not tell.
    pub begun_s: Vec<f64>,
    /// Time from the end of the last job's computation until its end was known, in the scenario's
    /// seconds.
    pub ending_s: f64,
    /// Number of moves by the policy.
    pub moves: usize,
    /// Number of jobs that did not end by themselves.
    pub killed: usize,
    /// The least free memory of a node, MiB; only if jobs hold memory.
    pub least_free_mib: Option<u64>,
}

/// The way in which jobs run.
#[derive(Clone, Copy, Debug)]
pub struct JobMode {
    /// Factor by which jobs are shorter than in the scenario.
    pub scale: f64,
    /// Whether jobs hold the scenario's memory.
    pub memory: bool,
}

/// Runs all jobs to their ends.
pub fn run(
    cluster: &Cluster,
    work: &Workload,
    column: Strategy,
    mode: Option<&str>,
    how: JobMode,
) -> Result<Ran, Error> {
    let JobMode { scale, memory } = how;
    let shipped = if column == Strategy::Opportunity { "opportunity" } else { "rotate" };
    ask(&["policy", "set", if column == Strategy::Static { "moves=off" } else { "moves=on" }, "home=off"])?;
    ask(&["policy", "set", &format!("mode={}", mode.unwrap_or(shipped))])?;
    let before = moves()?;
    let first_s = work.jobs.first().map_or(0.0, |job| job.at_s);
    let _background = Background::start(cluster, work, column, scale)?;
    let (start, start_ns) = (Instant::now(), now_ns(ClockId::Monotonic));
    let over = AtomicBool::new(false);
    let (ends, least_free_mib) = std::thread::scope(|scope| {
        let watch = memory.then(|| scope.spawn(|| least_free(&over)));
        let jobs: Vec<_> = work
            .jobs
            .iter()
            .enumerate()
            .map(|(number, job)| {
                let rounds = ((job.work_s / scale * cluster.rounds_per_s).max(1.0) as u64).to_string();
                let mib = ((f64::from(job.memory_mib) * cluster.memory).round().max(1.0) as u64).to_string();
                let words = if memory { vec!["hold", &mib, &rounds] } else { vec!["job", &rounds] };
                let command = guest(cluster, column, number, &words);
                let after = Duration::from_secs_f64((job.at_s - first_s) / scale);
                command.map(|command| scope.spawn(move || finish(command, start + after)))
            })
            .collect();
        let failed = || Error::System { doing: "running jobs".into(), source: std::io::Error::other("a thread died") };
        let ends = jobs.into_iter().map(|job| job?.join().map_err(|_| failed())?).collect::<Result<Vec<_>, Error>>();
        over.store(true, Ordering::Relaxed);
        let least = watch.and_then(|watch| watch.join().ok().flatten());
        ends.map(|ends| (ends, least))
    })?;
    let last = ends.iter().map(|end| end.at.duration_since(start)).max().unwrap_or_default();
    let killed = ends.iter().filter(|end| !end.whole).count();
    let jobs: Vec<Option<Job>> = ends.into_iter().map(|end| end.job).collect();
    if killed > 0 && !memory {
        let output = format!("{killed} of {} did not end by themselves: tern log says why", work.jobs.len());
        return Err(Error::Failed { command: "jobs".into(), status: "killed".into(), output });
    }
    let moves = moves()?.saturating_sub(before);
    Ok(Ran { moves, killed, least_free_mib, ..Ran::timed(cluster, &jobs, start_ns, last.as_secs_f64(), scale) })
}

impl Ran {
    /// Evaluates the measurements of jobs that were started from `start_ns` on (CLOCK_MONOTONIC).
    /// The last one had ended after `last_s`.
    fn timed(cluster: &Cluster, jobs: &[Option<Job>], start_ns: u64, last_s: f64, scale: f64) -> Ran {
        let told: Vec<Job> = jobs.iter().flatten().copied().collect();
        let core_speed =
            if told.is_empty() { 1.0 } else { Job::sum(&told).rounds_per_cpu_s() / cluster.rounds_per_cpu_s };
        let stretch = scale * core_speed;
        let is_whole = !told.is_empty() && told.len() == jobs.len();
        let begun_s = told.iter().map(|job| job.began_s(start_ns) * stretch);
        let computed_s = told.iter().map(|job| job.ended_s(start_ns)).fold(0.0, f64::max);
        Ran {
            makespan_s: last_s * stretch,
            core_speed,
            begun_s: if is_whole { begun_s.collect() } else { Vec::new() },
            ending_s: if is_whole { (last_s - computed_s).max(0.0) * stretch } else { 0.0 },
            ..Ran::default()
        }
    }
}

/// Counts the moves of the policy since its daemon began.
fn moves() -> Result<usize, Error> {
    let status: serde_json::Value = serde_json::from_str(&ask(&["status", "--json"])?).unwrap_or_default();
    let moved = status["moved"].as_u64().and_then(|n| n.try_into().ok());
    moved.ok_or_else(|| super::refused("tern status does not say how many processes the policy has moved"))
}

/// Builds the command for a process of the scenario, started as the strategy says.
fn guest(cluster: &Cluster, column: Strategy, number: usize, words: &[&str]) -> Result<Command, Error> {
    let me = me()?;
    let in_turn = &cluster.nodes[number % cluster.nodes.len()];
    let mut command = Command::new(tern()?);
    command.arg("run");
    match column {
        Strategy::Static => drop(command.args(["--on", in_turn])),
        Strategy::Refined => drop(command.args(["--on", in_turn, "--movable"])),
        Strategy::Moved => drop(command.args(["--on", &cluster.nodes[0], "--movable"])),
        Strategy::Tern | Strategy::Opportunity => {}
    }
    command.arg("--").arg(&me).arg("__bench-guest").args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// The end of a job.
struct End {
    at: Instant,
    /// Whether the job ended by itself.
    whole: bool,
    /// The measurement of the job, if it reported one.
    job: Option<Job>,
}

/// Starts a command at this time, and waits for its end.
fn finish(mut command: Command, then: Instant) -> Result<End, Error> {
    std::thread::sleep(then.saturating_duration_since(Instant::now()));
    let ended = command.stderr(Stdio::piped()).spawn().and_then(Child::wait_with_output);
    let ended = ended.map_err(Error::system("running a job"))?;
    Ok(End { at: Instant::now(), whole: ended.status.success(), job: Job::of_output(&ended.stderr).ok() })
}

/// Reads the nodes' memory until the run is over.
fn least_free(over: &AtomicBool) -> Option<u64> {
    let mut least: Option<u64> = None;
    while !over.load(Ordering::Relaxed) {
        let told = others().unwrap_or_default();
        let free = told.iter().filter_map(|node| node["load"]["available_mib"].as_u64()).min();
        least = least.into_iter().chain(free).min();
        std::thread::sleep(LOOK_EVERY);
    }
    least
}

/// Processes that run and pause until the jobs are over. They are killed when this is dropped.
struct Background(Vec<Child>);

impl Background {
    fn start(cluster: &Cluster, work: &Workload, column: Strategy, scale: f64) -> Result<Background, Error> {
        let mut all = Background(Vec::new());
        for (number, beats) in work.background.iter().enumerate() {
            let beats: Vec<String> = beats.iter().map(|s| format!("{:.0}", s / scale * 1e3)).collect();
            let mut command = guest(cluster, column, number, &["pulse", &beats.join(",")])?;
            all.0.push(command.spawn().map_err(Error::system("starting the background"))?);
        }
        Ok(all)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Runs and pauses in turn for these milliseconds, separated by commas, whatever CPU time the
/// process gets; then ends.
pub fn pulse(beats: &str) -> std::io::Result<f64> {
    let start = Instant::now();
    let mut until = Duration::ZERO;
    for (number, beat) in beats.split(',').enumerate() {
        until += Duration::from_millis(beat.parse().map_err(std::io::Error::other)?);
        if number % 2 == 1 {
            std::thread::sleep(until.saturating_sub(start.elapsed()));
        }
        while start.elapsed() < until {
            burn(BEAT_ROUNDS)?;
        }
    }
    Ok(start.elapsed().as_nanos() as f64)
}

/// Computes, and meanwhile comes to hold this many MiB.
pub fn hold(mib: u64, rounds: u64) -> std::io::Result<f64> {
    let mut held: Vec<Vec<u8>> = Vec::new();
    let growing = rounds / GROWS_IN;
    for _ in 0..mib {
        burn((growing / mib.max(1)).max(1))?;
        let mut piece = vec![0; MIB];
        piece.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
        held.push(piece);
    }
    let ns = burn((rounds - growing).max(1))?;
    let whole = held.iter().all(|piece| piece.iter().step_by(PAGE_BYTES).all(|byte| *byte == 1));
    if whole { Ok(ns) } else { Err(std::io::Error::other("memory has changed")) }
}
