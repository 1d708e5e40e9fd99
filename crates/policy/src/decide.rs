//! One decision: stay, or move one process to one node.

use serde::{Deserialize, Serialize};

use crate::costs::{distance, move_ms};
use crate::utility::{Crowd, Site, gain};
use crate::{Mode, NodeView, Params, ProcessView, opportunity, usher};

/// All inputs of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// The policy's numbers.
    pub params: Params,
    /// The owner keeps the processes of this node here.
    pub stay: bool,
    /// The owner has switched the policy off on this node.
    pub quiet: bool,
    /// The owner wants all guests to leave.
    pub evict: bool,
    /// The node that decides.
    pub own: NodeView,
    /// The processes on this node that could move.
    pub processes: Vec<ProcessView>,
    /// The other nodes that could be targets.
    pub known: Vec<NodeView>,
}

/// The reason for a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The process and the cluster get more done.
    Balance,
    /// The load cannot be spread evenly, and this process has had more than its share.
    Rotate,
    /// The node runs out of memory.
    Usher,
    /// The owner of the node wants the guest to leave.
    Evict,
    /// The process gets nearer to its home or to the processes with which it communicates.
    Attract,
    /// The process has had more than a process on a slower node, which comes here in return.
    Exchange,
}

/// The reason for moving nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stay {
    /// The owner has forbidden moves.
    Owner,
    /// Moving for load is switched off.
    Off,
    /// No process may move: none is in scope, old enough, unpinned, and long enough on this node.
    NobodyMovable,
    /// No other node is known, or none takes guests.
    NobodyKnown,
    /// No move is worth its cost.
    Best,
}

/// A move that is worth its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Id of the process that moves.
    pub process: u64,
    /// Node id of the target.
    pub to: u64,
    /// The reason for the move.
    pub cause: Cause,
    /// Gain in utility of all processes, thousandths, per core of the process' demand.
    pub gain_milli: i32,
    /// Expected freeze time, milliseconds.
    pub cost_ms: u64,
    /// Milliseconds of lag by which a weight grows e times. The target judges with the same scale.
    pub scale_ms: u32,
}

/// The outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No process moves.
    Stay(Stay),
    /// One process moves.
    Move(Move),
}

/// Decides what to move, if anything. The same inputs always give the same verdict.
pub fn decide(inputs: &Inputs) -> Verdict {
    if inputs.evict
        && let Some(order) = usher::evict(inputs)
    {
        return Verdict::Move(order);
    }
    if inputs.quiet {
        return Verdict::Stay(Stay::Owner);
    }
    if let Some(order) = usher::usher(inputs) {
        return Verdict::Move(order);
    }
    if inputs.stay {
        return Verdict::Stay(Stay::Owner);
    }
    if inputs.params.mode == Mode::Off {
        return Verdict::Stay(Stay::Off);
    }
    let params = &inputs.params;
    let movable: Vec<&ProcessView> = inputs.processes.iter().filter(|p| is_movable(p, params)).collect();
    if movable.is_empty() {
        return Verdict::Stay(Stay::NobodyMovable);
    }
    let targets: Vec<&NodeView> = inputs.known.iter().filter(|n| n.guests && n.id != inputs.own.id).collect();
    if targets.is_empty() {
        return Verdict::Stay(Stay::NobodyKnown);
    }
    let best = match params.mode {
        Mode::Opportunity => opportunity::best(inputs, &movable, &targets),
        _ => best(inputs, &movable, &targets),
    };
    best.map_or(Verdict::Stay(Stay::Best), Verdict::Move)
}

/// Estimates the freeze time that a move costs the process, milliseconds.
pub fn move_cost_ms(process: &ProcessView, params: &Params) -> u64 {
    move_ms(process, params)
}

/// Tells whether the process may move for load. Half of the processes of a given age live that long
/// again (Harchol-Balter and Downey 1997), so a move may cost a fixed share of the age.
fn is_movable(process: &ProcessView, params: &Params) -> bool {
    process.in_scope
        && !process.pinned
        && process.demand_milli >= 50
        && process.resident_ms >= u64::from(params.residency_ms)
        && move_ms(process, params).saturating_mul(1000) <= process.age_ms.saturating_mul(u64::from(params.cost_milli))
}

