//! Measured comparisons: placed beside native, in the same run.
//!
//! `tern bench move` moves a small C program of its own. `tern bench place` and `tern bench
//! citizen` start small guests of their own (the role `__bench-guest`) natively and placed, in
//! turn, and print the figures side by side.

mod balance;
mod bounded;
mod burn;
mod checkpoint;
mod citizen;
mod cosched;
mod crowd;
mod figures;
mod files;
mod heap;
mod jobs_over_nodes;
mod memory;
mod moving;
mod pair;
mod pairs;
mod place;
mod reach;
mod real;
mod remote;
mod report;
mod rest;
mod ring;
mod run;
mod spawn;
mod start;
mod stats;
mod stream;
mod streams;
mod victim;
mod wire;

pub mod guest;
pub mod soak;

use clap::{Args as ClapArgs, Subcommand};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// The arguments of `tern bench`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Measure placing a program, and its operations, beside the same natively
    Place(PlaceArgs),
    /// Measure what a placed program and its children cost to start, beside the same natively
    Start(On),
    /// Measure programs that read, write, make and remove files, beside the same natively
    Files(On),
    /// Measure families, pipes and builds of placed programs, beside the same natively
    Citizen(On),
    /// Measure the freeze time of moves by size, threads and descriptors
    Move(MoveArgs),
    /// Measure the memory strategies by size and write rate (set link rates by labs with --rate)
    Memory(memory::Args),
    /// Move real programs while they work, and count the moves that keep the bound on the freeze
    /// time
    FreezeBound(bounded::Args),
    /// Compare moves of real programs with the forecast, and measure the share of memory for which
    /// they wait
    Programs(real::Args),
    /// Measure many moves at once: every node of a lab to another one, beside TCP streams and
    /// checkpoints (run it outside the lab's nodes)
    Pairs(pairs::Args),
    /// Measure a stream between two processes by where they run: at home, one or both moved, beside
    /// TCP between nodes
    Streams(streams::Args),
    /// Run a ring of PVM tasks or MPI ranks by where they run (Barak and others, Table 2): at home,
    /// over nodes, the same with tern refining, and begun at home and moved to the nodes. Nodes
    /// need the library (a lab: `tern lab up --whole`, then `tern bench reach`)
    Ring(ring::Args),
    /// Start processes on many nodes at once (BProc's paper, Figs 5 and 6, and its 15,000
    /// processes), beside the same on this node alone, and count the bytes that leave it
    Spawn(spawn::Args),
    /// Have the nodes of a lab reach each other by ssh, for jobs over nodes (run it outside the
    /// lab's nodes)
    Reach(reach::Args),
    /// Run parallel jobs in each mode of coscheduling, beside compilers and an interactive program
    /// (F. Solsona and others, Figs 4 and 5, Table 3), on this machine alone
    Cosched(cosched::Args),
    /// Plot the results of `memory`, `pairs`, `streams`, `ring` and `cosched`
    Report(report::Args),
    /// Run one node's part of `pairs`
    #[command(hide = true)]
    Pair(pair::Args),
    /// Receive what `--sink` of another node streams
    Sink {
        /// Address and port to listen at
        #[arg(default_value = "0.0.0.0:7700")]
        at: SocketAddr,
        /// End after the first stream, or at the end of standard input before it
        #[arg(long)]
        once: bool,
    },
    /// Measure the idle daemon of this node: CPU time, wake-ups, memory, traffic
    Rest(rest::Args),
    /// Run equal jobs on equal nodes: the policy on real processes, beside its bounds and placing
    /// in turn (Barak and La'adan, Table 1)
    Table1(balance::TableArgs),
    /// Run jobs of random length on equal nodes, with the same comparison (their Figure 2)
    Fig2(balance::Args),
    /// Run equal jobs beside processes that run and pause, with the same comparison (their Figure
    /// 3)
    Fig3(balance::Args),
    /// Run equal jobs on nodes half of which are three times slower, with the same comparison
    Speeds(balance::Args),
    /// Run jobs of random length on nodes half of which are three times slower, with the same
    /// comparison
    SpeedsRandom(balance::Args),
    /// Run jobs that together need more memory than one node has, and count those killed for want
    /// of memory
    Usher(balance::Args),
}

