//! `tern bench table1|fig2`: the scenarios of the simulator with real processes, on the nodes that there are. Jobs are shorter by a factor; all
//! else has its shipped timing, so moves and decisions weigh more than in the scenario's own time.

use crate::Error;
use crate::guest::burn;
use crate::run::me;
use serde::{Deserialize, Serialize};
use sim::{Scenario, Strategy, Workload, workload};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long is waited for all nodes' loads.
const LOADS_WITHIN: Duration = Duration::from_secs(60);

/// How the scenario is run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scenario's time is divided by this
    #[arg(long, default_value_t = 10.0)]
    scale: f64,
    /// Numbers of jobs; the scenario's rows if absent
    #[arg(long, value_delimiter = ',')]
    rows: Vec<u32>,
    /// What is compared: tern, static, refined
    #[arg(long, value_delimiter = ',', default_value = "tern,static,refined")]
    columns: Vec<String>,
    /// Runs of each row; the scenario's if absent
    #[arg(long)]
    runs: Option<u32>,
    /// Seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Results so far, a line each: what is there is not run again
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Outcome {
    scenario: String,
    scale: f64,
    jobs: u32,
    column: String,
    seed: u64,
    /// From the first start to the last end, in the scenario's seconds.
    makespan_s: f64,
    /// Perfect sharing.
    fluid_s: f64,
    /// Moving at a difference of two.
    by_two_s: Option<f64>,
    /// Processes that the policy moved.
    moves: usize,
}

/// The cluster as it is.
struct Cluster {
    nodes: Vec<String>,
    /// Rounds of [`burn`] that a node does in a second.
    rounds_per_s: f64,
}

/// Runs all that is not there yet; a table, or JSON.
pub fn measure(args: &Args, scenario: &str) -> Result<String, Error> {
    let refused = |why: String| Error::Failed { command: "tern bench".into(), status: "not begun".into(), output: why };
    let scenario = Scenario::parse(scenario).map_err(|e| refused(e.to_string()))?;
    if !(args.scale >= 1.0 && args.scale <= 1000.0) {
        return Err(refused("--scale must be from 1 to 1000".into()));
    }
    let columns = args.columns.iter().map(|c| strategy(c)).collect::<Option<Vec<_>>>();
    let columns = columns.ok_or_else(|| refused("--columns are any of tern, static, refined".into()))?;
    let cluster = cluster(scenario.node_count() as usize)?;
    let rows = if args.rows.is_empty() { &scenario.rows } else { &args.rows };
    let mut done = args.resume.as_deref().map_or_else(Vec::new, earlier);
    for jobs in rows {
        for seed in args.seed..args.seed + u64::from(args.runs.unwrap_or(scenario.runs)) {
            let workload = workload(&scenario.with_jobs(*jobs), seed);
            for (column, name) in columns.iter().zip(&args.columns) {
                let same = |o: &&Outcome| {
                    (&o.scenario, o.scale, o.jobs, &o.column, o.seed) == (&scenario.name, args.scale, *jobs, name, seed)
                };
                if done.iter().any(|o| same(&o)) {
                    continue;
                }
                let (makespan_s, moves) = run(&cluster, &workload, *column, args.scale)?;
                let (fluid_s, by_two_s) = (workload.fluid_s, workload.by_two_s);
                let outcome = Outcome {
                    scenario: scenario.name.clone(),
                    scale: args.scale,
                    jobs: *jobs,
                    column: name.clone(),
                    seed,
                    makespan_s,
                    fluid_s,
                    by_two_s,
                    moves,
                };
                eprintln!(
                    "{jobs} jobs, {name}, seed {seed}: {makespan_s:.1} s, perfect sharing {fluid_s:.1} s, {moves} moves"
                );
                args.resume.as_deref().map_or(Ok(()), |path| keep(path, &outcome))?;
                done.push(outcome);
            }
        }
    }
    done.retain(|o| o.scenario == scenario.name && o.scale == args.scale);
    Ok(if args.json { serde_json::to_string_pretty(&done).unwrap_or_default() + "\n" } else { table(&done) })
}

fn strategy(name: &str) -> Option<Strategy> {
    [("tern", Strategy::Tern), ("static", Strategy::Static), ("refined", Strategy::Refined)]
        .into_iter()
        .find_map(|(n, strategy)| (n == name).then_some(strategy))
}

fn earlier(path: &Path) -> Vec<Outcome> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn keep(path: &Path, outcome: &Outcome) -> Result<(), Error> {
    let line = serde_json::to_string(outcome).unwrap_or_default() + "\n";
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(Error::system(format!("writing {}", path.display())))
}

/// What this tool says to such a question.
fn ask(words: &[&str]) -> Result<String, Error> {
    let done = Command::new(me()?).args(words).output().map_err(Error::system("running tern"))?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(Error::Failed {
            command: format!("tern {}", words.join(" ")),
            status: done.status.to_string(),
            output: String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        }),
    }
}