/// Tells whether the move would lead straight back to the node that the process just left.
pub(crate) fn is_return(process: &ProcessView, target: &NodeView, params: &Params) -> bool {
    process.came_from == Some(target.id) && process.resident_ms < u64::from(params.return_ms)
}

/// Tells whether the node has `memory_mib` free beyond its reserve.
pub(crate) fn has_room(node: &NodeView, memory_mib: u32, params: &Params) -> bool {
    let reserve_mib = u64::from(node.memory_mib) * u64::from(params.reserve_milli) / 1000;
    u64::from(node.free_mib) >= u64::from(memory_mib) + reserve_mib
}

fn best(inputs: &Inputs, movable: &[&ProcessView], targets: &[&NodeView]) -> Option<Move> {
    let scale_ms = lag_scale_ms(inputs);
    let base_ms = inputs.own.lag_ms;
    let own = own_crowd(inputs, scale_ms);
    let crowds: Vec<Crowd> = targets.iter().map(|n| crowd(n, base_ms, scale_ms)).collect();
    let mut best: Option<(f64, Move)> = None;
    for process in movable {
        let weight = weight(process.lag_ms, base_ms, scale_ms);
        for (target, to) in targets.iter().zip(&crowds) {
            if is_return(process, target, &inputs.params) || !has_room(target, process.memory_mib, &inputs.params) {
                continue;
            }
            let offer = Offer { process, weight, from: own, from_id: inputs.own.id, to: *to, to_id: target.id };
            if let Some((cause, gain, excess)) = offer.worth(&inputs.params, 1.0)
                && best.as_ref().is_none_or(|(most, _)| excess > *most + 1e-9)
            {
                let order = Move {
                    process: process.id,
                    to: target.id,
                    cause,
                    gain_milli: (gain * 1000.0).clamp(-1e9, 1e9) as i32,
                    cost_ms: move_ms(process, &inputs.params),
                    scale_ms,
                };
                best = Some((excess, order));
            }
        }
    }
    best.map(|(_, order)| order)
}

/// One possible move: the process and the two nodes.
pub(crate) struct Offer<'a> {
    pub process: &'a ProcessView,
    pub weight: f64,
    pub from: Crowd,
    pub from_id: u64,
    pub to: Crowd,
    pub to_id: u64,
}

