//! Moves running processes of this home as the policy says, if its owner has set `moves=on`; and
//! judges what others want to move here.
//!
//! The home decides for its own: it alone knows how each of its processes gets on, wherever they
//! are. The target has the last word.

pub(crate) mod admission;
pub(crate) mod effective_speed;
mod foreign_load;
mod freeze_estimate;
pub(crate) mod ledger;
mod memory;
mod orders;
mod tracked;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::policy::{EffectiveSpeed, Entry, Mean, Mover, NodeView, ProcessView, RootOn, Settings, Verdict, mean_rate};
use control_protocol::rights::NodeState;
use control_protocol::steward::Guest;

use self::foreign_load::{Demands, ForeignLoad};
use self::freeze_estimate::FreezeEstimate;
use self::orders::{Done, Orders};
use self::tracked::{Others, Tracked};
use crate::daemon::Daemon;
use crate::{Error, at_home, choices, rooms};

/// Time between two rounds.
const EVERY: Duration = Duration::from_secs(1);
/// Most decisions for one node in a round.
const DECISIONS_MAX: usize = 4;
/// How long an order may be under way before it is decided anew, milliseconds.
const ORDER_MS: u64 = 600_000;
/// A process that could not be moved is left alone for so long.
const FAILED_FOR: Duration = Duration::from_secs(60);

/// Starts the thread.
pub(crate) fn start(daemon: Arc<Daemon>) -> std::io::Result<()> {
    let work = move || {
        let mut rounds = Rounds::new(daemon);
        loop {
            rounds.wait();
            rounds.round();
        }
    };
    std::thread::Builder::new().name("balance".into()).stack_size(512 << 10).spawn(work).map(drop)
}

struct Rounds {
    daemon: Arc<Daemon>,
    tracked: HashMap<i32, Tracked>,
    foreign_load: ForeignLoad,
    /// When loads were corrected last.
    corrected: Instant,
    /// What each node that hosts some of them remembers, as if it decided itself.
    movers: HashMap<u64, Mover>,
    orders: Orders,
    freeze: FreezeEstimate,
    /// What all of them have missed and get, as of the last round.
    mean: Mean,
}

/// What a round goes by.
struct Round {
    /// As they will be when what is under way has come.
    nodes: HashMap<u64, NodeView>,
    movable: HashMap<i32, (u64, Guest)>,
    settings: Settings,
}

impl Rounds {
    fn new(daemon: Arc<Daemon>) -> Rounds {
        Rounds {
            tracked: HashMap::new(),
            foreign_load: ForeignLoad::new(daemon.options.pace),
            corrected: Instant::now(),
            movers: HashMap::new(),
            orders: Orders::new(Arc::clone(&daemon)),
            freeze: FreezeEstimate::default(),
            mean: Mean::default(),
            daemon,
        }
    }

    /// For the next round: a second, or until an order was refused that another node may take.
    fn wait(&mut self) {
        let until = Instant::now() + self.daemon.paced(EVERY);
        while let Some(done) = self.orders.ended(until) {
            if self.has_ended(done) {
                return;
            }
        }
    }

    fn round(&mut self) {
        let balance = &self.daemon.balance;
        if let Err(e) = balance.placed.save().and_then(|()| balance.trees.save()) {
            tracing::warn!("what the policy may move is not remembered: {e}");
        }
        let of_owner = self.daemon.policy.settings();
        // Measures of that time say nothing about load.
        if !of_owner.moves || self.daemon.suspending.is_under_way() {
            self.daemon.balance.speeds.retain(|_| false);
            return self.tracked.clear();
        }
        // Whether guests are taken here says nothing about where this home's processes may be.
        let settings = Settings { guests: true, ..of_owner.clone() };
        let mut nodes = self.nodes();
        let movable = self.movable(&nodes, &of_owner);
        // Home takes its own whether it takes guests or not.
        let home = self.daemon.me().id;
        nodes.insert(home, NodeView { guests: true, ..choices::view(home, &self.daemon.load(), 0) });
        self.track(&movable, &nodes, &settings);
        self.correct(&mut nodes);
        self.mean = Mean { lag_ms: self.mean_lag_ms(), rate: self.mean_rate(&nodes) };
        self.fill_in_lags(&mut nodes);
        let mut sources: Vec<u64> = self.tracked.values().map(|t| t.node).collect();
        sources.sort_unstable();
        sources.dedup();
        self.movers.retain(|node, _| sources.contains(node));
        let mut round = Round { nodes, movable, settings };
        for source in sources {
            for _ in 0..DECISIONS_MAX {
                if !self.orders.has_room() || !self.decide(source, &mut round) {
                    break;
                }
            }
        }
    }

