//! A simulated node: processor sharing, and the state of its daemon.

use gossip::{Bounds, Draw, Partners, Window};
use policy::{EffectiveSpeed, LoadIndex, Mover, NodeView, Settings};

use crate::process::Process;
use crate::scenario::Nodes;

/// The most nodes in a daemon's window of readings.
const WINDOW: usize = 48;

/// A node's clock at the start, milliseconds. It is high enough to be set back by more than a run.
const CLOCK_MS: i64 = 100_000_000_000;

pub(crate) struct Node {
    pub alive: bool,
    /// Reading of the node's clock at the start of the run, milliseconds.
    pub clock_ms: i64,
    pub cores: f64,
    pub speed: f64,
    /// Share of the node that hidden work leaves.
    pub left_share: f64,
    pub earned: EffectiveSpeed,
    pub memory_mib: u32,
    pub processes: Vec<usize>,
    /// Version of the process set, raised by everything that changes when a process will end.
    pub version: u64,
    /// Time up to which the node's processes have been advanced.
    pub until_us: u64,
    /// Runnable seconds since the last tick, and the time of that tick.
    pub runnable_s: f64,
    pub ticked_us: u64,
    pub lag_ms: i32,
    /// Load and power that the node reports if it lies.
    pub lie: Option<(u32, u32)>,
    /// Time from which on the node should send a process away.
    pub uneven_from_us: u64,
    pub index: LoadIndex,
    pub window: Window<NodeView>,
    pub partners: Partners,
    pub mover: Mover,
    pub draw: Draw,
    /// Requests that are not answered yet.
    pub asked: Vec<PendingRequest>,
    pub asks_made: u64,
    /// Times at which processes arrived by moves.
    pub arrivals_us: Vec<u64>,
}

/// A request to a target that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingRequest {
    pub number: u64,
    pub process: usize,
    pub to: usize,
    pub cause: policy::Cause,
}

impl Node {
    pub fn new(nodes: &Nodes, settings: &Settings, seed: u64) -> Node {
        let bounds = Bounds { capacity: WINDOW, max_age_ms: settings.params.stale_ms.into() };
        Node {
            alive: true,
            clock_ms: CLOCK_MS,
            cores: nodes.cores,
            speed: nodes.speed,
            left_share: 1.0,
            earned: EffectiveSpeed::default(),
            memory_mib: nodes.memory_mib,
            processes: Vec::new(),
            version: 0,
            until_us: 0,
            runnable_s: 0.0,
            ticked_us: 0,
            lag_ms: 0,
            lie: None,
            uneven_from_us: 0,
            index: LoadIndex::default(),
            window: Window::new(bounds),
            partners: Partners::default(),
            mover: Mover::new(settings.clone()),
            draw: Draw::new(seed),
            asked: Vec::new(),
            asks_made: 0,
            arrivals_us: Vec::new(),
        }
    }

    pub fn runnable(&self, all: &[Process]) -> usize {
        self.processes.iter().filter(|p| all[**p].runs).count()
    }

    /// Computes the rate of one runnable process, reference seconds per second.
    pub fn rate(&self, runnable: usize) -> f64 {
        self.left_share * self.speed * (self.cores / runnable.max(1) as f64).min(1.0)
    }

    /// Advances the node's processes to `now_us`.
    pub fn advance(&mut self, all: &mut [Process], id: usize, call_us: u32, now_us: u64) {
        let elapsed_s = (now_us - self.until_us) as f64 / 1e6;
        self.until_us = now_us;
        if elapsed_s <= 0.0 {
            return;
        }
        let runnable = self.runnable(all);
        self.runnable_s += runnable as f64 * elapsed_s;
        let rate = self.rate(runnable);
        for process in &self.processes {
            let process = &mut all[*process];
            if process.runs {
                let done_s = elapsed_s * rate * process.nearness(id, call_us);
                process.left_s -= done_s;
                process.done_s += elapsed_s * rate;
                process.wanted_s += elapsed_s;
            }
        }
    }

    /// Computes when the next process ends if nothing changes.
    pub fn next_end_us(&self, all: &[Process], id: usize, call_us: u32) -> Option<u64> {
        let rate = self.rate(self.runnable(all));
        let lefts = self.processes.iter().map(|p| &all[*p]).filter(|p| p.runs && p.left_s.is_finite());
        let soonest = lefts.map(|p| p.left_s / (rate * p.nearness(id, call_us))).fold(f64::INFINITY, f64::min);
        soonest.is_finite().then(|| self.until_us + (soonest.max(0.0) * 1e6).ceil() as u64)
    }

    /// Adds (or takes off) runnable processes. The load then is what it would be if the change had
    /// been at the last tick.
    pub fn shift(&mut self, count: f64) {
        self.runnable_s += count * (self.until_us - self.ticked_us) as f64 / 1e6;
        self.index.shift(count);
    }

    pub fn free_mib(&self, all: &[Process]) -> u32 {
        let used = self.processes.iter().fold(0u32, |sum, p| sum.saturating_add(all[*p].memory_mib));
        self.memory_mib.saturating_sub(used)
    }
}