impl Offer<'_> {
    /// Gives the cause, the gain, and the excess of the gain over the margin and the cost, if the
    /// move is worth it. `strictness` scales the margins.
    pub fn worth(&self, params: &Params, strictness: f64) -> Option<(Cause, f64, f64)> {
        let demand = f64::from(self.process.demand_milli) / 1e3;
        let margin = |milli: u32| f64::from(milli) / 1e3 * strictness;
        // The gain lasts longer the more rarely processes change places.
        let lasts_ms = f64::from(params.lag_scale_ms) * slowness(params) * 4.0;
        let horizon_ms = (self.process.age_ms.max(1) as f64).min(lasts_ms);
        let cost = move_ms(self.process, params) as f64 / horizon_ms;
        let pull = self.pull(params);
        let plain = plain_gain(self.from, self.to, demand);
        let spare = self.to.site.load + demand <= self.to.site.cores.max(1.0) * 1.05;
        let asked = margin(if spare { params.idle_margin_milli } else { params.balance_margin_milli })
            / self.from.site.crowding().max(1.0);
        let weighted = gain(self.from, self.to, demand, self.weight) / (demand * self.weight);
        if plain + pull > asked + cost {
            let cause = if plain > asked { Cause::Balance } else { Cause::Attract };
            // Of several processes whose move balances the load equally well, the one that lags
            // least moves if the target is slower.
            let excess = (plain + pull - asked - cost) + 0.1 * weighted;
            return Some((cause, plain + pull, excess));
        }
        if params.mode != Mode::Rotate {
            return None;
        }
        // The part of the gain that is due to lags alone must exceed the margin, too. Otherwise
        // noise in the loads would cause rotation.
        let asked = margin(params.rotate_margin_milli);
        let excess = weighted.min(weighted - plain) + pull - asked - cost;
        let rotates = (excess > 0.0 && !self.comes_back(params)).then_some((Cause::Rotate, weighted + pull, excess));
        rotates.or_else(|| {
            let gained = self.exchange(demand)? + pull;
            let excess = gained - EXCHANGE_ASKED * asked - 2.0 * cost;
            (excess > 0.0).then_some((Cause::Exchange, gained, excess))
        })
    }

    /// Gives the gain if the process goes to a slower node and a process there that lags more comes
    /// here in return. An exchange helps where each process has a core of its own, or loads are
    /// even, so that no single move is worth it. `None` if the target is not slower or would be too
    /// full.
    fn exchange(&self, demand: f64) -> Option<f64> {
        let (from, to) = (self.from.site, self.to.site);
        let faster = from.ln_rate(from.load) - to.ln_rate(to.load);
        let waits = to.load >= demand * 0.5;
        (faster > 0.0 && waits && self.is_even()).then(|| (self.to.weight / to.load / self.weight - 1.0) * faster)
    }

    /// Tells whether the target would at once send another process here for balance. Both would
    /// then have moved for nothing, or exchanged places.
    fn comes_back(&self, params: &Params) -> bool {
        let demand = f64::from(self.process.demand_milli) / 1e3;
        let with = |crowd: Crowd, load: f64| Crowd { site: Site { load: load.max(0.0), ..crowd.site }, ..crowd };
        let (left, there) = (with(self.from, self.from.site.load - demand), with(self.to, self.to.site.load + demand));
        plain_gain(there, left, demand) > f64::from(params.balance_margin_milli) / 1e3 / there.site.crowding().max(1.0)
    }

    /// Tells whether the loads are so even that neither node would send a process to the other for
    /// balance. After one move of an exchange they no longer are, so the second move follows.
    pub fn is_even(&self) -> bool {
        let demand = f64::from(self.process.demand_milli) / 1e3;
        plain_gain(self.to, self.from, demand) <= EXCHANGE_EVEN
    }

    /// Gives the gain in utility from shorter distances to home and communication partners.
    fn pull(&self, params: &Params) -> f64 {
        let near = (distance(self.process, self.from_id, params) / distance(self.process, self.to_id, params)).ln();
        match self.process.prefer_home {
            true if self.to_id == self.process.home => near + 0.5,
            true => near - 0.5,
            false => near,
        }
    }
}

/// The greatest gain of a move, per core of demand, between two nodes that count as even enough for
/// an exchange.
const EXCHANGE_EVEN: f64 = 0.2;

/// Factor on the rotation margin for an exchange. The second of the two moves waits until the first
/// is seen, and the faster node stands idle meanwhile. Gains grow with e to the lag, so this factor
/// means about five times the lag.
const EXCHANGE_ASKED: f64 = 64.0;

/// Computes the gain of a move, per core of demand, if all processes have the same weight.
fn plain_gain(from: Crowd, to: Crowd, demand: f64) -> f64 {
    let plain = |crowd: Crowd| Crowd { weight: crowd.site.load, ..crowd };
    gain(plain(from), plain(to), demand, 1.0) / demand
}

/// The freeze time up to which the default scale of lags is right, milliseconds.
const SWIFT_MOVE_MS: f64 = 400.0;

/// Gives the factor by which processes change places more rarely where moves take long. The cost of
/// the moves falls with the scale of lags and the unevenness grows with it; their sum is least
/// where the scale grows with the square root of the cost.
fn slowness(params: &Params) -> f64 {
    (f64::from(params.move_ms) / SWIFT_MOVE_MS).sqrt().max(1.0)
}

/// A node's load and rate count for at most this many times the median, so that one node with false
/// values cannot set the scale for all.
const BEYOND: f64 = 4.0;

fn middle(mut values: Vec<f64>) -> Option<f64> {
    let at = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(at, f64::total_cmp).1)
}

