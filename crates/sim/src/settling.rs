//! Detects whether the cluster has settled: with full knowledge, no node would move a process for
//! balance.

use policy::{Inputs, Mode, NodeView, Params, Verdict, decide};

use crate::process::ProcessPlace;
use crate::scenario::Strategy;
use crate::world::{SAMPLE_US, World};

/// The time after a change before which the cluster is not checked, microseconds.
const UNDER_WAY_US: u64 = 10_000_000;
/// The largest cluster that is checked. The cost grows with the square of the number of nodes.
const NODES_MAX: usize = 100;
/// Factor on the margins for moves that are clearly worth it, thousandths.
const CLEARLY_MILLI: u32 = 1250;

impl World {
    /// Measures for how long one node should have sent a process away, without a break. Where
    /// processes rotate, different nodes have one too many in turn. A lying node and a cut network
    /// count as a change that goes on.
    pub(crate) fn watch_settling(&mut self) {
        if !self.cuts.is_empty() || self.nodes.iter().any(|n| n.lie.is_some()) {
            self.disturbed_us = self.now_us;
        }
        let is_watched = !matches!(self.strategy, Strategy::Static | Strategy::Opportunity);
        if !is_watched || self.nodes.len() > NODES_MAX || self.now_us < self.disturbed_us + UNDER_WAY_US {
            self.nodes.iter_mut().for_each(|n| n.uneven_from_us = self.disturbed_us);
        } else if self.processes.iter().any(|p| matches!(p.place, ProcessPlace::Moving { .. })) {
            // A move is under way, so this second does not count.
            let now_us = self.now_us;
            self.nodes.iter_mut().for_each(|n| n.uneven_from_us = now_us.min(n.uneven_from_us + SAMPLE_US));
        } else {
            let alive = |id: &usize| self.nodes[*id].alive;
            let views: Vec<NodeView> = (0..self.nodes.len()).filter(alive).map(|id| self.true_view(id)).collect();
            for own in &views {
                let should = self.should_send(own, &views);
                let node = &mut self.nodes[own.id as usize];
                if !should {
                    node.uneven_from_us = self.now_us;
                }
                self.counts.unsettled_s = self.counts.unsettled_s.max((self.now_us - node.uneven_from_us) / 1_000_000);
            }
        }
    }

    fn should_send(&self, own: &NodeView, all: &[NodeView]) -> bool {
        let node = &self.nodes[own.id as usize];
        let clearly = |milli: u32| milli * CLEARLY_MILLI / 1000;
        let shipped = *node.mover.params();
        let params = Params {
            mode: if shipped.mode == Mode::Off { Mode::Off } else { Mode::Balance },
            idle_margin_milli: clearly(shipped.idle_margin_milli),
            balance_margin_milli: clearly(shipped.balance_margin_milli),
            ..shipped
        };
        let processes = node.processes.iter().map(|p| self.processes[*p].view(*p, self.now_us)).collect();
        let known = all.iter().filter(|other| other.id != own.id).copied().collect();
        let inputs = Inputs { params, stay: false, quiet: false, evict: false, own: *own, processes, known };
        matches!(decide(&inputs), Verdict::Move(_))
    }

    fn true_view(&self, id: usize) -> NodeView {
        let load_milli = self.nodes[id].runnable(&self.processes) as u32 * 1000;
        NodeView { load_milli, ..self.view(id).0 }
    }
}
