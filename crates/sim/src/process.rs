//! A simulated process.

use crate::background::Longest;
use policy::{Lag, Mean, NodeView, ProcessView, Tie};

/// The place of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessPlace {
    /// The process has not begun.
    Nowhere,
    /// The process is on this node.
    On(usize),
    /// The process is frozen between two nodes.
    Moving { from: usize },
    /// The process has ended.
    Ended,
    /// The process died with its node.
    Killed,
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub home: usize,
    pub place: ProcessPlace,
    /// Work left, reference seconds; infinite for the background.
    pub left_s: f64,
    pub work_s: f64,
    pub memory_mib: u32,
    pub calls_per_s: u32,
    pub movable: bool,
    pub runs: bool,
    pub begun_us: u64,
    pub came_us: u64,
    /// Time at which the last move began.
    pub went_us: u64,
    pub ended_us: Option<u64>,
    pub moves: u32,
    pub lag: Lag,
    /// Time of the last tick.
    pub ticked_us: u64,
    /// Since the last tick: seconds that the process wanted, and reference seconds that it got.
    pub wanted_s: f64,
    pub done_s: f64,
    /// Since the process began: seconds that it wanted, and reference seconds that it got.
    pub wanted_in_all_s: f64,
    pub done_in_all_s: f64,
    /// Share of time for which the process wants a core, smoothed.
    pub demand: f64,
    /// The same share between the last two ticks.
    pub wanted_lately: f64,
    /// The node that the process left last, and when.
    pub left: Option<(usize, u64)>,
    /// The longest run and pause of a background process.
    pub rhythm: Option<Longest>,
}

impl Process {
    pub fn new(home: usize, work_s: f64) -> Process {
        Process {
            home,
            place: ProcessPlace::Nowhere,
            left_s: work_s,
            work_s,
            memory_mib: 10,
            calls_per_s: 0,
            movable: true,
            runs: true,
            begun_us: 0,
            came_us: 0,
            went_us: 0,
            ended_us: None,
            moves: 0,
            lag: Lag::default(),
            ticked_us: 0,
            wanted_s: 0.0,
            done_s: 0.0,
            wanted_in_all_s: 0.0,
            done_in_all_s: 0.0,
            demand: 1.0,
            wanted_lately: 1.0,
            left: None,
            rhythm: None,
        }
    }

    /// Gives the speed of the process on this node, against a process that makes no calls.
    pub fn nearness(&self, node: usize, call_us: u32) -> f64 {
        if node == self.home { 1.0 } else { 1.0 / (1.0 + f64::from(self.calls_per_s) * f64::from(call_us) / 1e6) }
    }

    pub fn view(&self, id: usize, now_us: u64) -> ProcessView {
        let ties = match self.calls_per_s {
            0 => Vec::new(),
            calls_per_s => vec![Tie { node: self.home as u64, calls_per_s }],
        };
        ProcessView {
            id: id as u64,
            home: self.home as u64,
            age_ms: (now_us - self.begun_us) / 1000,
            resident_ms: (now_us - self.came_us) / 1000,
            demand_milli: (self.demand.min(self.wanted_lately) * 1000.0) as u32,
            lag_ms: self.lag.ms(),
            memory_mib: self.memory_mib,
            carried_mib: self.memory_mib,
            moves: self.moves,
            came_from: self.left.map(|(node, _)| node as u64),
            ties,
            in_scope: self.movable,
            ..ProcessView::default()
        }
    }

    /// Takes over all that happened since the last tick.
    pub fn tick(&mut self, now_us: u64, all: Mean, scale_ms: f64) {
        let elapsed_s = (now_us - self.ticked_us) as f64 / 1e6;
        if elapsed_s <= 0.0 {
            return;
        }
        let wanted = (self.wanted_s / elapsed_s).min(1.0);
        let step = 1.0 - (-elapsed_s / 2.0).exp();
        self.demand += (wanted - self.demand) * step;
        self.wanted_lately = wanted;
        self.lag.advance(elapsed_s * 1e3, self.wanted_s * 1e3, self.done_s * 1e3, all, scale_ms);
        self.wanted_in_all_s += self.wanted_s;
        self.done_in_all_s += self.done_s;
        (self.wanted_s, self.done_s, self.ticked_us) = (0.0, 0.0, now_us);
    }
}

/// Computes the mean lag over the known nodes, weighted by load; 0 if nothing runs anywhere.
pub(crate) fn mean_lag_ms(known: impl Iterator<Item = NodeView>) -> f64 {
    let (sum, load) = known.fold((0.0, 0.0), |(sum, load), n| {
        let weight = f64::from(n.load_milli);
        (sum + weight * f64::from(n.lag_ms), load + weight)
    });
    if load > 0.0 { sum / load } else { 0.0 }
}
