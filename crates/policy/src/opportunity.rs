//! The alternative policy: marginal cost over CPU and memory (Y. Amir, B. Awerbuch, A. Barak, R. S.
//! Borgstrom, A. Keren, "An Opportunity Cost Approach for Job Assignment in a Scalable Computing
//! Cluster", 2000). A resource of which the share u is used costs n^u, where n is the number of
//! machines. A job belongs on the node where it adds least cost, and moves there if that is a fifth
//! less.

use crate::costs::{distance, move_ms};
use crate::decide::{has_room, is_return, lag_scale_ms};
use crate::utility::Site;
use crate::{Cause, Inputs, Move, NodeView, ProcessView};

/// A move must bring the marginal cost below this share of the present cost.
const WORTH: f64 = 0.8;

pub(crate) fn best(inputs: &Inputs, movable: &[&ProcessView], targets: &[&NodeView]) -> Option<Move> {
    let base = (targets.len() + 1).max(2) as f64;
    let slowness = |n: &NodeView| {
        let site = Site::of(n);
        site.load / (site.cores * site.speed)
    };
    // The highest known load stands for the unknown optimum.
    let most = targets.iter().map(|n| slowness(n)).chain([slowness(&inputs.own)]).fold(1.0, f64::max);
    let takes =
        |n: &NodeView, p: &ProcessView| has_room(n, p.memory_mib, &inputs.params) && !is_return(p, n, &inputs.params);
    let mut found: Option<(f64, Move)> = None;
    for process in movable {
        let here = marginal(&inputs.own, process, base, most, true) * distance(process, inputs.own.id, &inputs.params);
        for target in targets.iter().filter(|n| takes(n, process)) {
            let there = marginal(target, process, base, most, false) * distance(process, target.id, &inputs.params);
            if there < here * WORTH && found.as_ref().is_none_or(|(most, _)| here - there > *most) {
                let order = Move {
                    process: process.id,
                    to: target.id,
                    cause: Cause::Balance,
                    gain_milli: ((here - there) * 1000.0).clamp(0.0, 1e9) as i32,
                    cost_ms: move_ms(process, &inputs.params),
                    scale_ms: lag_scale_ms(inputs),
                };
                found = Some((here - there, order));
            }
        }
    }
    found.map(|(_, order)| order)
}

/// Computes the cost that the process adds to a node, or has added if it is already there.
fn marginal(node: &NodeView, process: &ProcessView, base: f64, most: f64, is_there: bool) -> f64 {
    let site = Site::of(node);
    let per_load = 1.0 / (site.cores * site.speed * most);
    let memory = f64::from(node.memory_mib.max(1));
    let used = (memory - f64::from(node.free_mib)).max(0.0) / memory;
    let (cpu, room) = (f64::from(process.demand_milli) / 1e3 * per_load, f64::from(process.memory_mib) / memory);
    let load = site.load * per_load;
    let (load, used) = if is_there { ((load - cpu).max(0.0), (used - room).max(0.0)) } else { (load, used) };
    base.powf(load + cpu) - base.powf(load) + base.powf((used + room).min(2.0)) - base.powf(used.min(2.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Params, Verdict, decide};

    #[test]
    fn memory_counts_like_cpu() {
        let node = |id, load_milli, free_mib| NodeView {
            id,
            load_milli,
            free_mib,
            memory_mib: 1000,
            cores_milli: 1000,
            speed_milli: 1000,
            guests: true,
            ..NodeView::default()
        };
        let process = |id| ProcessView {
            id,
            home: 1,
            age_ms: 60_000,
            resident_ms: 60_000,
            demand_milli: 1000,
            memory_mib: 300,
            in_scope: true,
            ..ProcessView::default()
        };
        let decided = |own, known| {
            let params = Params { mode: Mode::Opportunity, ..Params::default() };
            let processes = vec![process(1), process(2)];
            decide(&Inputs { params, stay: false, quiet: false, evict: false, own, processes, known })
        };
        let to = |verdict| match verdict {
            Verdict::Move(m) => Some(m.to),
            Verdict::Stay(_) => None,
        };
        let idle = vec![node(2, 0, 500), node(3, 0, 950)];
        assert_eq!(to(decided(node(1, 2000, 400), idle)), Some(3), "equal load: the one with more memory");
        assert_eq!(to(decided(node(1, 2000, 400), vec![node(2, 2000, 900)])), None);
    }
}
