//! Views of nodes and processes: all that a decision knows of them. All numbers are integers,
//! because views travel, are logged, and must read back unchanged.

use serde::{Deserialize, Serialize};

/// A node, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Id of the node.
    pub id: u64,
    /// Runnable processes including guests, thousandths.
    pub load_milli: u32,
    /// Cores that the node may use, without quota and stolen time, thousandths.
    pub cores_milli: u32,
    /// Speed of one core against the reference, thousandths.
    pub speed_milli: u32,
    /// Mean lag of the processes that may move (see [`Lag`](crate::Lag)), milliseconds.
    pub lag_ms: i32,
    /// Memory that programs could still get, MiB.
    pub free_mib: u32,
    /// Total memory, MiB.
    pub memory_mib: u32,
    /// Share of time in which some process waited for memory, thousandths.
    pub pressure_milli: u32,
    /// Whether the node takes guests.
    pub guests: bool,
    /// Age of this reading, milliseconds.
    pub age_ms: u32,
}

impl NodeView {
    /// Bounds of believable values.
    const CORES_MAX_MILLI: u32 = 8_192_000;
    const LOAD_MAX_MILLI: u32 = 1_000_000_000;
    const SPEED_MILLI: (u32, u32) = (20, 50_000);
    const MEMORY_MAX_MIB: u32 = 1 << 30;
    const LAG_MAX_MS: i32 = 3_600_000;

    /// Gives the view with all values bounded to what a machine can have. Values from other nodes
    /// are bounded before use.
    pub fn bounded(self) -> NodeView {
        let memory_mib = self.memory_mib.min(Self::MEMORY_MAX_MIB);
        NodeView {
            load_milli: self.load_milli.min(Self::LOAD_MAX_MILLI),
            cores_milli: self.cores_milli.clamp(10, Self::CORES_MAX_MILLI),
            speed_milli: self.speed_milli.clamp(Self::SPEED_MILLI.0, Self::SPEED_MILLI.1),
            lag_ms: self.lag_ms.clamp(-Self::LAG_MAX_MS, Self::LAG_MAX_MS),
            memory_mib,
            free_mib: self.free_mib.min(memory_mib),
            pressure_milli: self.pressure_milli.min(1000),
            ..self
        }
    }
}

/// Communication of a process with something on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tie {
    /// Node of the communication partner: the process' home, or the node of another process.
    pub node: u64,
    /// Calls or messages per second that cross the network if the process is not on that node.
    pub calls_per_s: u32,
}

/// What the user says about a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hint {
    /// The user says nothing.
    #[default]
    None,
    /// The process computes.
    Cpu,
    /// The process uses files, terminals and sockets much: it belongs home.
    Io,
}

/// A process on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessView {
    /// PID at home, or any other number that names the process.
    pub id: u64,
    /// Node id of the process' home.
    pub home: u64,
    /// Age of the process, milliseconds.
    pub age_ms: u64,
    /// Time since the process came to this node, milliseconds.
    pub resident_ms: u64,
    /// Share of time for which the process wants a core, all threads together, thousandths of one
    /// core.
    pub demand_milli: u32,
    /// Lag of the process (see [`Lag`](crate::Lag)), milliseconds.
    pub lag_ms: i32,
    /// Memory that the process occupies, MiB.
    pub memory_mib: u32,
    /// Memory that a move would transfer, MiB.
    pub carried_mib: u32,
    /// Number of moves that the process has made.
    pub moves: u32,
    /// Node from which the process came here.
    #[serde(default)]
    pub came_from: Option<u64>,
    /// Communication partners on other nodes.
    #[serde(default)]
    pub ties: Vec<Tie>,
    /// The user has pinned the process to its present node.
    pub pinned: bool,
    /// The user wants the process home whenever home can run it.
    pub prefer_home: bool,
    /// The user's hint.
    pub hint: Hint,
    /// The scope settings allow the policy to move the process.
    pub in_scope: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_nodes_are_bounded() {
        let forged = NodeView {
            load_milli: u32::MAX,
            cores_milli: 0,
            speed_milli: u32::MAX,
            lag_ms: i32::MIN,
            free_mib: u32::MAX,
            memory_mib: 100,
            pressure_milli: u32::MAX,
            ..NodeView::default()
        };
        let node = forged.bounded();
        assert_eq!((node.cores_milli, node.speed_milli, node.free_mib, node.pressure_milli), (10, 50_000, 100, 1000));
        assert_eq!(node.bounded(), node);
    }
}
