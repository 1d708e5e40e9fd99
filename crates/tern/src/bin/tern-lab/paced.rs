//! `tern-lab daemon`: the daemon by other clocks than the machine's, for experiments with short
//! jobs, and for tests of clocks that differ.

use cli::Dirs;
use tern::daemon::{self, Clocks};

/// The arguments of `tern-lab daemon`
#[derive(Debug, clap::Args)]
pub struct Paced {
    #[command(flatten)]
    daemon: daemon::Args,
    /// How far the wall clock is ahead of the machine's, milliseconds
    #[arg(long, default_value_t = 0, allow_hyphen_values = true, value_name = "MS")]
    pretend_clock_offset: i64,
    /// Run the policy, and the gossip of loads, so many times as fast
    #[arg(long, env = "TERN_PACE", default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pace: u32,
}

/// Runs the daemon; the exit status.
pub fn main(args: &Paced, dirs: &Dirs) -> u8 {
    let clocks = Clocks { pace: args.pace, offset_us: args.pretend_clock_offset.saturating_mul(1000) };
    daemon::main(&args.daemon, dirs, clocks)
}