    /// Living nodes whose load is known, by id.
    fn nodes(&self) -> HashMap<u64, NodeView> {
        let (table, now) = (self.daemon.table(), Instant::now());
        let alive = table.iter().filter(|k| k.alive).map(|k| k.member.id);
        let view = |id| {
            let (load, age) = table.load(id, now)?;
            let age_ms = u32::try_from(self.daemon.policy_ms(age)).unwrap_or(u32::MAX);
            Some((id, NodeView { age_ms, ..choices::view(id, &load, 0) }))
        };
        alive.filter_map(view).collect()
    }

    /// Processes of this home that the policy may move, and where they are.
    fn movable(&self, nodes: &HashMap<u64, NodeView>, settings: &Settings) -> HashMap<i32, (u64, Guest)> {
        let (mut found, mut away) = (HashMap::new(), HashSet::new());
        let balance = &self.daemon.balance;
        let is_meant = |pid: i32| balance.placed.has(pid) || balance.trees.has(pid);
        // All are asked before the first answer is waited for: each asks its room.
        let stewards = rooms::stewards(&self.daemon.options.run_dir);
        let asked: Vec<_> = stewards.iter().filter(|(_, steward)| steward.ask_for_list().is_ok()).collect();
        for (_, steward) in asked {
            let Ok((name, true, guests)) = steward.listed() else { continue };
            away.extend(guests.iter().map(|g| g.pid));
            let Ok(member) = self.daemon.living(&name) else { continue };
            if nodes.contains_key(&member.id) {
                found.extend(guests.into_iter().filter(|g| is_meant(g.pid)).map(|g| (g.pid, (member.id, g))));
            }
        }
        let home = self.daemon.me().id;
        found.extend(at_home::processes(settings, balance, &away).into_iter().map(|g| (g.pid, (home, g))));
        found
    }

    fn track(&mut self, away: &HashMap<i32, (u64, Guest)>, nodes: &HashMap<u64, NodeView>, settings: &Settings) {
        let now = Instant::now();
        // Between two places a process is on no list.
        self.tracked.retain(|pid, tracked| tracked.going.is_some() || away.contains_key(pid));
        let others = Others { mean: self.mean, scale_ms: f64::from(settings.params.lag_scale_ms) };
        let home = self.daemon.me().id;
        for (pid, (node, guest)) in away {
            let speed = nodes.get(node).map_or(1.0, |n| f64::from(n.speed_milli) / 1e3);
            // What runs at home has not begun just now: what waits there need not be about to work.
            let waits = *node == home && guest.state != 'R';
            let begin = || Tracked::new(*node, guest, if waits { 0.0 } else { 1.0 }, self.mean.lag_ms, now);
            let tracked = self.tracked.entry(*pid).or_insert_with(begin);
            // An order takes it through home, which is no place where it is.
            if tracked.node != *node && tracked.going.is_none() {
                tracked.has_moved(*node, now);
            }
            tracked.look(guest, speed, others, f64::from(self.daemon.options.pace), now);
        }
    }

