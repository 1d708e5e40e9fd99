//! One run of the simulated processor.

use serde::Serialize;

use crate::model::parameters::{ParameterError, Parameters, to_us};
use crate::model::task::{Milestone, Task};
use crate::model::workload::{Arriving, Workload};
use crate::order::{Arrival, Entry, OrderList};
use crate::rule::{ArrivalRule, Mode};
use crate::spin::{Patience, Spin};

/// The most tasks that may wait for the processor.
const MOST_READY: usize = 50_000;

/// Why a simulation gave no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// A parameter is absurd.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// Tasks arrive much faster than the processor serves them.
    #[error("the processor is overloaded: {MOST_READY} tasks wait for it after {served} were served")]
    Overload {
        /// Tasks that were served until then.
        served: u32,
    },
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Dispatches of tasks for which messages waited, divided by the tasks for which messages
    /// waited at all dispatches: 1 if such a task never waited for another; 0 if no message ever
    /// waited.
    pub node_code: f64,
    /// How often a task was given the processor.
    pub dispatches: u64,
    /// How often an arrival took the processor from a task.
    pub preemptions: u64,
    /// How often a task blocked at a receive.
    pub blocks: u64,
    /// Time that tasks spun in vain, or until their message came, seconds.
    pub spun_s: f64,
    /// Mean time from the arrival of a local task to its end, seconds.
    pub local_response_s: f64,
    /// Mean time from the arrival of a distributed task to its end, seconds.
    pub distributed_response_s: f64,
    /// Time at which the last of the counted tasks ended, seconds.
    pub end_s: f64,
}

/// Simulates a processor until so many tasks are served. The same parameters give the same result.
///
/// # Errors
/// A parameter is absurd, or the processor is overloaded.
pub fn simulate(mode: Mode, parameters: &Parameters) -> Result<Outcome, SimulationError> {
    parameters.check()?;
    let mut run = Run::new(mode, parameters);
    while run.counts.served < parameters.nst {
        run.step()?;
    }
    Ok(run.outcome())
}

/// Sums over a run.
#[derive(Default)]
struct Counts {
    served: u32,
    dispatches: u64,
    with_messages: u64,
    candidates: u64,
    preemptions: u64,
    blocks: u64,
    spun_us: u64,
    local: Responses,
    distributed: Responses,
}

/// Times from the arrival of tasks to their end.
#[derive(Default)]
struct Responses {
    count: u64,
    sum_s: f64,
}

impl Responses {
    fn add(&mut self, response_us: u64) {
        self.count += 1;
        self.sum_s += response_us as f64 / 1e6;
    }

    fn mean_s(&self) -> f64 {
        self.sum_s / self.count.max(1) as f64
    }
}

/// Why a task stops running, if nothing arrives before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StretchEnd {
    SliceOver,
    SpinOver,
    Reached(Milestone),
}

/// The task that has the processor.
#[derive(Clone, Copy)]
struct Running {
    task: usize,
    slice_left_us: u64,
    spin: Option<Spin>,
}

struct Run<'a> {
    workload: Workload<'a>,
    rule: ArrivalRule,
    quantum_us: u64,
    spin_us: u64,
    tasks: Vec<Task>,
    order: OrderList<usize>,
    running: Option<Running>,
    now_us: u64,
    counts: Counts,
}

