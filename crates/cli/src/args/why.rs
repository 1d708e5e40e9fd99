//! The arguments of `tern why`.

use clap::Args;

use super::Output;

/// The arguments of `tern why`.
#[derive(Clone, Debug, Args)]
pub struct Why {
    /// PID at home
    pub pid: i32,
    /// Also tell whether the process could move to this node
    pub node: Option<String>,
    /// How to show the report
    #[command(flatten)]
    pub output: Output,
}