/// Computes the mean rate of a process that wants a core, reference seconds per second. Each node
/// comes with the number of processes there that count. If none counts on any node, gives the rate
/// that one would get.
pub fn mean_rate<'a>(nodes: impl Iterator<Item = (&'a NodeView, f64)>) -> f64 {
    let rate = |site: Site| site.rate(site.load.max(1.0));
    let all: Vec<(f64, f64)> = nodes.map(|(node, there)| (there, rate(Site::of(node)))).collect();
    let busy = |of: fn(&(f64, f64)) -> f64| middle(all.iter().filter(|node| node.0 > 0.0).map(of).collect());
    let Some((there, rate)) = busy(|node| node.0).zip(busy(|node| node.1)) else {
        return middle(all.iter().map(|node| node.1).collect()).unwrap_or(1.0);
    };
    let (mut done, mut wanted) = (0.0, 0.0);
    for (its, its_rate) in &all {
        let its = its.min(there * BEYOND);
        done += its_rate.clamp(rate / BEYOND, rate * BEYOND) * its;
        wanted += its;
    }
    (done / wanted).clamp(0.01, 50.0)
}

/// Computes the scale of lags for this cluster, reference milliseconds. Nodes with a tenth of a
/// core do less reference work, so their scale is smaller. The scale is greater where moves take
/// long.
pub(crate) fn lag_scale_ms(inputs: &Inputs) -> u32 {
    let rate = mean_rate(inputs.known.iter().chain([&inputs.own]).map(|node| (node, Site::of(node).load)));
    (f64::from(inputs.params.lag_scale_ms) * rate * slowness(&inputs.params)).clamp(1.0, 3.6e6) as u32
}

pub(crate) fn weight(lag_ms: i32, base_ms: i32, scale_ms: u32) -> f64 {
    ((f64::from(lag_ms) - f64::from(base_ms)) / f64::from(scale_ms.max(1))).clamp(-6.0, 6.0).exp()
}

pub(crate) fn crowd(view: &NodeView, base_ms: i32, scale_ms: u32) -> Crowd {
    let site = Site::of(view);
    Crowd { site, weight: site.load * weight(view.lag_ms, base_ms, scale_ms) }
}

