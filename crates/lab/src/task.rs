//! What the hub tells a node's init.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cgroup::Hierarchy;
use crate::options::Options;
use crate::programs::Programs;

/// What the hub tells an init, once its link exists.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    /// Number of the node, from 1.
    pub index: u32,
    /// The lab.
    pub options: Options,
    /// The programs on this machine.
    pub programs: Programs,
    /// An empty directory on this machine.
    pub staging: PathBuf,
    /// Hierarchies to show in the node.
    pub hierarchies: Vec<Hierarchy>,
    /// The node's groups.
    pub cgroups: Vec<PathBuf>,
}
