//! `tern bench table1|fig2|fig3|speeds|usher`: the simulator's scenarios with real processes, on
//! the present nodes. Jobs are shorter by a factor. The policy's own times are shorter by the same
//! factor if the daemons run at a pace (`tern lab up --pace`). Otherwise they are as shipped, and
//! moves and decisions weigh more than in the scenario's own time.

mod cluster;
mod job;
mod jobs;
mod pvm;
mod report;

use crate::Error;
use serde::{Deserialize, Serialize};
use sim::{Scenario, Strategy, Workload, fluid_as_begun_s, workload};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

pub(crate) use cluster::{ask, living};
pub use job::Job;
pub use jobs::{hold, pulse};
pub use pvm::{TableArgs, measure as measure_pvm};

/// The variable in which the lab tells how many times as fast its daemons' policies run.
const PACE: &str = "TERN_PACE";

/// The arguments of these benchmarks.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Divide the scenario's time by this; the default is the pace of the daemons, or 10
    #[arg(long)]
    scale: Option<f64>,
    /// Numbers of jobs; the default is the scenario's rows
    #[arg(long, value_delimiter = ',')]
    rows: Vec<u32>,
    /// Number of nodes, of the scenario's kinds in proportion
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: Option<u32>,
    /// Strategies to compare, of tern, static, refined, moved, opportunity; the default is the
    /// scenario's
    #[arg(long, value_delimiter = ',')]
    columns: Vec<String>,
    /// Policy mode instead of the shipped one (off: moves for memory alone); the names of the
    /// columns tell it
    #[arg(long, value_parser = ["off", "balance", "rotate", "opportunity"])]
    mode: Option<String>,
    /// Runs of each row; the default is the scenario's
    #[arg(long)]
    runs: Option<u32>,
    /// Seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File of results so far, one on each line; runs in it are not repeated
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Write a plot to this file (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Outcome {
    scenario: String,
    nodes: u32,
    scale: f64,
    /// Factor by which the daemons' policies ran faster.
    pace: f64,
    jobs: u32,
    column: String,
    seed: u64,
    /// Time from the first start to the last end, in the scenario's seconds, for cores of the speed
    /// that was measured before the run.
    makespan_s: f64,
    /// Speed of the cores during the run, as a share of that speed.
    core_speed: f64,
    /// Makespan under perfect sharing.
    fluid_s: f64,
    /// Makespan under perfect sharing if jobs begin to compute when they did in this run, so that
    /// it includes the time for starting them. The same as `fluid_s` if these times are not known.
    begun_fluid_s: f64,
    /// Time from the end of the last job's computation until its end was known.
    ending_s: f64,
    /// Makespan with moves at a difference of two jobs.
    by_two_s: Option<f64>,
    /// Number of processes that the policy moved.
    moves: usize,
    /// Number of jobs that were killed for want of memory.
    killed: usize,
    /// The least free memory that a node reported, MiB.
    least_free_mib: Option<u64>,
}

fn refused(why: impl Into<String>) -> Error {
    Error::Failed { command: "tern bench".into(), status: "not begun".into(), output: why.into() }
}

/// Runs all runs that are not in the results yet. Gives a table, or JSON. `memory`: jobs hold the
/// scenario's memory, as a share of their node's.
pub fn measure(args: &Args, scenario: &str, memory: bool) -> Result<String, Error> {
    let mut scenario = Scenario::parse(scenario).map_err(|e| refused(e.to_string()))?;
    if let Some(nodes) = args.nodes {
        scenario = scenario.with_nodes(nodes);
    }
    // A node's share of a core counts as one slow core.
    scenario.nodes.iter_mut().for_each(|nodes| nodes.cores = 1.0);
    let pace: f64 = std::env::var(PACE).ok().and_then(|pace| pace.parse().ok()).unwrap_or(1.0);
    let scale = args.scale.unwrap_or(if pace > 1.0 { pace } else { 10.0 });
    if !(1.0..=1000.0).contains(&scale) {
        return Err(refused("--scale must be from 1 to 1000"));
    }
    let columns = columns(args, &scenario)?;
    let cluster = cluster::find(&scenario, memory)?;
    scenario = scenario.with_speeds(&cluster.rates);
    let nodes = scenario.node_count();
    let rows = if args.rows.is_empty() { scenario.rows.clone() } else { args.rows.clone() };
    let runs = args.runs.unwrap_or(scenario.runs);
    let mut done = args.resume.as_deref().map_or_else(Vec::new, earlier);
    eprintln!(
        "{}: time is divided by {scale} for the jobs, and by {pace} for the policy and its gossip; a job alone gets {:.1} % of its node's share, and bounds are by that",
        scenario.name,
        cluster.share * 100.0
    );
    let (all, mut begun) = (rows.len() * runs as usize * columns.len(), 0);
    for jobs in rows {
        for seed in args.seed..args.seed + u64::from(runs) {
            let row = scenario.with_jobs(jobs);
            let workload = workload(&row, seed);
            for column in &columns {
                begun += 1;
                let name = args.mode.as_ref().map_or(column.name().to_owned(), |m| format!("{}-{m}", column.name()));
                let same = |o: &Outcome| {
                    (&o.scenario, o.nodes, o.scale, o.pace, o.jobs, o.column.as_str(), o.seed)
                        == (&scenario.name, nodes, scale, pace, jobs, name.as_str(), seed)
                };
                if done.iter().any(same) {
                    continue;
                }
                let how = jobs::JobMode { scale, memory };
                let ran = jobs::run(&cluster, &workload, *column, args.mode.as_deref(), how)?;
                let outcome = Outcome {
                    scenario: scenario.name.clone(),
                    nodes,
                    scale,
                    pace,
                    jobs,
                    column: name,
                    ..Outcome::of(ran, &row, &workload, seed)
                };
                eprintln!("{begun} of {all}: {}", report::line(&outcome));
                args.resume.as_deref().map_or(Ok(()), |path| keep(path, &outcome))?;
                done.push(outcome);
            }
        }
    }
    done.retain(|o| (&o.scenario, o.nodes, o.scale, o.pace) == (&scenario.name, nodes, scale, pace));
    if let Some(path) = &args.svg {
        let plot = report::plot(&scenario.name, &done);
        fs::write(path, plot).map_err(Error::system(format!("writing {}", path.display())))?;
    }
    Ok(if args.json { serde_json::to_string_pretty(&done).unwrap_or_default() + "\n" } else { report::table(&done) })
}

impl Outcome {
    /// Gives the outcome of a run of this seed; the caller adds the parameters of the benchmark.
    fn of(ran: jobs::Ran, row: &Scenario, workload: &Workload, seed: u64) -> Outcome {
        Outcome {
            seed,
            makespan_s: ran.makespan_s,
            core_speed: ran.core_speed,
            fluid_s: workload.fluid_s,
            begun_fluid_s: match ran.begun_s.as_slice() {
                [] => workload.fluid_s,
                begun_s => fluid_as_begun_s(row, seed, begun_s),
            },
            ending_s: ran.ending_s,
            by_two_s: workload.by_two_s,
            moves: ran.moves,
            killed: ran.killed,
            least_free_mib: ran.least_free_mib,
            ..Outcome::default()
        }
    }
}

fn columns(args: &Args, scenario: &Scenario) -> Result<Vec<Strategy>, Error> {
    if args.columns.is_empty() {
        return Ok(scenario.columns.0.clone());
    }
    let known = [Strategy::Tern, Strategy::Static, Strategy::Refined, Strategy::Moved, Strategy::Opportunity];
    let named = |name: &String| known.into_iter().find(|strategy| strategy.name() == name);
    let columns = args.columns.iter().map(named).collect::<Option<Vec<_>>>();
    columns.ok_or_else(|| refused("--columns are any of tern, static, refined, moved, opportunity"))
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