    /// Loads are what others want by the newest readings, and what this home's own processes want
    /// by where they are or will be. Speeds are what these get there.
    fn correct(&mut self, nodes: &mut HashMap<u64, NodeView>) {
        let now = Instant::now();
        let (present, expected) = (self.demands(|t| t.node), self.demands(Tracked::expected));
        self.foreign_load.note(now, present.clone());
        let pace = self.daemon.options.pace.max(1);
        let read = |node: &NodeView| now.checked_sub(Duration::from_millis(node.age_ms.into()) / pace).unwrap_or(now);
        memory::correct(nodes, self.tracked.values().filter_map(memory::Passage::of), pace, read);
        let speeds = &self.daemon.balance.speeds;
        speeds.retain(|id| nodes.contains_key(&id));
        let elapsed_ms = now.duration_since(self.corrected).as_secs_f64() * 1e3 * f64::from(pace);
        self.corrected = now;
        for (id, node) in nodes {
            let of_others_milli = self.foreign_load.of_others_milli(*id, node.load_milli, read(node));
            node.load_milli = of_others_milli.saturating_add(present.get(id).copied().unwrap_or(0));
            let resident_ms = |t: &Tracked| self.daemon.policy_ms(now.duration_since(t.came));
            let tells = |t: &&Tracked| t.going.is_none() && EffectiveSpeed::counts(t.demand_milli(), resident_ms(t));
            speeds.note(node, elapsed_ms, self.tracked.values().filter(|t| t.node == *id).filter(tells));
            node.speed_milli = speeds.corrected(*id, node.speed_milli);
            node.load_milli = of_others_milli.saturating_add(expected.get(id).copied().unwrap_or(0));
        }
    }

    fn mean_lag_ms(&self) -> f64 {
        let sum: f64 = self.tracked.values().map(|t| f64::from(t.lag.ms())).sum();
        sum / self.tracked.len().max(1) as f64
    }

    /// What one of them gets that wants a core.
    fn mean_rate(&self, nodes: &HashMap<u64, NodeView>) -> f64 {
        let there = self.demands(|t| t.node);
        mean_rate(nodes.values().map(|node| (node, f64::from(there.get(&node.id).copied().unwrap_or(0)) / 1e3)))
    }

    /// What they want by place.
    fn demands(&self, place: fn(&Tracked) -> u64) -> Demands {
        self.tracked.values().fold(Demands::new(), |mut sums, tracked| {
            *sums.entry(place(tracked)).or_default() += tracked.demand_milli();
            sums
        })
    }

    /// A node's lag is that of this home's processes there; the mean if it has none.
    fn fill_in_lags(&self, nodes: &mut HashMap<u64, NodeView>) {
        for (id, node) in nodes {
            let here = self.tracked.values().filter(|t| t.expected() == *id);
            let (sum, demand) =
                here.fold((0.0, 0.0), |(sum, demand), t| (sum + t.demand * f64::from(t.lag.ms()), demand + t.demand));
            node.lag_ms = if demand > 0.0 { sum / demand } else { self.mean.lag_ms } as i32;
        }
    }

    /// Decides for what is on one node; true if something is to move. Processes with root's rights
    /// are decided for apart: only nodes that the owner trusts with them are looked at.
    fn decide(&mut self, source: u64, round: &mut Round) -> bool {
        let (all, root_on) = (self.processes(source, round), round.settings.root_on.clone());
        if root_on == RootOn::All {
            return self.decide_among(source, round, all, None);
        }
        let (roots, users): (Vec<_>, Vec<_>) = all.into_iter().partition(has_power);
        let trusted = self.trusted(&root_on);
        self.decide_among(source, round, users, None) || self.decide_among(source, round, roots, Some(&trusted))
    }

    /// The nodes that are trusted with root's rights.
    fn trusted(&self, root_on: &RootOn) -> HashSet<u64> {
        let table = self.daemon.table();
        table.iter().filter(|k| root_on.includes(&k.member.name)).map(|k| k.member.id).collect()
    }

    /// The nodes to which the policy moves nothing, as root of this home says.
    fn unavailable(&self) -> HashSet<u64> {
        let (table, rights) = (self.daemon.table(), self.daemon.rights.table());
        let is_left_out = |name: &str| rights.get(name).is_some_and(|r| r.state == NodeState::Unavailable);
        table.iter().filter(|k| is_left_out(&k.member.name)).map(|k| k.member.id).collect()
    }

