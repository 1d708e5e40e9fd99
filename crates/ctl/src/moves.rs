//! How a move went, as those who made it saw it.

use serde::{Deserialize, Serialize};

/// How the memory of a process shall go to a node. Home it goes by stop-and-copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// What keeps to the bound.
    Auto,
    /// While it stands still.
    Stop,
    /// While it runs; what it writes meanwhile goes again.
    Pre,
}

/// What a user wants of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// How.
    pub how: How,
    /// For how long it may stand still, microseconds: what `auto` and `pre` aim at.
    pub max_freeze_us: u64,
}

impl Default for Wish {
    fn default() -> Wish {
        Wish { how: How::Auto, max_freeze_us: 100_000 }
    }
}

/// A part of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// What was done.
    pub name: String,
    /// How long it took, microseconds.
    pub us: u64,
}

/// One way of a move, by home's clock: from home to a node, or back. A move from node to node has two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// Where the process went.
    pub to: String,
    /// How its memory went.
    pub how: String,
    /// From the first look at the process until nothing was left to do, microseconds.
    pub total_us: u64,
    /// From before its threads were stopped until they ran there, microseconds. What one message takes between the nodes is counted too much: the other end says when.
    pub freeze_us: u64,
    /// Bytes of pages that were sent.
    pub page_bytes: u64,
    /// Of these, while it stood still.
    pub frozen_bytes: u64,
    /// Step by step; those that start with `frozen ` while it stood still.
    pub phases: Vec<Phase>,
}
