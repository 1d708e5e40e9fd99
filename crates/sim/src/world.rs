//! A run: the cluster, its clock, and the counts.

use gossip::Draw;
use serde::Serialize;

use crate::background::{Rhythm, processes};
use crate::event::{Event, Queue};
use crate::machine::Node;
use crate::process::{Process, ProcessPlace};
use crate::scenario::{Scenario, ScenarioError, Strategy};

/// The time between two samples, microseconds.
pub(crate) const SAMPLE_US: u64 = 1_000_000;

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Number of messages sent.
    pub messages: u64,
    /// Estimated bytes of pulses.
    pub pulse_bytes: u64,
    /// Moves that arrived.
    pub moves: u64,
    /// Failed moves, after which the process resumed where it was.
    pub failed: u64,
    /// Requests that the target refused.
    pub refused: u64,
    /// Moves back to the node just left, within five seconds.
    pub returns: u64,
    /// Decisions made by all nodes.
    pub decisions: u64,
    /// Node-seconds in which processes occupied more memory than the node has.
    pub swapped_s: u64,
    /// Seconds at which two nodes differed by two processes or more.
    pub uneven_s: u64,
    /// The last of these seconds, from the start.
    pub last_uneven_s: u64,
    /// The longest time for which one node should have sent a process away although nothing else
    /// changed, seconds. Measured from ten seconds after a change on.
    pub unsettled_s: u64,
    /// The most arrivals by moves that one node had within three seconds, beyond its cores.
    pub crowd_max: i64,
}

/// A process at the end of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ended {
    /// Time at which the process began, seconds from the start.
    pub begun_s: f64,
    /// Work of the process, reference seconds.
    pub work_s: f64,
    /// Time at which the process ended, seconds from the start; `None` if the run ended first or
    /// the node died.
    pub ended_s: Option<f64>,
    /// Whether the process died with a node.
    pub killed: bool,
    /// Number of its moves.
    pub moves: u32,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Time from the start of the first job to the end of the last, seconds; the limit if a job did
    /// not end.
    pub makespan_s: f64,
    /// Mean of time over work of the jobs that ended.
    pub slowdown: f64,
    /// Number of nodes.
    pub nodes: usize,
    /// Simulated time, seconds.
    pub seconds: f64,
    /// The counts of the run.
    pub counts: Counts,
    /// The jobs, without the background.
    pub jobs: Vec<Ended>,
    /// Rate of a background process, reference seconds for each second in which it wanted to run;
    /// `None` if there is none or nothing was measured.
    pub background_rate: Option<f64>,
    /// Processes that are on no node or on two: a defect.
    pub astray: usize,
}

pub(crate) struct World {
    pub scenario: Scenario,
    pub strategy: Strategy,
    pub now_us: u64,
    pub queue: Queue,
    pub draw: Draw,
    pub nodes: Vec<Node>,
    pub processes: Vec<Process>,
    pub rhythms: Vec<Option<Rhythm>>,
    /// Nodes that are known to be alive.
    pub members: Vec<usize>,
    pub is_member: Vec<bool>,
    pub cuts: Vec<usize>,
    /// Time of the last change that the policy did not make.
    pub disturbed_us: u64,
    pub counts: Counts,
    pub jobs_left: usize,
    pub next_static: usize,
    pub call_us: u32,
}

/// Runs a scenario with a strategy.
///
/// # Errors
/// A policy setting of the scenario is refused.
pub fn run(scenario: &Scenario, strategy: Strategy, seed: u64) -> Result<Outcome, ScenarioError> {
    let mut world = World::new(scenario.clone(), strategy, seed)?;
    let limit_us = (scenario.limit_s * 1e6) as u64;
    while world.jobs_left > 0 || scenario.jobs.is_empty() {
        match world.queue.next() {
            Some((at_us, event)) if at_us <= limit_us => {
                world.now_us = at_us;
                world.happen(event);
            }
            _ => break,
        }
    }
    Ok(world.outcome(limit_us))
}

