//! `tern bench table1 --pvm`: the jobs of the scenario started by PVM (`pvm_spawn`, on the nodes in
//! turn), alone and with tern moving them, beside tern alone (the columns of Barak and others,
//! Table 1). Each node is the home of the jobs that PVM starts on it.

use super::cluster::Cluster;
use super::{Args, Outcome, cluster, earlier, jobs, keep, refused, report};
use crate::Error;
use crate::jobs_over_nodes::{Machine, Site, of_machine};
use crate::reach::output;
use crate::run::me;
use sim::{Scenario, Strategy, Workload, workload};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The rows of the paper around whole multiples of its 16 nodes.
const ROWS: [u32; 6] = [1, 16, 17, 24, 33, 48];
const ROWS_QUICK: [u32; 2] = [1, 17];
/// The factor by which time is divided in a quick run.
const SCALE_QUICK: f64 = 60.0;

/// The arguments of `tern bench table1`.
#[derive(Debug, clap::Args)]
pub struct TableArgs {
    #[command(flatten)]
    pub all: Args,
    /// Compare PVM alone, tern alone, and PVM with tern (columns pvm, tern, pvm-tern; rows
    /// 1,16,17,24,33,48). Nodes need PVM (a lab: `tern lab up --whole --nodes 17 --cpus 0.1`, then
    /// `tern bench reach`)
    #[arg(long)]
    pub pvm: bool,
    /// With --pvm: divide time by 60, and run rows 1 and 17 alone
    #[arg(long, requires = "pvm")]
    quick: bool,
    /// With --pvm: program that runs a command on another node, as ssh does (`dist/on-node`)
    #[arg(long, default_value = "on-node")]
    on_node: PathBuf,
}

/// The ways to start jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Pvm,
    Tern,
    Both,
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Pvm => "pvm",
            Column::Tern => "tern",
            Column::Both => "pvm-tern",
        }
    }
}

/// Settings that all runs have in common.
struct Table<'a> {
    scenario: &'a Scenario,
    cluster: &'a Cluster,
    site: &'a Site,
    spawner: &'a Path,
    scale: f64,
}

/// Runs all runs that are not in the results yet. Gives a table, or JSON.
pub fn measure(args: &TableArgs, scenario: &str) -> Result<String, Error> {
    let mut scenario = Scenario::parse(scenario).map_err(|e| refused(e.to_string()))?;
    if let Some(nodes) = args.all.nodes {
        scenario = scenario.with_nodes(nodes);
    }
    scenario.nodes.iter_mut().for_each(|nodes| nodes.cores = 1.0);
    let scale = args.all.scale.unwrap_or(if args.quick { SCALE_QUICK } else { 10.0 });
    if !(1.0..=1000.0).contains(&scale) {
        return Err(refused("--scale must be from 1 to 1000"));
    }
    let cluster = cluster::find(&scenario, false)?;
    scenario = scenario.with_speeds(&cluster.rates);
    let site = Site::new(&args.on_node, &cluster.nodes)?;
    let spawner = site.program("spawn", include_str!("../parallel/spawn_pvm.c"), &["cc", "-lpvm3"])?;
    let table = Table { scenario: &scenario, cluster: &cluster, site: &site, spawner: &spawner, scale };
    let outcomes = table.run_all(args)?;
    if let Some(path) = &args.all.svg {
        let plot = report::plot(&scenario.name, &outcomes);
        std::fs::write(path, plot).map_err(Error::system(format!("writing {}", path.display())))?;
    }
    Ok(if args.all.json { crate::figures::json(&outcomes) } else { report::table(&outcomes) })
}

impl Table<'_> {
    fn run_all(&self, args: &TableArgs) -> Result<Vec<Outcome>, Error> {
        let rows = match (args.all.rows.is_empty(), args.quick) {
            (false, _) => args.all.rows.clone(),
            (true, true) => ROWS_QUICK.to_vec(),
            (true, false) => ROWS.to_vec(),
        };
        let resume = args.all.resume.as_deref();
        let mut done = resume.map_or_else(Vec::new, earlier);
        for jobs in rows {
            for column in [Column::Pvm, Column::Tern, Column::Both] {
                let is_same = |o: &Outcome| {
                    (o.jobs, o.column.as_str(), o.nodes, o.scale) == (jobs, column.name(), self.nodes(), self.scale)
                };
                if done.iter().any(is_same) {
                    continue;
                }
                let outcome = self.run(jobs, column, args.all.seed)?;
                eprintln!("{}", report::line(&outcome));
                resume.map_or(Ok(()), |path| keep(path, &outcome))?;
                done.push(outcome);
            }
        }
        Ok(done)
    }

    fn nodes(&self) -> u32 {
        self.scenario.node_count()
    }

    fn run(&self, jobs: u32, column: Column, seed: u64) -> Result<Outcome, Error> {
        let row = self.scenario.with_jobs(jobs);
        let work = workload(&row, seed);
        let ran = match column {
            Column::Tern => {
                let how = jobs::JobMode { scale: self.scale, memory: false };
                jobs::run(self.cluster, &work, Strategy::Tern, None, how)?
            }
            Column::Pvm | Column::Both => self.spawned(&work, column == Column::Both)?,
        };
        Ok(Outcome {
            scenario: self.scenario.name.clone(),
            nodes: self.nodes(),
            scale: self.scale,
            pace: 1.0,
            jobs,
            column: column.name().into(),
            ..Outcome::of(ran, &row, &work, seed)
        })
    }

    /// Has PVM start all jobs at once, and waits for the last.
    fn spawned(&self, work: &Workload, moves: bool) -> Result<jobs::Ran, Error> {
        let _machine = Machine::start(self.site, &self.site.nodes)?;
        self.site.let_tern_move(moves)?;
        let before = self.site.moves()?;
        let longest_s = work.jobs.iter().map(|job| job.work_s).fold(0.0, f64::max);
        let rounds = ((longest_s / self.scale * self.cluster.rounds_per_s).max(1.0) as u64).to_string();
        let mut command = Command::new(self.spawner);
        of_machine(&mut command, &self.site.dir);
        command.args([&work.jobs.len().to_string(), &self.site.nodes.join(",")]);
        command.arg(me()?).args(["__bench-guest", "job", &rounds]);
        let begun = Instant::now();
        let ended = output(command, b"");
        let took_s = begun.elapsed().as_secs_f64();
        let moved = self.site.moves()?.saturating_sub(before);
        self.site.let_tern_move(false)?;
        ended?;
        Ok(jobs::Ran { makespan_s: took_s * self.scale, core_speed: 1.0, moves: moved, ..jobs::Ran::default() })
    }
}
