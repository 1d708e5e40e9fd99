//! Moves running processes of this home as the policy says, if its owner has set `moves=on`; and judges what others want to move here.
//!
//! The home decides for its own: it alone knows how each of its processes gets on, wherever they are. The target has the last word.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::policy::{Ask, Entry, Lag, Move, Mover, NodeView, ProcessView, Refusal, Settings, Tie, Verdict};
use ctl::moves::Wish;
use ctl::peer::PeerRequest;
use ctl::steward::Guest;
use ctl::tool::{Hint, Pin};

use crate::daemon::{Daemon, lock};
use crate::dial::Session;
use crate::placed::Placed;
use crate::{Error, at_home, choice, moving, rooms};

/// Time between two rounds.
const EVERY: Duration = Duration::from_secs(1);
/// How long a promise to take a process holds: its load shows by then.
const PROMISE_MS: u64 = 5000;
/// How long an order may be under way before it is decided anew, milliseconds.
const ORDER_MS: u64 = 600_000;
/// A process that could not be moved is left alone for so long.
const FAILED_FOR: Duration = Duration::from_secs(60);
/// Moves over which their duration is smoothed, and the most that it counts, milliseconds.
const TOOK_MOVES: f64 = 4.0;
const TOOK_MAX_MS: f64 = 60_000.0;
/// Over which a process' wants and calls are smoothed, milliseconds.
const SMOOTHED_MS: f64 = 2000.0;

/// What the parts of the daemon share about moving.
#[derive(Default)]
pub(crate) struct Balance {
    /// Promises to others.
    guests: Mutex<Mover>,
    /// What the policy placed.
    pub(crate) placed: Placed,
}

impl Balance {
    pub(crate) fn load(run_dir: &Path) -> Balance {
        Balance { guests: Mutex::default(), placed: Placed::load(run_dir) }
    }

    /// Another node asks whether its process may come.
    pub(crate) fn admit(&self, daemon: &Daemon, from: u64, ask: &Ask) -> Result<(), Refusal> {
        let own = choice::view(daemon.me().id, &daemon.load(), 0);
        let mut mover = lock(&self.guests);
        mover.set(daemon.policy.settings());
        // Promises are kept by who asks and the process, whatever the request says of its source.
        let ask = Ask { from: NodeView { id: from, ..ask.from }, ..ask.clone() };
        mover.admit(daemon.uptime_ms(), own, &ask, PROMISE_MS)
    }
}

/// A process of this home.
struct Tracked {
    began: Instant,
    node: u64,
    came: Instant,
    came_from: Option<u64>,
    seen: Instant,
    cpu_us: u64,
    calls: u64,
    /// Calls that home makes for it, a second, smoothed.
    calls_per_s: f64,
    /// Share of time for which it wants a core, all threads together, smoothed.
    demand: f64,
    lag: Lag,
    moves: u32,
    /// Not to be tried until then.
    failed: Option<Instant>,
}

/// Starts the thread.
pub(crate) fn start(daemon: Arc<Daemon>) -> std::io::Result<()> {
    let work = move || {
        let mut rounds = Rounds { daemon, tracked: HashMap::new(), mover: Mover::default(), took_ms: 0.0 };
        loop {
            std::thread::sleep(rounds.daemon.paced(EVERY));
            rounds.round();
        }
    };
    std::thread::Builder::new().name("balance".into()).stack_size(512 << 10).spawn(work).map(drop)
}

struct Rounds {
    daemon: Arc<Daemon>,
    tracked: HashMap<i32, Tracked>,
    mover: Mover,
    /// What moves took lately, smoothed, milliseconds: none is expected to take less.
    took_ms: f64,
}

impl Rounds {
    fn round(&mut self) {
        if let Err(e) = self.daemon.balance.placed.save() {
            tracing::warn!("what the policy placed is not remembered: {e}");
        }
        let settings = self.daemon.policy.settings();
        if !settings.moves {
            return self.tracked.clear();
        }
        let of_owner = settings.clone();
        // Whether guests are taken here says nothing about where this home's processes may be.
        let mut settings = Settings { guests: true, ..settings };
        settings.params.move_ms = settings.params.move_ms.max(self.took_ms.min(TOOK_MAX_MS) as u32);
        self.mover.set(settings);
        let mut nodes = self.nodes();
        let movable = self.movable(&nodes, &of_owner);
        // Home is looked at as where they are, not as where they may go: they are away because somebody wanted them to be.
        let home = self.daemon.me().id;
        nodes.insert(home, choice::view(home, &self.daemon.load(), 0));
        self.track(&movable, &nodes);
        self.fill_in_lags(&mut nodes);
        let mut sources: Vec<u64> = self.tracked.values().map(|t| t.node).collect();
        sources.sort_unstable();
        sources.dedup();
        for source in sources {
            self.decide(source, &movable, &nodes);
        }
    }