/// The arguments of `tern bench move`.
#[derive(Debug, ClapArgs)]
pub struct MoveArgs {
    #[command(flatten)]
    on: On,
    /// A third node, to measure moves from node to node, too
    #[arg(long)]
    then: Option<String>,
    /// Round trips of the minimal process
    #[arg(long, default_value_t = 200)]
    moves: u32,
    /// Largest process, MiB
    #[arg(long, default_value_t = 1024)]
    largest_mib: u64,
    /// `tern bench sink` on the other node, ADDRESS:PORT, to measure a TCP stream over the same
    /// link
    #[arg(long)]
    sink: Option<SocketAddr>,
}

/// The node and the duration of a measurement.
#[derive(Debug, ClapArgs)]
pub struct On {
    /// Node that hosts the processes
    #[arg(long)]
    on: String,
    /// Directory for the files that are read, written and compiled
    #[arg(long, default_value = "/var/tmp")]
    dir: PathBuf,
    /// Repeat less: seconds instead of minutes
    #[arg(long)]
    quick: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The arguments of `tern bench place`.
#[derive(Debug, ClapArgs)]
pub struct PlaceArgs {
    #[command(flatten)]
    on: On,
    /// Size of the file that is streamed, MiB; 64 in a quick run
    #[arg(long, default_value_t = 1024)]
    stream_mib: u64,
}

/// Why a benchmark failed.
#[derive(Debug, Error)]
pub enum Error {
    /// An operation of the system failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation that failed.
        doing: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A requirement of the benchmark is not met.
    #[error("{why}")]
    Refused {
        /// The missing requirement.
        why: String,
    },
    /// A measured program failed.
    #[error("{command} failed ({status}): {output}")]
    Failed {
        /// The command line.
        command: String,
        /// Exit status of the command.
        status: String,
        /// Output of the command.
        output: String,
    },
}

impl Error {
    fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let doing = doing.into();
        move |source| Error::System { doing, source }
    }
}

/// Runs a benchmark and prints its result. Gives the exit status. `state` is the directory of this
/// node's identity.
pub fn main(args: &Args, run_dir: &std::path::Path, state: &std::path::Path) -> u8 {
    let printed = match &args.what {
        What::Place(args) => place::measure(args, run_dir).map(|f| figures::shown(&f, args.on.json)),
        What::Start(on) => start::measure(on, run_dir).map(|f| figures::shown(&f, on.json)),
        What::Files(on) => files::measure(on, run_dir).map(|f| figures::shown(&f, on.json)),
        What::Citizen(on) => citizen::measure(on, run_dir).map(|f| figures::shown(&f, on.json)),
        What::Move(args) => moving::measure(args, state).map(|report| match args.on.json {
            true => figures::json(&report),
            false => report.table(),
        }),
        What::Memory(args) => memory::measure(args),
        What::Table1(args) if args.pvm => balance::measure_pvm(args, include_str!("../../../scenarios/table1.toml")),
        What::Table1(args) => balance::measure(&args.all, include_str!("../../../scenarios/table1.toml"), false),
        What::Fig2(args) => balance::measure(args, include_str!("../../../scenarios/fig2.toml"), false),
        What::Fig3(args) => balance::measure(args, include_str!("../../../scenarios/fig3.toml"), false),
        What::Speeds(args) => balance::measure(args, include_str!("../../../scenarios/speeds.toml"), false),
        What::SpeedsRandom(args) => {
            balance::measure(args, include_str!("../../../scenarios/speeds-random.toml"), false)
        }
        What::Usher(args) => balance::measure(args, include_str!("../../../scenarios/usher.toml"), true),
        What::FreezeBound(args) => bounded::measure(args),
        What::Programs(args) => real::measure(args),
        What::Rest(args) => rest::measure(args),
        What::Pairs(args) => pairs::measure(args),
        What::Streams(args) => streams::measure(args),
        What::Spawn(args) => spawn::measure(args),
        What::Ring(args) => ring::measure(args),
        What::Cosched(args) => cosched::measure(args, run_dir),
        What::Reach(args) => reach::set_up(args),
        What::Report(args) => report::write(args),
        What::Pair(args) => pair::serve(args),
        What::Sink { at, once } => stream::sink(*at, *once, state).map(|()| String::new()),
    };
    match printed {
        Ok(text) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            0
        }
        Err(e) => {
            eprintln!("tern bench: {e}");
            1
        }
    }
}
