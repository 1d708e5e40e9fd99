//! The arguments of `tern sh`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use control_protocol::nodes::Nodes;

/// The text after the help of `tern sh`.
pub const SH_HELP: &str = "\
NODES: names with commas between them, in which n[2-4] stands for n2,n3,n4; all (every node but this one); idle; +3
(the three with the least load); home; @GROUP. The command runs as with `tern run --local`: each node's owner allows
that by `tern policy set local-by=NODE`. On one node, without -p, -o and -s, the command has this one's terminal, and
its end is the command's own. On several, Ctrl-C reaches all.
Exit status: the largest of all nodes; 128 plus the signal for one that a signal ended.";

/// The arguments of `tern sh`.
#[derive(Clone, Debug, Args)]
pub struct Sh {
    /// Nodes on which the command runs
    pub nodes: Nodes,
    /// Begin each line with the node's name
    #[arg(short, long)]
    pub prefix: bool,
    /// Write what NODE prints into DIR/NODE, and its errors into DIR/NODE.err
    #[arg(short, long, value_name = "DIR", conflicts_with = "prefix")]
    pub output_dir: Option<PathBuf>,
    /// Give this command's standard input to all of them (without it, theirs is empty)
    #[arg(short, long)]
    pub stdin: bool,
    /// Say nothing about commands that fail
    #[arg(short, long)]
    pub quiet: bool,
    /// Allow processes of root (see `tern run --help`)
    #[arg(long)]
    pub as_root: bool,
    /// Command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
