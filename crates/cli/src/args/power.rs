//! The arguments of `tern halt` and `tern reboot`.

use clap::Args;
use control_protocol::nodes::Nodes;

/// The text after the help of both.
pub const POWER_HELP: &str = "\
The nodes' guests leave first, as with `tern drain`. If one cannot leave, its node stays up. A node's owner allows that
by `tern policy set admin-by=NODE`.";

/// The arguments of both.
#[derive(Clone, Debug, Args)]
pub struct Power {
    /// Nodes, as `tern sh --help` says
    pub nodes: Nodes,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Do not wait for guests: those that are there end with the machine
    #[arg(long)]
    pub now: bool,
}
