//! The arguments of `tern trace`.

use clap::Args;

use super::{Output, seconds};

/// Help on `tern trace`.
pub const TRACE_HELP: &str = "\
SERVED says where a call was made: by the kernel of the hosting node, by tern on that node (room), or
at home, after a round trip. Calls that tern does not look at cost nothing, and are not counted:
computing, memory, and reading and writing files that the hosting node's kernel has.";

/// The arguments of `tern trace`.
#[derive(Clone, Debug, Args)]
pub struct Trace {
    /// PID at home
    pub pid: i32,
    /// Count the calls and their time, as strace -c does: the only kind of report so far
    #[arg(short, long, default_value_t = true)]
    pub count: bool,
    /// Count also the calls of its children and theirs, those that end meanwhile included
    #[arg(short, long)]
    pub family: bool,
    /// Stop after this time, such as 10s or 5m, instead of at Ctrl-C or when the process ends
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    pub for_s: Option<u32>,
    /// How to show the counts
    #[command(flatten)]
    pub output: Output,
}
