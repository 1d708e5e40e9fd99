//! `tern bench cosched`: parallel jobs in each mode of coscheduling, beside local work (F. Solsona
//! and others, sections 2 and 5.2: Figs 4 and 5, Table 3, and equations 1 to 4), and an interactive
//! program beside several jobs.

mod costs;
mod interactive;
mod load;
mod programs;
mod table;

use crate::Error;
use crate::stats::median_and_least;
use clap::Args as ClapArgs;
use programs::{Job, Library, Programs};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The modes of the paper, and both rules by messages.
pub const MODES: [&str; 9] = ["none", "spin", "mxi", "mxispin", "prio", "priospin", "explicit", "dynamic", "sdca"];

/// The arguments of `tern bench cosched`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Library of the jobs
    #[arg(long, value_enum, default_value = "pvm")]
    library: Library,
    /// Modes to compare; `none` is always measured
    #[arg(long, value_delimiter = ',', value_parser = MODES, default_values_t = MODES.map(str::to_owned))]
    modes: Vec<String>,
    /// Numbers of compilers that run beside the job; 0 and 1 in a quick run
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2, 3])]
    loads: Vec<u32>,
    /// Tasks of a job
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    tasks: u32,
    /// Iterations of sintree; 10000 in a quick run
    #[arg(long, value_delimiter = ',', default_values_t = [30_000, 70_000])]
    iterations: Vec<u64>,
    /// Class of the kernels IS and MG; S in a quick run
    #[arg(long, value_parser = ["S", "W", "A"], default_value = "W")]
    class: String,
    /// Runs of each kind, whose median is shown; 1 in a quick run
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Repeat less: minutes instead of an hour
    #[arg(long)]
    quick: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// A job in one mode beside one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The program and its size.
    pub program: String,
    /// Mode of the job.
    pub mode: String,
    /// Number of compilers beside the job.
    pub local_load: u32,
    /// Median time of the job, seconds.
    pub seconds: f64,
    /// Median time of a compilation that came to its end beside the job, seconds; none if none did.
    pub compile_s: Option<f64>,
    /// Number of these.
    pub compiles: usize,
}

/// All that was measured: a line of a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Measured {
    /// A job in one mode beside one load.
    Job(Row),
    /// The overheads of equations 1 to 4.
    Costs(costs::Costs),
    /// An interactive program beside jobs.
    Response(interactive::Response),
}

impl Measured {
    /// Gives the row of a job, if it is one.
    pub fn job(&self) -> Option<&Row> {
        match self {
            Measured::Job(row) => Some(row),
            _ => None,
        }
    }
}

/// Runs all jobs.
pub fn measure(args: &Args, run_dir: &Path) -> Result<String, Error> {
    let programs = Programs::compile(args.library)?;
    let source = load::write_source(&programs.dir, if args.quick { 20 } else { 60 })?;
    let bench = Bench { args, programs: &programs, run_dir, source };
    let mut all: Vec<Measured> = bench.rows()?.into_iter().map(Measured::Job).collect();
    all.push(Measured::Costs(costs::measure(&bench)?));
    all.extend(interactive::measure(&bench)?.into_iter().map(Measured::Response));
    Ok(if args.json { crate::figures::json(&all) } else { table::text(&all) })
}

/// The benchmark under way.
struct Bench<'a> {
    args: &'a Args,
    programs: &'a Programs,
    run_dir: &'a Path,
    source: std::path::PathBuf,
}

impl Bench<'_> {
    fn quick_or<T>(&self, quick: T, whole: T) -> T {
        if self.args.quick { quick } else { whole }
    }

    /// The jobs. Kernels are repeated so often that a job takes about a second alone.
    fn jobs(&self) -> Vec<Job> {
        let class = self.quick_or("S", self.args.class.as_str());
        let repeats = |program| match (program, class) {
            ("is", "S") => "120",
            ("mg", "S") => "120",
            (_, "W") => "10",
            _ => "1",
        };
        let iterations = self.quick_or(vec![10_000], self.args.iterations.clone());
        let job = |program, words| Job { program, words, tasks: self.args.tasks };
        let trees = iterations.iter().map(|count| job("sintree", vec![count.to_string()]));
        let kernels = ["is", "mg"].map(|name| job(name, vec![class.to_owned(), repeats(name).to_owned()]));
        trees.chain(kernels).collect()
    }

    fn modes(&self) -> Vec<String> {
        let others = self.args.modes.iter().filter(|mode| *mode != "none").cloned();
        std::iter::once("none".to_owned()).chain(others).collect()
    }

    /// Measures all modes in turn, so that other work on the machine affects all.
    fn rows(&self) -> Result<Vec<Row>, Error> {
        let runs = self.quick_or(1, self.args.runs.max(1));
        let loads = self.quick_or(vec![0, 1], self.args.loads.clone());
        let mut rows = Vec::new();
        for load in loads {
            for job in self.jobs() {
                let mut samples: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); self.modes().len()];
                for run in 0..runs {
                    for (mode, (seconds, compiles)) in self.modes().iter().zip(&mut samples) {
                        eprintln!("{}, {mode}, {load} compilers, run {} of {runs}", job.name(), run + 1);
                        let beside = load::Load::start(&self.source, load);
                        let done = self.run(mode, &job);
                        compiles.extend(beside.end());
                        seconds.push(done?);
                    }
                }
                let row = |(mode, (seconds, compiles)): (String, (Vec<f64>, Vec<f64>))| Row {
                    program: job.name(),
                    mode,
                    local_load: load,
                    seconds: median_and_least(&seconds).0,
                    compile_s: (!compiles.is_empty()).then(|| median_and_least(&compiles).0),
                    compiles: compiles.len(),
                };
                rows.extend(self.modes().into_iter().zip(samples).map(row));
            }
        }
        Ok(rows)
    }

    /// Runs a job once. Gives seconds.
    fn run(&self, mode: &str, job: &Job) -> Result<f64, Error> {
        let done = self.programs.job(mode, job, 0)?.output().map_err(Error::system("running tern"))?;
        programs::seconds(&job.name(), &done)
    }
}