impl<'a> Run<'a> {
    fn new(mode: Mode, parameters: &'a Parameters) -> Run<'a> {
        Run {
            workload: Workload::new(parameters),
            rule: parameters.rule(mode),
            quantum_us: to_us(parameters.quantum_s).max(1),
            spin_us: parameters.spin_us(mode),
            tasks: Vec::new(),
            order: OrderList::default(),
            running: None,
            now_us: 0,
            counts: Counts::default(),
        }
    }

    /// Goes on to the end of a stretch of computation, or to the next arrival.
    fn step(&mut self) -> Result<(), SimulationError> {
        if self.running.is_none() {
            self.dispatch();
        }
        let arrival_us = self.workload.next_us();
        let stretch = self.running.map(|running| (running, self.stretch(running)));
        match stretch {
            Some((running, (length_us, end))) if self.now_us + length_us <= arrival_us => {
                self.run_for(length_us);
                self.end_stretch(running.task, end);
                Ok(())
            }
            _ => {
                self.run_for(arrival_us - self.now_us);
                match self.workload.take() {
                    Arriving::Message(task) => self.receive(task),
                    Arriving::Task(task) => self.admit(task)?,
                }
                Ok(())
            }
        }
    }

    /// Gives the processor to the head of the order list (Algorithm 1).
    fn dispatch(&mut self) {
        let candidates = self.order.candidates();
        let Some(dispatch) = self.order.dispatch() else { return };
        self.counts.dispatches += 1;
        self.counts.candidates += candidates as u64;
        self.counts.with_messages += u64::from(dispatch.drained > 0);
        self.tasks[dispatch.key].taken += dispatch.drained;
        self.running = Some(Running { task: dispatch.key, slice_left_us: self.quantum_us, spin: None });
    }

    /// Gives the time for which the running task goes on if nothing arrives, and what ends it.
    fn stretch(&self, running: Running) -> (u64, StretchEnd) {
        let (length_us, end) = match running.spin {
            Some(spin) => (spin.until_us().saturating_sub(self.now_us), StretchEnd::SpinOver),
            None => {
                let (length_us, milestone) = self.tasks[running.task].next_milestone();
                (length_us, StretchEnd::Reached(milestone))
            }
        };
        let slice_us = running.slice_left_us;
        if slice_us < length_us { (slice_us, StretchEnd::SliceOver) } else { (length_us, end) }
    }

    /// Lets time pass, which the running task uses.
    fn run_for(&mut self, elapsed_us: u64) {
        self.now_us += elapsed_us;
        let Some(running) = &mut self.running else { return };
        running.slice_left_us = running.slice_left_us.saturating_sub(elapsed_us);
        let task = &mut self.tasks[running.task];
        task.cpu_us += elapsed_us;
        match running.spin {
            Some(_) => self.counts.spun_us += elapsed_us,
            None => task.served_us += elapsed_us,
        }
        if let Some(head) = self.order.head_mut() {
            head.cpu_us = task.cpu_us;
        }
    }

    fn end_stretch(&mut self, task: usize, end: StretchEnd) {
        match end {
            StretchEnd::SliceOver => {
                self.order.rotate();
                self.running = None;
            }
            StretchEnd::SpinOver => self.block(task),
            StretchEnd::Reached(Milestone::ReceivePoint) => self.reach_receive_point(task),
            StretchEnd::Reached(Milestone::End) => self.finish(task),
        }
    }

    /// Has the task receive, spin or block.
    fn reach_receive_point(&mut self, number: usize) {
        let task = &mut self.tasks[number];
        if task.pass() {
            return;
        }
        // Messages that came while the task ran are in its queue still.
        if let Some(head) = self.order.head_mut() {
            task.taken += std::mem::take(&mut head.pending);
        }
        let has_message = task.pass();
        let spin = Spin::begin(self.now_us, self.spin_us);
        match (spin.poll(self.now_us, has_message), &mut self.running) {
            (Patience::Spin, Some(running)) => running.spin = Some(spin),
            (Patience::Block, _) => self.block(number),
            _ => {}
        }
    }

    fn block(&mut self, task: usize) {
        self.counts.blocks += 1;
        self.leave(task);
    }

    fn finish(&mut self, number: usize) {
        self.counts.served += 1;
        let task = &self.tasks[number];
        let response_us = self.now_us - task.created_us;
        let responses = if task.is_distributed { &mut self.counts.distributed } else { &mut self.counts.local };
        responses.add(response_us);
        self.leave(number);
    }

    fn leave(&mut self, task: usize) {
        self.tasks[task].is_ready = false;
        self.order.remove(task);
        self.running = None;
    }

    /// Takes a message for a task (Algorithm 2).
    fn receive(&mut self, number: usize) {
        let task = &mut self.tasks[number];
        if let Some(running) = &mut self.running
            && running.task == number
            && running.spin.take().is_some()
        {
            // The message that the task spins for: its queue is empty.
            task.taken += 1;
            task.pass();
            return;
        }
        if !task.is_ready {
            task.is_ready = true;
            self.order.push_new(Entry::new(number, task.cpu_us));
        }
        if self.order.deliver(number, self.rule) == Arrival::Preempts {
            self.counts.preemptions += 1;
            self.running = None;
        }
    }

    fn admit(&mut self, task: Task) -> Result<(), SimulationError> {
        if self.order.len() >= MOST_READY {
            return Err(SimulationError::Overload { served: self.counts.served });
        }
        self.order.push_new(Entry::new(self.tasks.len(), 0));
        self.tasks.push(task);
        Ok(())
    }

    fn outcome(&self) -> Outcome {
        let counts = &self.counts;
        Outcome {
            node_code: counts.with_messages as f64 / counts.candidates.max(1) as f64,
            dispatches: counts.dispatches,
            preemptions: counts.preemptions,
            blocks: counts.blocks,
            spun_s: counts.spun_us as f64 / 1e6,
            local_response_s: counts.local.mean_s(),
            distributed_response_s: counts.distributed.mean_s(),
            end_s: self.now_us as f64 / 1e6,
        }
    }
}