    /// Living nodes whose load is known, by id.
    fn nodes(&self) -> HashMap<u64, NodeView> {
        let (table, now) = (self.daemon.table(), Instant::now());
        let alive = table.iter().filter(|k| k.alive).map(|k| k.member.id);
        let view = |id| {
            let (load, age) = table.load(id, now)?;
            let age_ms = u32::try_from(self.daemon.policy_ms(age)).unwrap_or(u32::MAX);
            Some((id, NodeView { age_ms, ..choice::view(id, &load, 0) }))
        };
        alive.filter_map(view).collect()
    }

    /// Processes of this home that the policy may move, and where they are.
    fn movable(&self, nodes: &HashMap<u64, NodeView>, settings: &Settings) -> HashMap<i32, (u64, Guest)> {
        let (mut found, mut away) = (HashMap::new(), HashSet::new());
        let placed = &self.daemon.balance.placed;
        for (_, steward) in rooms::stewards(&self.daemon.options.run_dir) {
            let Ok((name, true, guests)) = steward.list() else { continue };
            away.extend(guests.iter().map(|g| g.pid));
            let Ok(member) = self.daemon.living(&name) else { continue };
            if nodes.contains_key(&member.id) {
                found.extend(guests.into_iter().filter(|g| placed.has(g.pid)).map(|g| (g.pid, (member.id, g))));
            }
        }
        let home = self.daemon.me().id;
        found.extend(at_home::processes(settings, placed, &away).into_iter().map(|g| (g.pid, (home, g))));
        found
    }

    fn track(&mut self, away: &HashMap<i32, (u64, Guest)>, nodes: &HashMap<u64, NodeView>) {
        let now = Instant::now();
        self.tracked.retain(|pid, _| away.contains_key(pid));
        let mean_ms = self.mean_lag_ms();
        let scale_ms = f64::from(self.mover.params().lag_scale_ms);
        let home = self.daemon.me().id;
        for (pid, (node, guest)) in away {
            let speed = nodes.get(node).map_or(1.0, |n| f64::from(n.speed_milli) / 1e3);
            let tracked = self.tracked.entry(*pid).or_insert_with(|| Tracked {
                // What runs at home has not begun just now: what waits there need not be about to work.
                demand: if *node == home && guest.state != 'R' { 0.0 } else { 1.0 },
                ..Tracked::new(*node, guest, mean_ms, now)
            });
            if tracked.node != *node {
                (tracked.came_from, tracked.node, tracked.came) = (Some(tracked.node), *node, now);
                tracked.moves += 1;
            }
            tracked.look(guest, speed, (mean_ms, scale_ms), f64::from(self.daemon.options.pace), now);
        }
    }

    fn mean_lag_ms(&self) -> f64 {
        let sum: f64 = self.tracked.values().map(|t| f64::from(t.lag.ms())).sum();
        sum / self.tracked.len().max(1) as f64
    }

    /// A node's lag is that of this home's processes there; the mean if it has none.
    fn fill_in_lags(&self, nodes: &mut HashMap<u64, NodeView>) {
        let mean_ms = self.mean_lag_ms();
        for (id, node) in nodes {
            let here = self.tracked.values().filter(|t| t.node == *id);
            let (sum, demand) =
                here.fold((0.0, 0.0), |(sum, demand), t| (sum + t.demand * f64::from(t.lag.ms()), demand + t.demand));
            node.lag_ms = if demand > 0.0 { sum / demand } else { mean_ms } as i32;
        }
    }

    /// Decides for what is on one node, and does it.
    fn decide(&mut self, source: u64, away: &HashMap<i32, (u64, Guest)>, nodes: &HashMap<u64, NodeView>) {
        let Some(own) = nodes.get(&source).copied() else { return };
        let now = Instant::now();
        let home = self.daemon.me().id;
        let here = self.tracked.iter().filter(|(_, t)| t.node == source);
        let failed_for = self.daemon.paced(FAILED_FOR);
        let ready = here.filter(|(_, t)| t.failed.is_none_or(|at| now.duration_since(at) > failed_for));
        let pin = |pid: i32| u32::try_from(pid).ok().and_then(|pid| self.daemon.pins.get(pid)).unwrap_or_default();
        let age_ms = |since: Instant| self.daemon.policy_ms(now.duration_since(since));
        let processes: Vec<ProcessView> =
            ready.filter_map(|(pid, t)| Some(t.view(*pid, home, &away.get(pid)?.1, pin(*pid), age_ms))).collect();
        if processes.is_empty() {
            return;
        }
        let now_ms = self.daemon.uptime_ms();
        let others = nodes.values().filter(|n| n.id != source && n.id != home).copied();
        let record = self.mover.consider(now_ms, own, processes, others);
        if !matches!(record.verdict, Verdict::Move(_)) {
            return;
        }
        let Some((order, ask)) = self.mover.order(now_ms, &record, ORDER_MS) else { return };
        self.daemon.policy.log(Entry::Decision(record));
        match self.carry_out(&order, ask) {
            Ok(()) => self.mover.ended(order.process),
            Err(e) => {
                tracing::info!("process {} is not moved: {}", order.process, e.chain());
                self.mover.was_refused(self.daemon.uptime_ms(), order.process, order.to);
                let failed = !matches!(e, Error::Refused { .. });
                let tracked = i32::try_from(order.process).ok().and_then(|pid| self.tracked.get_mut(&pid));
                if let Some(tracked) = tracked.filter(|_| failed) {
                    tracked.failed = Some(Instant::now());
                }
            }
        }
    }

