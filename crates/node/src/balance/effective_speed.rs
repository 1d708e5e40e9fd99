//! What this home's processes get on other nodes, against what those tell of themselves.

use std::collections::HashMap;
use std::sync::Mutex;

use ::policy::{EffectiveSpeed, NodeView};

use super::tracked::Tracked;
use crate::locks::lock;

/// The effective speed of each node, by its id.
#[derive(Default)]
pub(crate) struct ByNode(Mutex<HashMap<u64, EffectiveSpeed>>);

impl ByNode {
    /// The node's speed for guests of this home, if this is what it tells, thousandths.
    pub(crate) fn corrected(&self, node: u64, speed_milli: u32) -> u32 {
        lock(&self.0).get(&node).map_or(speed_milli, |speed| speed.corrected(speed_milli))
    }

    /// Takes over what they got in the last `elapsed_ms` of the policy's, `view` being the node as
    /// it was meanwhile.
    pub(super) fn note<'a>(&self, view: &NodeView, elapsed_ms: f64, here: impl Iterator<Item = &'a Tracked>) {
        let (wanted_ms, got_ms) =
            here.fold((0.0, 0.0), |(wanted, got), tracked| (wanted + tracked.wanted_ms, got + tracked.got_ms));
        let (load, cores) = (f64::from(view.load_milli) / 1e3, f64::from(view.cores_milli) / 1e3);
        let mut all = lock(&self.0);
        let speed = all.entry(view.id).or_default();
        speed.note(elapsed_ms, wanted_ms, got_ms, load, cores);
    }

    /// Of these nodes alone something is known.
    pub(super) fn retain(&self, is_known: impl Fn(u64) -> bool) {
        lock(&self.0).retain(|node, _| is_known(*node));
    }
}
