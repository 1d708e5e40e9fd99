//! How a move went, as those who made it saw it.

use serde::{Deserialize, Serialize};

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