    fn carry_out(&mut self, order: &Move, ask: Ask) -> Result<(), Error> {
        let pid = i32::try_from(order.process).unwrap_or(0);
        let target = self.daemon.table().iter().find(|k| k.member.id == order.to).map(|k| k.member.clone());
        let Some(target) = target else {
            return moving::relocate_unasked(&self.daemon, pid, None, Wish::default()).map(drop);
        };
        let daemon = Arc::clone(&self.daemon);
        self.daemon.runtime.block_on(async {
            let mut session = Session::open(&daemon, &target).await?;
            session.ask(&PeerRequest::Admit { ask }).await
        })?;
        let start = Instant::now();
        moving::relocate_unasked(&self.daemon, pid, Some(&target.name), Wish::default())?;
        let took = start.elapsed();
        self.took_ms += (self.daemon.policy_ms(took) as f64 - self.took_ms) / TOOK_MOVES;
        tracing::info!("process {pid} moved to {} in {took:?} ({:?})", target.name, order.cause);
        Ok(())
    }
}

impl Tracked {
    fn new(node: u64, guest: &Guest, mean_ms: f64, now: Instant) -> Tracked {
        Tracked {
            began: now,
            node,
            came: now,
            came_from: None,
            seen: now,
            cpu_us: guest.cpu_us,
            calls: guest.calls,
            calls_per_s: 0.0,
            demand: 1.0,
            lag: Lag::of_newcomer(mean_ms as i32),
            moves: 0,
            failed: None,
        }
    }

    /// Takes over what the room says of it now. Who waits for a core is runnable as who has one.
    fn look(&mut self, guest: &Guest, speed: f64, (mean_ms, scale_ms): (f64, f64), pace: f64, now: Instant) {
        let elapsed_ms = now.duration_since(self.seen).as_secs_f64() * 1e3 * pace;
        if elapsed_ms < 1.0 {
            return;
        }
        // After a move its new body counts from what it has used there.
        let used_ms = guest.cpu_us.saturating_sub(self.cpu_us) as f64 / 1e3 * pace;
        let runs = if guest.state == 'R' { 1.0 } else { 0.0 };
        let wanted = (used_ms / elapsed_ms).clamp(runs, f64::from(guest.threads.max(1)));
        self.demand += (wanted - self.demand) * (1.0 - (-elapsed_ms / SMOOTHED_MS).exp());
        self.lag.advance(elapsed_ms, wanted * elapsed_ms, used_ms * speed, mean_ms, scale_ms);
        let called = guest.calls.saturating_sub(self.calls) as f64 * 1e3 * pace / elapsed_ms;
        self.calls_per_s += (called - self.calls_per_s) * (1.0 - (-elapsed_ms / SMOOTHED_MS).exp());
        (self.seen, self.cpu_us, self.calls) = (now, guest.cpu_us, guest.calls);
    }

    fn view(&self, pid: i32, home: u64, guest: &Guest, pin: Pin, ms: impl Fn(Instant) -> u64) -> ProcessView {
        let memory_mib = u32::try_from(guest.rss_bytes >> 20).unwrap_or(u32::MAX);
        ProcessView {
            id: u64::try_from(pid).unwrap_or(0),
            home,
            age_ms: ms(self.began),
            resident_ms: ms(self.came),
            demand_milli: (self.demand * 1000.0) as u32,
            lag_ms: self.lag.ms(),
            memory_mib,
            carried_mib: memory_mib,
            moves: self.moves,
            came_from: self.came_from,
            ties: vec![Tie { node: home, calls_per_s: self.calls_per_s as u32 }],
            pinned: pin.stay || guest.state == 'T',
            prefer_home: pin.prefer_home,
            hint: match pin.hint {
                Hint::None => ::policy::Hint::None,
                Hint::Cpu => ::policy::Hint::Cpu,
                Hint::Io => ::policy::Hint::Io,
            },
            in_scope: true,
        }
    }
}
