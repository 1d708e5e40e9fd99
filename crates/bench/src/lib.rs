//! Measured comparisons: placed beside native, in the same run.
//!
//! `tern bench move` moves a small C program of its own. `tern bench place` and `tern bench citizen` start small guests of its own (the role `__bench-guest`) natively and placed, in turn, and print their figures side by side.

mod balance;
mod bounded;
mod burn;
mod checkpoint;
mod citizen;
mod crowd;
mod figures;
mod heap;
mod memory;
mod moving;
mod pair;
mod pairs;
mod place;
mod real;
mod remote;
mod report;
mod rest;
mod run;
mod stats;
mod stream;
mod victim;
mod wire;

pub mod guest;
pub mod soak;

use clap::{Args as ClapArgs, Subcommand};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// `tern bench ...`
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Placing a program, and what it then does, beside the same natively
    Place(PlaceArgs),
    /// Families, pipes and builds of placed programs, beside the same natively
    Citizen(On),
    /// For how long a process stands still when it is moved: by size, threads, descriptors
    Move(MoveArgs),
    /// The ways in which memory goes: by size, write rate and way (link rates: in labs with --rate)
    Memory(memory::Args),
    /// Moves of real programs while they work: how many keep to the bound of their freeze, and why others do not
    FreezeBound(bounded::Args),
    /// Moves of real programs beside what was forecast, and what part of their memory they wait for
    Programs(real::Args),
    /// Many moves at once: every node of a lab to another one, beside TCP streams and checkpoints (run it outside the lab's nodes)
    Pairs(pairs::Args),
    /// Plots of what `memory` and `pairs` have measured
    Report(report::Args),
    /// One node's part of that
    #[command(hide = true)]
    Pair(pair::Args),
    /// Take what `--sink` of another node streams here
    Sink {
        /// Address and port to listen at
        #[arg(default_value = "0.0.0.0:7700")]
        at: SocketAddr,
        /// End after the first stream, or when standard input ends before
        #[arg(long)]
        once: bool,
    },
    /// What this node's daemon costs when nothing happens: processor, wake-ups, memory, traffic
    Rest(rest::Args),
    /// Equal jobs on equal nodes: the policy on real processes, beside its bounds and placing in turn (Barak and La'adan, Table 1)
    Table1(balance::Args),
    /// Jobs of random length on equal nodes, likewise (their Figure 2)
    Fig2(balance::Args),
    /// Equal jobs beside processes that run and pause, likewise (their Figure 3)
    Fig3(balance::Args),
    /// Equal jobs on nodes of which half are three times slower, likewise
    Speeds(balance::Args),
    /// Jobs of random length on nodes of which half are three times slower, likewise
    SpeedsRandom(balance::Args),
    /// Jobs whose memory together is more than one node has: whether any is killed for want of memory
    Usher(balance::Args),
}

/// `tern bench move`
#[derive(Debug, ClapArgs)]
pub struct MoveArgs {
    #[command(flatten)]
    on: On,
    /// A third node: measures moves from node to node too
    #[arg(long)]
    then: Option<String>,
    /// Round trips of the minimal process
    #[arg(long, default_value_t = 200)]
    moves: u32,
    /// Largest process, MiB
    #[arg(long, default_value_t = 1024)]
    largest_mib: u64,
    /// `tern bench sink` on the other node, ADDRESS:PORT: measures a TCP stream over the same link
    #[arg(long)]
    sink: Option<SocketAddr>,
}

/// Where and how long to measure.
#[derive(Debug, ClapArgs)]
pub struct On {
    /// The node that hosts
    #[arg(long)]
    on: String,
    /// Directory for the files that are read, written and compiled
    #[arg(long, default_value = "/var/tmp")]
    dir: PathBuf,
    /// Fewer repetitions: seconds instead of minutes
    #[arg(long)]
    quick: bool,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// `tern bench place`
#[derive(Debug, ClapArgs)]
pub struct PlaceArgs {
    #[command(flatten)]
    on: On,
    /// Size of the file that is streamed, MiB; 64 in a quick run
    #[arg(long, default_value_t = 1024)]
    stream_mib: u64,
}

/// Why a benchmark could not be made.
#[derive(Debug, Error)]
pub enum Error {
    /// Something of the system.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// What is needed for it is not there.
    #[error("{why}")]
    Refused {
        /// What is missing.
        why: String,
    },
    /// A measured program failed.
    #[error("{command} failed ({status}): {output}")]
    Failed {
        /// What was run.
        command: String,
        /// How it ended.
        status: String,
        /// What it said.
        output: String,
    },
}

impl Error {
    fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let doing = doing.into();
        move |source| Error::System { doing, source }
    }
}

/// Runs a benchmark and prints it; the exit status. `state`: where this node's identity is.
pub fn main(args: &Args, run_dir: &std::path::Path, state: &std::path::Path) -> u8 {
    let printed = match &args.what {
        What::Place(args) => place::measure(args, run_dir).map(|f| figures::shown(&f, args.on.json)),
        What::Citizen(on) => citizen::measure(on, run_dir).map(|f| figures::shown(&f, on.json)),
        What::Move(args) => moving::measure(args, state).map(|report| match args.on.json {
            true => figures::json(&report),
            false => report.table(),
        }),
        What::Memory(args) => memory::measure(args),
        What::Table1(args) => balance::measure(args, include_str!("../../../scenarios/table1.toml"), false),
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
