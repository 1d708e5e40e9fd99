//! Netmon's questions to the cluster. The binary knows the way.

use control_protocol::queues::RoomQueues;
use control_protocol::sampling::{Sampled, Sampling};

/// The cluster that this machine is in, if it is in one. Failures are in words.
pub trait Cluster: Send + Sync {
    /// Gives the queues of this home's rooms.
    ///
    /// # Errors
    /// ternd does not answer.
    fn queues(&self) -> Result<Vec<RoomQueues>, String>;

    /// Lists the other nodes that are alive.
    ///
    /// # Errors
    /// ternd does not answer.
    fn other_nodes(&self) -> Result<Vec<String>, String>;

    /// Has another node sample its queues.
    ///
    /// # Errors
    /// The node does not allow that, or does not answer.
    fn sample(&self, node: &str, sampling: Sampling) -> Result<Sampled, String>;
}
