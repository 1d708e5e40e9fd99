//! Measured comparisons: placed beside native, in the same run.
//!
//! `tern bench place` and `tern bench citizen` start small guests of its own (the role `__bench-guest`) natively and placed, in turn, and print their figures side by side.

mod citizen;
mod figures;
mod place;
mod run;
mod stats;
mod wire;

pub mod guest;
pub mod soak;

use clap::{Args as ClapArgs, Subcommand};
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

/// Runs a benchmark and prints it; the exit status.
pub fn main(args: &Args, run_dir: &std::path::Path) -> u8 {
    let (on, measured) = match &args.what {
        What::Place(args) => (&args.on, place::measure(args, run_dir)),
        What::Citizen(on) => (on, citizen::measure(on, run_dir)),
    };
    match measured {
        Ok(figures) => {
            print!("{}", if on.json { figures::json(&figures) } else { figures::table(&figures) });
            0
        }
        Err(e) => {
            eprintln!("tern bench: {e}");
            1
        }
    }
}
