//! The arguments of `tern kill`.

use clap::Args;
use control_protocol::nodes::Nodes;

use super::Output;
use crate::kill::SignalName;

/// The text after the help of `tern kill`.
pub const KILL_HELP: &str = "\
Processes of this home that are away have their PID here, so kill(1), killall(1) and Ctrl-C reach them as well. This
command chooses them by where they run, with one request to ternd for any number of them.
NODES: names with commas between them, in which n[2-4] stands for n2,n3,n4; all; idle; +3; home; @GROUP.
Exit status: 0 if all that were chosen got the signal, 1 if one did not, or none was chosen.";

/// The arguments of `tern kill`.
#[derive(Clone, Debug, Args)]
#[group(id = "chosen", required = true, multiple = true, args = ["pids", "on", "user"])]
pub struct Kill {
    /// Signal, by name or number
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM")]
    pub signal: SignalName,
    /// Only processes on these nodes
    #[arg(long, value_name = "NODES")]
    pub on: Option<Nodes>,
    /// Only processes of this user, by number or name (root has those of all users otherwise)
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// How to show what was signalled
    #[command(flatten)]
    pub output: Output,
    /// Only these processes: PIDs at home
    #[arg(value_name = "PID")]
    pub pids: Vec<i32>,
}