impl World {
    fn new(scenario: Scenario, strategy: Strategy, seed: u64) -> Result<World, ScenarioError> {
        let mut settings = scenario.settings()?;
        if strategy == Strategy::Opportunity {
            settings.params.mode = policy::Mode::Opportunity;
        }
        let mut draw = Draw::new(seed);
        let mut nodes = Vec::new();
        for kind in &scenario.nodes {
            nodes.extend((0..kind.count).map(|_| Node::new(kind, &settings, draw.bits())));
        }
        let mut queue = Queue::default();
        let mut all = Vec::new();
        let mut rhythms = Vec::new();
        for (number, (at_us, process)) in processes(&scenario, seed).into_iter().enumerate() {
            queue.add(at_us, Event::Start { process: number });
            rhythms.push(process.rhythm.map(|longest| Rhythm::new(seed, number, longest)));
            all.push(process);
        }
        if strategy != Strategy::Static {
            (0..nodes.len()).for_each(|node| queue.add(draw.below(1_000_000) as u64, Event::Tick { node }));
        }
        for (index, fault) in scenario.faults.iter().enumerate() {
            queue.add(fault.begins_us(), Event::Fault { index, begins: true });
        }
        queue.add(SAMPLE_US, Event::Sample);
        let count = nodes.len();
        Ok(World {
            strategy,
            now_us: 0,
            queue,
            draw,
            nodes,
            jobs_left: all.iter().filter(|p| p.rhythm.is_none()).count(),
            processes: all,
            rhythms,
            members: (0..count).collect(),
            is_member: vec![true; count],
            cuts: Vec::new(),
            disturbed_us: 0,
            counts: Counts::default(),
            next_static: 0,
            call_us: settings.params.call_us,
            scenario,
        })
    }

