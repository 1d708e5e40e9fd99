//! Placement: the node on which a new process should begin. The rule is that of moves, without a
//! node to leave.

use crate::costs::distance;
use crate::decide::has_room;
use crate::utility::Site;
use crate::{NodeView, Params, ProcessView};

/// Value of emptiness: how much a load of one per core counts beyond the slowdown that it causes
/// now. Of two nodes that are about as good, the emptier one has more room for load that is not
/// known yet, and measured speeds of equal nodes differ by some per cent.
const EMPTIER: f64 = 0.1;

/// How much less home counts than an equal node, per core. Home also serves the files and calls of
/// its processes elsewhere.
const HOME_SERVES: f64 = 0.3;

/// Orders the candidates that have room, best first, each with the change of its utility if the
/// process comes (thousandths; the highest is best). Equal candidates are ordered by load, then by
/// an id mixed with the process' id, so that not all processes choose the same node.
pub fn place(process: &ProcessView, candidates: &[NodeView], params: &Params) -> Vec<(u64, i64)> {
    let demand = f64::from(process.demand_milli.max(1)) / 1e3;
    let value = |node: &NodeView| {
        let site = Site::of(node);
        let after = (site.load + demand) * site.ln_rate(site.load + demand);
        let utility = after - site.load * site.ln_rate(site.load);
        let serves = if node.id == process.home { HOME_SERVES * demand } else { 0.0 };
        let value = utility - serves - demand * distance(process, node.id, params).ln();
        ((value - EMPTIER * site.crowding().min(10.0)) * 1000.0).round() as i64
    };
    let mut found: Vec<(i64, u32, u64, u64)> = candidates
        .iter()
        .filter(|n| n.guests && has_room(n, process.memory_mib, params))
        .map(|n| {
            let per_core = (Site::of(n).crowding() * 1000.0).clamp(0.0, f64::from(u32::MAX)) as u32;
            (-value(n), per_core, n.id.wrapping_add(process.id).wrapping_mul(0x9e37_79b9_7f4a_7c15), n.id)
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(worse, _, _, id)| (id, -worse)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tie;

    fn node(id: u64, load_milli: u32, cores_milli: u32, speed_milli: u32) -> NodeView {
        NodeView {
            id,
            load_milli,
            cores_milli,
            speed_milli,
            free_mib: 900,
            memory_mib: 1000,
            guests: true,
            ..NodeView::default()
        }
    }

    #[test]
    fn fast_and_free_first() {
        let process = ProcessView { demand_milli: 1000, ..ProcessView::default() };
        let first = |nodes: &[NodeView]| place(&process, nodes, &Params::default()).first().map(|p| p.0);
        assert_eq!(first(&[node(1, 1000, 1000, 1000), node(2, 0, 1000, 1000)]), Some(2));
        assert_eq!(first(&[node(1, 0, 1000, 1000), node(2, 0, 1000, 3000)]), Some(2));
        assert_eq!(first(&[node(1, 1600, 4000, 1000), node(2, 900, 1000, 1000)]), Some(1));
        assert_eq!(first(&[node(1, 1000, 1000, 3000), node(2, 0, 1000, 300)]), Some(1));
        assert_eq!(first(&[NodeView { guests: false, ..node(1, 0, 1000, 1000) }]), None);
        assert_eq!(first(&[NodeView { free_mib: 100, ..node(1, 0, 1000, 1000) }]), None);
        assert_eq!(first(&[node(1, 1000, 2000, 1020), node(2, 0, 2000, 1000)]), Some(2), "a core is free on both");
        assert_eq!(first(&[]), None);
        let of_first = ProcessView { home: 1, ..process.clone() };
        let first_of = |nodes: &[NodeView]| place(&of_first, nodes, &Params::default()).first().map(|p| p.0);
        assert_eq!(first_of(&[node(1, 0, 1000, 1000), node(2, 0, 1000, 1000)]), Some(2), "home serves what is away");
        assert_eq!(first_of(&[node(1, 0, 1000, 1000), node(2, 1000, 1000, 1000)]), Some(1), "home is idle");
        assert_eq!(first_of(&[node(1, 0, 1000, 1000), node(2, 0, 1000, 400)]), Some(1), "the other is slow");
        let talks = ProcessView { ties: vec![Tie { node: 1, calls_per_s: 50_000 }], ..process };
        let near = place(&talks, &[node(1, 500, 1000, 1000), node(2, 0, 1000, 1000)], &Params::default());
        assert_eq!(near[0].0, 1);
    }
}
