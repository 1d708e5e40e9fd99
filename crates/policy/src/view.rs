//! What a decision knows of nodes and processes. Whole numbers: they travel, are logged, and read back as they were.

use serde::{Deserialize, Serialize};

/// A node, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Node id.
    pub id: u64,
    /// Runnable processes, guests included, thousandths.
    pub load_milli: u32,
    /// Cores that it may use (quota and stolen time taken off), thousandths.
    pub cores_milli: u32,
    /// How fast one core is against the reference, thousandths.
    pub speed_milli: u32,
    /// Mean lag of the processes that may move (see [`Lag`](crate::Lag)), milliseconds.
    pub lag_ms: i32,
    /// Memory that programs could still get, MiB.
    pub free_mib: u32,
    /// Memory in all, MiB.
    pub memory_mib: u32,
    /// Share of time in which something waited for memory, thousandths.
    pub pressure_milli: u32,
    /// It takes guests.
    pub guests: bool,
    /// Age of this reading, milliseconds.
    pub age_ms: u32,
}

impl NodeView {
    /// Most cores, load and speed that are believed, and the least speed.
    const CORES_MAX_MILLI: u32 = 8_192_000;
    const LOAD_MAX_MILLI: u32 = 1_000_000_000;
    const SPEED_MILLI: (u32, u32) = (20, 50_000);
    const MEMORY_MAX_MIB: u32 = 1 << 30;
    const LAG_MAX_MS: i32 = 3_600_000;

    /// The same within what a machine can be: what another node tells is bounded before it is used.
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

/// Something that a process talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tie {
    /// Where it is: the process' home, or the node of one that it talks to.
    pub node: u64,
    /// Calls or messages that would cross the network if the process were elsewhere, a second.
    pub calls_per_s: u32,
}

/// What its user says about a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hint {
    /// Nothing.
    #[default]
    None,
    /// It computes.
    Cpu,
    /// It is busy with files, terminals and sockets: it belongs home.
    Io,
}

/// A process that runs here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessView {
    /// PID at home, or any number that names it.
    pub id: u64,
    /// Node id of its home.
    pub home: u64,
    /// Since it began, milliseconds.
    pub age_ms: u64,
    /// Since it came to this node, milliseconds.
    pub resident_ms: u64,
    /// How much of the time it wants a core, all threads together, thousandths of one core.
    pub demand_milli: u32,
    /// What it has missed (see [`Lag`](crate::Lag)), milliseconds.
    pub lag_ms: i32,
    /// Memory that it occupies, MiB.
    pub memory_mib: u32,
    /// Memory that would travel, MiB.
    pub carried_mib: u32,
    /// How often it has been moved.
    pub moves: u32,
    /// Node that it left to come here.
    #[serde(default)]
    pub came_from: Option<u64>,
    /// What it talks to.
    #[serde(default)]
    pub ties: Vec<Tie>,
    /// Its user wants it to stay where it is.
    pub pinned: bool,
    /// Its user wants it home whenever home can run it.
    pub prefer_home: bool,
    /// Its user's hint.
    pub hint: Hint,
    /// The rules about whom allow it to be moved.
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
