//! `tern bench table1|fig2|fig3|speeds|usher`: the scenarios of the simulator with real processes, on the nodes that there are. Jobs are shorter by a factor; the policy's
//! own times are, if the daemons run at a pace (`tern lab up --pace`), else they are as shipped, and moves and decisions weigh more than in the
//! scenario's own time.

mod cluster;
mod job;
mod jobs;
mod report;

use crate::Error;
use serde::{Deserialize, Serialize};
use sim::{Scenario, Strategy, fluid_as_begun_s, workload};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

pub(crate) use cluster::{ask, living};
pub use job::Job;
pub use jobs::{hold, pulse};

/// Where the lab says how many times as fast its daemons' policies run.
const PACE: &str = "TERN_PACE";

/// How the scenario is run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The scenario's time is divided by this; if absent by the pace of the daemons, or by 10
    #[arg(long)]
    scale: Option<f64>,
    /// Numbers of jobs; the scenario's rows if absent
    #[arg(long, value_delimiter = ',')]
    rows: Vec<u32>,
    /// So many nodes, of the scenario's kinds in proportion
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: Option<u32>,
    /// What is compared, of tern, static, refined, moved, opportunity; the scenario's if absent
    #[arg(long, value_delimiter = ',')]
    columns: Vec<String>,
    /// How the policy decides (off: moves for memory alone), instead of its shipped way; the columns' names say it
    #[arg(long, value_parser = ["off", "balance", "rotate", "opportunity"])]
    mode: Option<String>,
    /// Runs of each row; the scenario's if absent
    #[arg(long)]
    runs: Option<u32>,
    /// Seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Results so far, a line each: what is there is not run again
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Write a plot there (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Outcome {
    scenario: String,
    nodes: u32,
    scale: f64,
    /// How many times as fast the daemons' policies ran.
    pace: f64,
    jobs: u32,
    column: String,
    seed: u64,
    /// From the first start to the last end, in the scenario's seconds, of cores as fast as when they were tried.
    makespan_s: f64,
    /// How fast they were meanwhile, as part of that.
    core_speed: f64,
    /// Perfect sharing.
    fluid_s: f64,
    /// Perfect sharing of jobs that begin to compute when these did: what starting them took is in it. As `fluid_s` if it is not known when they began.
    begun_fluid_s: f64,
    /// From when the last had computed until its end was known here.
    ending_s: f64,
    /// Moving at a difference of two.
    by_two_s: Option<f64>,
    /// Processes that the policy moved.
    moves: usize,
    /// Jobs that did not end by themselves: killed for want of memory.
    killed: usize,
    /// The least memory that a node had left, as it was told, MiB.
    least_free_mib: Option<u64>,
}

fn refused(why: impl Into<String>) -> Error {
    Error::Failed { command: "tern bench".into(), status: "not begun".into(), output: why.into() }
}

/// Runs all that is not there yet; a table, or JSON. `memory`: jobs hold the memory that the scenario says, as a share of their node's.
pub fn measure(args: &Args, scenario: &str, memory: bool) -> Result<String, Error> {
    let mut scenario = Scenario::parse(scenario).map_err(|e| refused(e.to_string()))?;
    if let Some(nodes) = args.nodes {
        scenario = scenario.with_nodes(nodes);
    }
    // A node's share of a core is one core that is slower.
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
                let ran = jobs::run(&cluster, &workload, *column, args.mode.as_deref(), (scale, memory))?;
                let outcome = Outcome {
                    scenario: scenario.name.clone(),
                    nodes,
                    scale,
                    pace,
                    jobs,
                    column: name,
                    seed,
                    makespan_s: ran.makespan_s,
                    core_speed: ran.core_speed,
                    fluid_s: workload.fluid_s,
                    begun_fluid_s: match ran.begun_s.as_slice() {
                        [] => workload.fluid_s,
                        begun_s => fluid_as_begun_s(&row, seed, begun_s),
                    },
                    ending_s: ran.ending_s,
                    by_two_s: workload.by_two_s,
                    moves: ran.moves,
                    killed: ran.killed,
                    least_free_mib: ran.least_free_mib,
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