/// As many other nodes as the scenario has, with equal shares of a core.
fn cluster(wanted: usize) -> Result<Cluster, Error> {
    let refused = |why: String| Error::Failed { command: "tern nodes".into(), status: "not begun".into(), output: why };
    let start = Instant::now();
    let others = loop {
        let nodes: Vec<serde_json::Value> =
            serde_json::from_str(&ask(&["nodes", "--json"])?).map_err(|e| refused(e.to_string()))?;
        let others: Vec<_> = nodes.into_iter().filter(|n| n["state"] == "alive" && n["here"] == false).collect();
        // Loads of a cluster that has just begun are still on their way.
        if others.iter().all(|n| n["load"].is_object()) || start.elapsed() > LOADS_WITHIN {
            break others;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    if others.len() != wanted {
        let hint = format!("tern lab up --nodes {} --cpus 0.1", wanted + 1);
        return Err(refused(format!("{wanted} nodes beside this one are wanted, {} are there ({hint})", others.len())));
    }
    let capacity = |node: &serde_json::Value| node["load"]["capacity_milli"].as_f64().unwrap_or(0.0) / 1000.0;
    let share = others.first().map_or(0.0, capacity);
    if share <= 0.0 || others.iter().any(|n| (capacity(n) - share).abs() > 0.001) {
        return Err(refused("the nodes have not the same share of a core".into()));
    }
    let nodes = others.iter().filter_map(|n| n["name"].as_str()).map(str::to_owned).collect();
    Ok(Cluster { nodes, rounds_per_s: rounds_per_cpu_s()? * share })
}

/// Rounds of [`burn`] in a second of CPU time.
fn rounds_per_cpu_s() -> Result<f64, Error> {
    const ROUNDS: u64 = 100_000_000;
    let cpu_ns = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let before_ns = cpu_ns();
    burn(ROUNDS).map_err(Error::system("calibrating"))?;
    Ok(ROUNDS as f64 * 1e9 / (cpu_ns() - before_ns).max(1.0))
}

/// Makespan in the scenario's seconds, and how many moves the policy made.
fn run(cluster: &Cluster, workload: &Workload, column: Strategy, scale: f64) -> Result<(f64, usize), Error> {
    ask(&["policy", "set", if column == Strategy::Static { "moves=off" } else { "moves=on" }])?;
    let moves =
        || Ok::<_, Error>(ask(&["log", "--decisions"])?.lines().filter(|l| l.starts_with("{\"decision\"")).count());
    let before = moves()?;
    let me = me()?;
    let first_s = workload.jobs.first().map_or(0.0, |job| job.at_s);
    let start = Instant::now();
    let ends = std::thread::scope(|scope| {
        let jobs = workload.jobs.iter().enumerate().map(|(number, job)| {
            let node = &cluster.nodes[number % cluster.nodes.len()];
            let rounds = (job.work_s / scale * cluster.rounds_per_s).max(1.0) as u64;
            let mut command = Command::new(&me);
            command.arg("run");
            match column {
                Strategy::Static => drop(command.args(["--on", node])),
                Strategy::Refined => drop(command.args(["--on", node, "--movable"])),
                _ => {}
            }
            command.arg("--").arg(&me).args(["__bench-guest", "burn", &rounds.to_string()]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let after = Duration::from_secs_f64((job.at_s - first_s) / scale);
            scope.spawn(move || finish(command, start + after).map(|end| end.duration_since(start)))
        });
        let jobs: Vec<_> = jobs.collect();
        let failed = || Error::System { doing: "running jobs".into(), source: std::io::Error::other("a thread died") };
        jobs.into_iter().map(|job| job.join().map_err(|_| failed())?).collect::<Result<Vec<_>, Error>>()
    })?;
    let last = ends.into_iter().max().unwrap_or_default();
    Ok((last.as_secs_f64() * scale, moves()?.saturating_sub(before)))
}

/// Starts it then, and waits for its end.
fn finish(mut command: Command, then: Instant) -> Result<Instant, Error> {
    std::thread::sleep(then.saturating_duration_since(Instant::now()));
    let done =
        command.spawn().and_then(std::process::Child::wait_with_output).map_err(Error::system("running a job"))?;
    let end = Instant::now();
    match done.status.success() {
        true => Ok(end),
        false => Err(Error::Failed {
            command: "a job".into(),
            status: done.status.to_string(),
            output: String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        }),
    }
}

/// Means over the runs.
fn table(outcomes: &[Outcome]) -> String {
    let mut text =
        format!("{:>5} {:>9} {:>9}  columns: seconds (over perfect sharing, moves)\n", "jobs", "perfect", "by two");
    let mut rows: Vec<u32> = outcomes.iter().map(|o| o.jobs).collect();
    rows.sort_unstable();
    rows.dedup();
    for jobs in rows {
        let row: Vec<&Outcome> = outcomes.iter().filter(|o| o.jobs == jobs).collect();
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let by_two = row.iter().map(|o| o.by_two_s).collect::<Option<Vec<_>>>().map(mean);
        let by_two = by_two.map_or("-".to_owned(), |s| format!("{s:.1}"));
        let _ = write!(text, "{jobs:>5} {:>9.1} {by_two:>9}", mean(row.iter().map(|o| o.fluid_s).collect()));
        let mut columns: Vec<&str> = row.iter().map(|o| o.column.as_str()).collect();
        columns.sort_unstable_by_key(|c| ["tern", "static", "refined"].iter().position(|k| k == c));
        columns.dedup();
        for column in columns {
            let of =
                |f: &dyn Fn(&Outcome) -> f64| mean(row.iter().filter(|o| o.column == column).map(|o| f(o)).collect());
            let (seconds, over, moves) =
                (of(&|o| o.makespan_s), of(&|o| o.makespan_s / o.fluid_s), of(&|o| o.moves as f64));
            let _ = write!(text, "  {column} {seconds:.1} ({:+.1} %, {moves:.1})", (over - 1.0) * 100.0);
        }
        text.push('\n');
    }
    text
}