fn own_crowd(inputs: &Inputs, scale_ms: u32) -> Crowd {
    let site = Site::of(&inputs.own);
    let (mut demand, mut weighted) = (0.0, 0.0);
    for process in &inputs.processes {
        let wanted = f64::from(process.demand_milli) / 1e3;
        demand += wanted;
        weighted += wanted * weight(process.lag_ms, inputs.own.lag_ms, scale_ms);
    }
    Crowd { site: Site { load: site.load.max(demand), ..site }, weight: weighted + (site.load - demand).max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn node(id: u64, load: f64) -> NodeView {
        NodeView {
            id,
            load_milli: (load * 1000.0) as u32,
            cores_milli: 1000,
            speed_milli: 1000,
            free_mib: 900,
            memory_mib: 1000,
            guests: true,
            ..NodeView::default()
        }
    }

    fn process(id: u64) -> ProcessView {
        ProcessView {
            id,
            home: 1,
            age_ms: 60_000,
            resident_ms: 5000,
            demand_milli: 1000,
            memory_mib: 50,
            carried_mib: 10,
            in_scope: true,
            ..ProcessView::default()
        }
    }

    fn inputs(processes: Vec<ProcessView>, known: Vec<NodeView>) -> Inputs {
        let own = node(1, processes.iter().map(|p| f64::from(p.demand_milli) / 1e3).sum());
        Inputs { params: Params::default(), stay: false, quiet: false, evict: false, own, processes, known }
    }

    fn moved(inputs: &Inputs) -> Option<(u64, u64, Cause)> {
        match decide(inputs) {
            Verdict::Move(m) => Some((m.process, m.to, m.cause)),
            Verdict::Stay(_) => None,
        }
    }

    #[test]
    fn balances_at_two_and_rests_at_one() {
        let two = vec![process(1), process(2)];
        assert_eq!(moved(&inputs(two.clone(), vec![node(2, 1.0), node(3, 0.0)])).map(|m| m.1), Some(3));
        assert_eq!(decide(&inputs(two, vec![node(2, 1.0)])), Verdict::Stay(Stay::Best));
        let five = (0..5).map(process).collect::<Vec<_>>();
        assert_eq!(moved(&inputs(five.clone(), vec![node(2, 4.0)])), None);
        assert_eq!(moved(&inputs(five, vec![node(2, 3.0)])).map(|m| m.2), Some(Cause::Balance));
    }

    #[test]
    fn noise_moves_nobody() {
        for noise in [-0.2, -0.1, 0.1, 0.2] {
            assert_eq!(moved(&inputs(vec![process(1)], vec![node(2, 0.0 + f64::max(noise, 0.0))])), None);
            assert_eq!(moved(&inputs(vec![process(1), process(2)], vec![node(2, 1.0 + noise)])), None, "{noise}");
        }
    }

    #[test]
    fn noise_moves_nobody_between_parts_of_cores() {
        let part = |node: NodeView| NodeView { cores_milli: 200, ..node };
        let mut all = inputs(vec![process(1), process(2)], vec![part(node(2, 1.0))]);
        all.own = part(all.own);
        for noise_milli in [0, 200, 400] {
            all.own.load_milli = 2000 + noise_milli;
            assert_eq!(moved(&all), None, "{noise_milli}");
        }
        all.known = vec![part(node(2, 0.0))];
        assert_eq!(moved(&all).map(|m| m.2), Some(Cause::Balance));
    }

    #[test]
    fn the_least_lagging_process_rotates_to_the_least_lagging_node() {
        let (mut behind, ahead) = (process(1), process(2));
        behind.lag_ms = 6000;
        let mut all = inputs(vec![behind, ahead], vec![node(2, 1.0)]);
        all.own.lag_ms = 3000;
        all.known[0].lag_ms = -2000;
        assert_eq!(moved(&all), Some((2, 2, Cause::Rotate)));
        all.known[0].lag_ms = 6000;
        assert_eq!(moved(&all), None);
        all.known[0].lag_ms = -2000;
        all.params.mode = Mode::Balance;
        assert_eq!(moved(&all), None);
    }

    #[test]
    fn processes_that_balance_would_send_back_do_not_rotate() {
        let mut ahead = process(1);
        ahead.lag_ms = -5000;
        let mut all = inputs(vec![ahead, process(2), process(3)], vec![NodeView { lag_ms: -6000, ..node(2, 3.0) }]);
        all.own.lag_ms = -1600;
        assert_eq!(moved(&all), None, "there are four then, and two here");
        all.known[0].load_milli = 2000;
        assert_eq!(moved(&all), Some((1, 2, Cause::Rotate)), "they only change places");
    }

    #[test]
    fn processes_on_slow_and_fast_nodes_change_places() {
        let slow = |lag_ms| NodeView { speed_milli: 333, lag_ms, ..node(2, 1.0) };
        let mut all = inputs(vec![process(1), process(2)], vec![slow(7000)]);
        assert_eq!(moved(&all), None, "the one there has not missed enough for what the change costs");
        all.known = vec![slow(35_000)];
        assert_eq!(moved(&all).map(|m| (m.1, m.2)), Some((2, Cause::Exchange)));
        // Until one process has left in exchange, no other process follows.
        all.known[0].load_milli = 2000;
        all.own.load_milli = 1000;
        all.processes.pop();
        assert_eq!(moved(&all), None);
        all.known = vec![NodeView { lag_ms: 35_000, ..node(2, 1.0) }];
        assert_eq!(moved(&all), None, "its place is as good");
        all.known = vec![NodeView { load_milli: 0, ..slow(25_000) }];
        assert_eq!(moved(&all), None, "nobody is there");
    }

    #[test]
    fn one_that_lies_does_not_set_the_scale_for_all() {
        let mut all = inputs(vec![process(1)], (2..10).map(|id| node(id, 1.0)).collect());
        let honest = f64::from(lag_scale_ms(&all));
        for forged in [
            NodeView { load_milli: u32::MAX, ..node(2, 1.0) },
            NodeView { load_milli: u32::MAX, cores_milli: u32::MAX, speed_milli: u32::MAX, ..node(2, 1.0) },
            NodeView { speed_milli: 0, cores_milli: 0, ..node(2, 1.0) },
        ] {
            all.known[0] = forged.bounded();
            let told = f64::from(lag_scale_ms(&all));
            assert!((honest / 2.5..honest * 2.5).contains(&told), "{told} instead of {honest}: {forged:?}");
        }
    }

    #[test]
    fn the_mean_rate_does_not_depend_on_being_there() {
        let part = |load| NodeView { cores_milli: 80, ..node(2, load) };
        for load in [0.0, 0.01, 0.5, 1.0] {
            let rate = mean_rate([part(load), part(load / 2.0)].iter().map(|node| (node, load)));
            assert!((rate - 0.08).abs() < 1e-9, "{rate} at {load}");
        }
        // A node without any of the processes that count does not affect the mean.
        let crowded = [part(2.0), part(8.0)];
        assert!((mean_rate(crowded.iter().zip([1.0, 0.0])) - 0.04).abs() < 1e-9);
        assert!((mean_rate(std::iter::empty()) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn where_moves_take_long_lags_may_grow() {
        let mut all = inputs(vec![process(1)], vec![node(2, 1.0)]);
        let shipped = lag_scale_ms(&all);
        all.params.move_ms = 100;
        assert_eq!(lag_scale_ms(&all), shipped);
        all.params.move_ms = 1600;
        assert_eq!(lag_scale_ms(&all), 2 * shipped);
    }

    #[test]
    fn the_young_the_pinned_and_strangers_stay() {
        for change in [
            (|p: &mut ProcessView| p.pinned = true) as fn(&mut ProcessView),
            |p| p.in_scope = false,
            |p| p.resident_ms = 999,
            |p| p.age_ms = 1100,
            |p| p.carried_mib = 10_000,
        ] {
            let mut both = vec![process(1), process(2)];
            both.iter_mut().for_each(change);
            let verdict = decide(&inputs(both, vec![node(2, 0.0)]));
            assert_eq!(verdict, Verdict::Stay(Stay::NobodyMovable));
        }
        let mut back = vec![process(1), process(2)];
        back.iter_mut().for_each(|p| p.came_from = Some(2));
        assert_eq!(moved(&inputs(back.clone(), vec![node(2, 0.0)])), None);
        assert_eq!(moved(&inputs(back.clone(), vec![node(3, 0.0)])).map(|m| m.1), Some(3));
        back.iter_mut().for_each(|p| p.resident_ms = 6000);
        assert_eq!(moved(&inputs(back, vec![node(2, 0.0)])).map(|m| m.1), Some(2));
        let full = NodeView { free_mib: 100, ..node(2, 0.0) };
        assert_eq!(moved(&inputs(vec![process(1), process(2)], vec![full])), None);
        let shut = NodeView { guests: false, ..node(2, 0.0) };
        let verdict = decide(&inputs(vec![process(1), process(2)], vec![shut]));
        assert_eq!(verdict, Verdict::Stay(Stay::NobodyKnown));
    }

    #[test]
    fn the_owner_is_obeyed() {
        let mut all = inputs(vec![process(1), process(2)], vec![node(2, 0.0)]);
        all.stay = true;
        assert_eq!(decide(&all), Verdict::Stay(Stay::Owner));
        (all.stay, all.quiet) = (false, true);
        assert_eq!(decide(&all), Verdict::Stay(Stay::Owner));
        (all.quiet, all.params.mode) = (false, Mode::Off);
        assert_eq!(decide(&all), Verdict::Stay(Stay::Off));
    }

    #[test]
    fn talkers_meet() {
        let mut talker = process(1);
        talker.home = 9;
        talker.ties = vec![crate::Tie { node: 2, calls_per_s: 20_000 }];
        let all = inputs(vec![talker.clone()], vec![node(2, 0.0), node(3, 0.0)]);
        assert_eq!(moved(&all), Some((1, 2, Cause::Attract)));
        // A process that calls home often stays there even if home is crowded.
        let mut calls_home = process(1);
        calls_home.ties = vec![crate::Tie { node: 1, calls_per_s: 100_000 }];
        let others = process(2);
        assert_eq!(moved(&inputs(vec![calls_home, others], vec![node(2, 0.0)])).map(|m| m.0), Some(2));
        talker.ties.clear();
        (talker.prefer_home, talker.home) = (true, 2);
        assert_eq!(moved(&inputs(vec![talker], vec![node(2, 0.0), node(3, 0.0)])), Some((1, 2, Cause::Attract)));
    }
}