    /// Gives the time by this node's clock.
    pub fn now_ms(&self, node: usize) -> u64 {
        (self.now_us / 1000).saturating_add_signed(self.nodes[node].clock_ms)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick { node } => self.tick(node),
            Event::Message { from, to, message } => self.receive(from, to, *message),
            Event::Finish { node, version } => self.finish(node, version),
            Event::Start { process } => self.start(process),
            Event::Placed { process, node } => self.placed(process, node),
            Event::Arrive { process, to } => self.arrive(process, to),
            Event::Toggle { process } => self.toggle(process),
            Event::Fault { index, begins } => self.fault(index, begins),
            Event::GiveUp { node, ask } => self.give_up(node, ask),
            Event::Forget { node } => self.forget(node),
            Event::Sample => self.sample(),
        }
    }

    /// Advances a node to the present time.
    pub fn advance(&mut self, node: usize) {
        self.nodes[node].advance(&mut self.processes, node, self.call_us, self.now_us);
    }

    /// Plans the end of the node's next process anew after its processes have changed.
    pub fn changed(&mut self, node: usize) {
        let version = self.nodes[node].version + 1;
        self.nodes[node].version = version;
        if let Some(at_us) = self.nodes[node].next_end_us(&self.processes, node, self.call_us) {
            self.queue.add(at_us.max(self.now_us), Event::Finish { node, version });
        }
    }

    /// Puts a process on a node. On a dead node the process dies.
    pub fn put(&mut self, process: usize, node: usize) {
        if !self.nodes[node].alive {
            return self.end(process, ProcessPlace::Killed);
        }
        self.advance(node);
        self.nodes[node].processes.push(process);
        if self.processes[process].runs {
            self.nodes[node].shift(1.0);
        }
        self.processes[process].place = ProcessPlace::On(node);
        self.processes[process].came_us = self.now_us;
        self.changed(node);
    }

    /// Takes a process off its node, after advancing the node to the present time.
    pub fn take(&mut self, process: usize) -> Option<usize> {
        let ProcessPlace::On(node) = self.processes[process].place else { return None };
        self.advance(node);
        self.nodes[node].processes.retain(|p| *p != process);
        if self.processes[process].runs {
            self.nodes[node].shift(-1.0);
        }
        self.processes[process].place = ProcessPlace::Nowhere;
        self.changed(node);
        Some(node)
    }

    pub fn end(&mut self, process: usize, place: ProcessPlace) {
        let process = &mut self.processes[process];
        if matches!(process.place, ProcessPlace::Ended | ProcessPlace::Killed) {
            return;
        }
        process.place = place;
        process.ended_us = (place == ProcessPlace::Ended).then_some(self.now_us);
        if process.rhythm.is_none() {
            self.jobs_left -= 1;
        }
    }

    fn finish(&mut self, node: usize, version: u64) {
        if self.nodes[node].version != version {
            return;
        }
        self.advance(node);
        let done: Vec<usize> =
            self.nodes[node].processes.iter().copied().filter(|p| self.processes[*p].left_s <= 1e-6).collect();
        for process in done {
            self.disturbed_us = self.now_us;
            self.nodes[node].processes.retain(|p| *p != process);
            self.nodes[node].shift(-1.0);
            self.end(process, ProcessPlace::Ended);
        }
        self.changed(node);
    }

    fn toggle(&mut self, process: usize) {
        if matches!(self.processes[process].place, ProcessPlace::Ended | ProcessPlace::Killed) {
            return;
        }
        let place = self.processes[process].place;
        if let ProcessPlace::On(node) = place {
            self.advance(node);
        }
        self.disturbed_us = self.now_us;
        self.processes[process].runs = !self.processes[process].runs;
        if let ProcessPlace::On(node) = place {
            self.changed(node);
        }
        self.schedule_toggle(process);
    }

    pub fn schedule_toggle(&mut self, process: usize) {
        if let Some(after_s) = self.rhythms[process].as_mut().and_then(Rhythm::next) {
            self.queue.add(self.now_us + (after_s * 1e6) as u64 + 1, Event::Toggle { process });
        }
    }

    fn sample(&mut self) {
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for node in self.nodes.iter_mut().filter(|n| n.alive) {
            let per_core = node.runnable(&self.processes) as f64 / node.cores.max(1.0);
            (least, most) = (least.min(per_core), most.max(per_core));
            if node.free_mib(&self.processes) == 0 {
                self.counts.swapped_s += 1;
            }
            let window_us = self.now_us.saturating_sub(3_000_000);
            node.arrivals_us.retain(|at_us| *at_us >= window_us);
        }
        if most - least >= 2.0 {
            self.counts.uneven_s += 1;
            self.counts.last_uneven_s = self.now_us / 1_000_000;
        }
        self.watch_settling();
        self.queue.add(self.now_us + SAMPLE_US, Event::Sample);
    }

    fn outcome(&self, limit_us: u64) -> Outcome {
        let seconds = |us: u64| us as f64 / 1e6;
        let jobs = self.processes.iter().filter(|p| p.rhythm.is_none()).map(|p| Ended {
            begun_s: seconds(p.begun_us),
            work_s: p.work_s,
            ended_s: p.ended_us.map(seconds),
            killed: p.place == ProcessPlace::Killed,
            moves: p.moves,
        });
        let jobs: Vec<Ended> = jobs.collect();
        let unfinished = jobs.iter().any(|j| j.ended_s.is_none() && !j.killed);
        let first = jobs.iter().map(|j| j.begun_s).fold(f64::INFINITY, f64::min);
        let last = jobs.iter().filter_map(|j| j.ended_s).fold(0.0, f64::max);
        let stretched = jobs.iter().filter_map(|j| Some((j.ended_s? - j.begun_s) / j.work_s.max(1e-3)));
        let stretched: Vec<f64> = stretched.collect();
        Outcome {
            makespan_s: if unfinished { seconds(limit_us) } else { (last - first).max(0.0) },
            slowdown: stretched.iter().sum::<f64>() / stretched.len().max(1) as f64,
            nodes: self.nodes.len(),
            seconds: seconds(self.now_us),
            counts: self.counts,
            jobs,
            background_rate: self.background_rate(),
            astray: self.astray(),
        }
    }

    fn background_rate(&self) -> Option<f64> {
        let background = self.processes.iter().filter(|p| p.rhythm.is_some());
        let (done_s, wanted_s) = background
            .fold((0.0, 0.0), |(done_s, wanted_s), p| (done_s + p.done_in_all_s, wanted_s + p.wanted_in_all_s));
        (wanted_s > 0.0).then(|| done_s / wanted_s)
    }

    /// Counts the processes that should be on one node but are on none or on two.
    fn astray(&self) -> usize {
        let mut seen = vec![0usize; self.processes.len()];
        self.nodes.iter().flat_map(|n| &n.processes).for_each(|p| seen[*p] += 1);
        let wrong = |(id, process): &(usize, &Process)| match process.place {
            ProcessPlace::On(node) => seen[*id] != 1 || !self.nodes[node].processes.contains(id),
            ProcessPlace::Nowhere | ProcessPlace::Moving { .. } | ProcessPlace::Ended | ProcessPlace::Killed => {
                seen[*id] != 0
            }
        };
        self.processes.iter().enumerate().filter(wrong).count()
    }
}
