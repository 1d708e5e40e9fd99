//! The message of the hub to a node's init.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cgroup::Hierarchy;
use crate::options::Options;
use crate::programs::Programs;

/// The message of the hub to an init, once its link exists.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    /// Number of the node, from 1.
    pub index: u32,
    /// Options of the lab.
    pub options: Options,
    /// The programs on this machine.
    pub programs: Programs,
    /// An empty directory on this machine.
    pub staging: PathBuf,
    /// The hierarchies to show in the node.
    pub hierarchies: Vec<Hierarchy>,
    /// The groups of the node.
    pub cgroups: Vec<PathBuf>,
}
