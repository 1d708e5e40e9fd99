//! The arguments of `tern nodes`.

use clap::Args;
use control_protocol::nodes::Nodes;

use super::Output;

/// The text after the help of `tern nodes`.
pub const NODES_HELP: &str = "\
Root of this home says which users may use a node: state=up|unavailable, owner=USER, group=GROUP, mode=OCTAL. Of the
mode the execute bits count. The first bit that applies to a user decides, as for files; root may always. @GROUP then
names the nodes of a group. The owner of a node says there which homes may use it (`tern policy`).
  tern nodes --set group=hpc,mode=0110 'n[2-9]'        tern nodes --set state=unavailable n3";

/// The arguments of `tern nodes`.
#[derive(Clone, Debug, Args)]
#[command(after_help = NODES_HELP)]
pub struct NodeList {
    /// Say who of this home may use NODES: state=, owner=, group=, mode= (root)
    #[arg(long, value_name = "CHANGES", value_delimiter = ',', requires = "nodes")]
    pub set: Vec<String>,
    /// Nodes to which `--set` applies
    #[arg(requires = "set")]
    pub nodes: Option<Nodes>,
    /// How to show the result
    #[command(flatten)]
    pub output: Output,
}
