//! netmon's way to the cluster: by this node's ternd.

use cli::Dirs;
use control_protocol::queues::RoomQueues;
use control_protocol::sampling::{Sampled, Sampling};

/// The cluster that this node is in.
pub struct OfNode {
    /// Directories of the node.
    pub dirs: Dirs,
}

impl netmon::cluster::Cluster for OfNode {
    fn queues(&self) -> Result<Vec<RoomQueues>, String> {
        cli::queues(&self.dirs).map_err(|e| e.to_string())
    }

    fn other_nodes(&self) -> Result<Vec<String>, String> {
        cli::other_nodes(&self.dirs).map_err(|e| e.to_string())
    }

    fn sample(&self, node: &str, sampling: Sampling) -> Result<Sampled, String> {
        cli::sample(&self.dirs, node, sampling).map_err(|e| e.to_string())
    }
}