    /// Decides for some processes of one node, which may go to these nodes alone, if there is a
    /// restriction.
    fn decide_among(
        &mut self,
        source: u64,
        round: &mut Round,
        processes: Vec<ProcessView>,
        only: Option<&HashSet<u64>>,
    ) -> bool {
        let Some(own) = round.nodes.get(&source).copied() else { return false };
        if processes.is_empty() {
            return false;
        }
        let (now_ms, home) = (self.daemon.uptime_ms(), self.daemon.me().id);
        let of_owner = round.settings.home;
        let unavailable = self.unavailable();
        let may_host = |id: u64| match id {
            id if id == source || unavailable.contains(&id) => false,
            id if id == home => of_owner,
            id => only.is_none_or(|only| only.contains(&id)),
        };
        let others = round.nodes.values().filter(|n| may_host(n.id)).copied();
        let mover = self.movers.entry(source).or_default();
        let mut settings = round.settings.clone();
        settings.params = self.freeze.applied(settings.params, self.orders.is_any_under_way());
        mover.set(settings);
        let record = mover.consider(now_ms, own, processes, others);
        if !matches!(record.verdict, Verdict::Move(_)) {
            return false;
        }
        let Some((order, ask)) = mover.order(now_ms, &record, ORDER_MS) else { return false };
        let (demand_milli, memory_mib) = (ask.process.demand_milli, ask.process.memory_mib);
        let decision_ms = record.at_ms;
        self.daemon.policy.log(Entry::Decision(record));
        if !self.orders.give(source, order, ask, decision_ms) {
            return false;
        }
        if let Some(tracked) = i32::try_from(order.process).ok().and_then(|pid| self.tracked.get_mut(&pid)) {
            tracked.going = Some(order.to);
        }
        if let Some(node) = round.nodes.get_mut(&source) {
            node.load_milli = node.load_milli.saturating_sub(demand_milli);
            node.free_mib = node.free_mib.saturating_add(memory_mib).min(node.memory_mib);
        }
        if let Some(node) = round.nodes.get_mut(&order.to) {
            node.load_milli = node.load_milli.saturating_add(demand_milli);
            node.free_mib = node.free_mib.saturating_sub(memory_mib);
        }
        true
    }

    /// Who is there, and not about to leave.
    fn processes(&self, source: u64, round: &Round) -> Vec<ProcessView> {
        let now = Instant::now();
        let home = self.daemon.me().id;
        let failed_for = self.daemon.paced(FAILED_FOR);
        let here = self.tracked.iter().filter(|(_, t)| t.node == source && t.going.is_none());
        let ready = here.filter(|(_, t)| t.failed.is_none_or(|at| now.duration_since(at) > failed_for));
        let pin = |pid: i32| u32::try_from(pid).ok().and_then(|pid| self.daemon.pins.get(pid)).unwrap_or_default();
        let age_ms = |since: Instant| self.daemon.policy_ms(now.duration_since(since));
        ready.filter_map(|(pid, t)| Some(t.view(*pid, home, &round.movable.get(pid)?.1, pin(*pid), age_ms))).collect()
    }

    /// True if another node is to be asked at once.
    fn has_ended(&mut self, done: Done) -> bool {
        let Done { source, order, result } = done;
        let tracked = i32::try_from(order.process).ok().and_then(|pid| self.tracked.get_mut(&pid));
        let mover = self.movers.entry(source).or_default();
        match result {
            Ok(took) => {
                mover.ended(order.process);
                self.daemon.balance.moved.fetch_add(1, Ordering::Relaxed);
                self.freeze.note(self.daemon.policy_ms(took));
                if let Some(tracked) = tracked {
                    tracked.has_moved(order.to, Instant::now());
                }
                false
            }
            Err(e) => {
                tracing::info!("process {} is not moved: {}", order.process, e.chain());
                let asks_on = mover.was_refused(self.daemon.uptime_ms(), order.process, order.to, order.cause);
                let refused = matches!(e, Error::Refused { .. });
                if let Some(tracked) = tracked {
                    tracked.going = None;
                    tracked.failed = if refused { tracked.failed } else { Some(Instant::now()) };
                }
                asks_on && refused
            }
        }
    }
}

/// Whether a process has root's rights at home; also if it has ended.
fn has_power(process: &ProcessView) -> bool {
    let pid = i32::try_from(process.id).unwrap_or(0);
    !matches!(os::superuser::power_of(pid), Ok(None))
}
