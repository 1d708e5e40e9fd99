//! Moves that need no gain: away from a node before it swaps, and off a node whose owner wants it
//! back.

use crate::costs::move_ms;
use crate::decide::{has_room, lag_scale_ms};
use crate::utility::Site;
use crate::{Cause, Inputs, Move, NodeView, ProcessView};

/// Chooses a process to move if memory runs low: the cheapest one that frees enough, else the
/// largest. The target is the best node with room.
pub(crate) fn usher(inputs: &Inputs) -> Option<Move> {
    let missing_mib = missing_mib(inputs)?;
    let mut order: Vec<&ProcessView> =
        inputs.processes.iter().filter(|p| p.in_scope && !p.pinned && p.memory_mib > 0).collect();
    order.sort_by_key(|p| {
        let enough = p.memory_mib >= missing_mib;
        // Processes that free enough come first, the cheapest first; then the others, the largest
        // first.
        (!enough, if enough { move_ms(p, &inputs.params) } else { u64::from(u32::MAX - p.memory_mib) }, p.id)
    });
    order.into_iter().find_map(|p| Some(order_to(inputs, p, roomiest(inputs, p)?, Cause::Usher)))
}

/// Computes how much memory must be freed, MiB; `None` if enough is free.
fn missing_mib(inputs: &Inputs) -> Option<u32> {
    let (own, params) = (&inputs.own, &inputs.params);
    let low_mib = u64::from(own.memory_mib) * u64::from(params.low_memory_milli) / 1000;
    let is_low = own.memory_mib > 0 && u64::from(own.free_mib) < low_mib;
    let is_pressed = own.pressure_milli >= params.pressure_milli;
    // Free twice the threshold, so that the node does not cross it again at once.
    (is_low || is_pressed).then(|| u32::try_from(2 * low_mib).unwrap_or(u32::MAX).saturating_sub(own.free_mib).max(1))
}

/// Chooses a guest to move off this node: to its home if home has room, else to another node.
pub(crate) fn evict(inputs: &Inputs) -> Option<Move> {
    let guests = inputs.processes.iter().filter(|p| p.home != inputs.own.id);
    let guest = guests.min_by_key(|p| (move_ms(p, &inputs.params), p.id))?;
    // Home must take its own processes back whatever it says about guests. Home is also asked if no
    // other node is known to have room.
    let home = inputs.known.iter().find(|n| n.id == guest.home);
    let to = match (home, roomiest(inputs, guest)) {
        (Some(home), _) if has_room(home, guest.memory_mib, &inputs.params) => home.id,
        (_, Some(other)) => other.id,
        _ => guest.home,
    };
    Some(Move { to, ..order_to(inputs, guest, &inputs.own, Cause::Evict) })
}

/// Finds the node with room on which the process gets most done.
fn roomiest<'a>(inputs: &'a Inputs, process: &ProcessView) -> Option<&'a NodeView> {
    let demand = f64::from(process.demand_milli) / 1e3;
    let takes = |n: &&NodeView| n.id != inputs.own.id && (n.guests || n.id == process.home);
    inputs
        .known
        .iter()
        .filter(takes)
        .filter(|n| has_room(n, process.memory_mib, &inputs.params))
        .max_by(|a, b| value(a, demand).total_cmp(&value(b, demand)).then(b.id.cmp(&a.id)))
}

fn value(node: &NodeView, demand: f64) -> f64 {
    let site = Site::of(node);
    site.rate(site.load + demand)
}

fn order_to(inputs: &Inputs, process: &ProcessView, to: &NodeView, cause: Cause) -> Move {
    Move {
        process: process.id,
        to: to.id,
        cause,
        gain_milli: 0,
        cost_ms: move_ms(process, &inputs.params),
        scale_ms: lag_scale_ms(inputs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Params, Verdict, decide};

    fn node(id: u64, free_mib: u32, load_milli: u32) -> NodeView {
        NodeView {
            id,
            free_mib,
            load_milli,
            memory_mib: 1000,
            cores_milli: 1000,
            speed_milli: 1000,
            guests: true,
            ..NodeView::default()
        }
    }

    fn process(id: u64, memory_mib: u32, home: u64) -> ProcessView {
        ProcessView { id, memory_mib, carried_mib: memory_mib, home, in_scope: true, ..ProcessView::default() }
    }

    fn inputs(free_mib: u32, processes: Vec<ProcessView>, known: Vec<NodeView>) -> Inputs {
        let own = node(1, free_mib, 1000);
        Inputs { params: Params::default(), stay: false, quiet: false, evict: false, own, processes, known }
    }

    fn moved(inputs: &Inputs) -> Option<(u64, u64, Cause)> {
        match decide(inputs) {
            Verdict::Move(m) => Some((m.process, m.to, m.cause)),
            Verdict::Stay(_) => None,
        }
    }

    #[test]
    fn the_cheapest_that_frees_enough_goes_even_to_a_busier_node() {
        let all = vec![process(1, 600, 1), process(2, 200, 1), process(3, 40, 1)];
        let busy = node(2, 900, 5000);
        assert_eq!(moved(&inputs(20, all.clone(), vec![busy])), Some((2, 2, Cause::Usher)));
        assert_eq!(moved(&inputs(200, all.clone(), vec![busy])), None, "there is enough memory");
        assert_eq!(moved(&inputs(20, all.clone(), vec![node(2, 250, 0)])), Some((3, 2, Cause::Usher)));
        assert_eq!(moved(&inputs(20, all.clone(), vec![node(2, 130, 0)])), None, "nobody has room");
        let mut pressed = inputs(200, all, vec![busy]);
        pressed.own.pressure_milli = 300;
        assert_eq!(moved(&pressed).map(|m| m.2), Some(Cause::Usher));
    }

    #[test]
    fn guests_go_home_when_the_owner_returns() {
        let mut all =
            inputs(500, vec![process(1, 50, 1), process(2, 50, 3)], vec![node(2, 900, 0), node(3, 900, 9000)]);
        all.evict = true;
        all.quiet = true;
        assert_eq!(moved(&all), Some((2, 3, Cause::Evict)));
        all.known[1].free_mib = 10;
        assert_eq!(moved(&all), Some((2, 2, Cause::Evict)));
        all.known.clear();
        assert_eq!(moved(&all), Some((2, 3, Cause::Evict)));
        all.processes.truncate(1);
        assert_eq!(moved(&all), None);
    }
}
