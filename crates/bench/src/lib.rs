//! Measured comparisons: placed beside native, in the same run.
//!
//! `tern bench place` starts small guests of its own (the role `__bench-guest`) natively and placed, in turn, and prints their figures side by side.

mod place;
mod run;
mod stats;
mod wire;

pub mod guest;

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
}

/// `tern bench place`
#[derive(Debug, ClapArgs)]
pub struct PlaceArgs {
    /// The node that hosts
    #[arg(long)]
    on: String,
    /// Directory for the files that are read, written and compiled
    #[arg(long, default_value = "/var/tmp")]
    dir: PathBuf,
    /// Size of the file that is streamed, MiB
    #[arg(long, default_value_t = 1024)]
    stream_mib: u64,
    /// Fewer repetitions and a stream of 64 MiB: seconds instead of a minute
    #[arg(long)]
    quick: bool,
    /// For machines
    #[arg(long)]
    json: bool,
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
    let What::Place(args) = &args.what;
    match place::measure(args, run_dir) {
        Ok(figures) => {
            print!("{}", if args.json { place::json(&figures) } else { place::table(&figures) });
            0
        }
        Err(e) => {
            eprintln!("tern bench: {e}");
            1
        }
    }
}
