//! DYNAMIC and SDCA: tasks that are preferred because messages have come for them.
//!
//! Each processor has an order of the tasks that ran there last (`cosched::Processor`). Sockets
//! tell of messages ([`sockets`]). Of each processor at most one task is preferred at a time, for a
//! quantum at most, and until it waits.

mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::BorrowedFd;

use cosched::{ArrivalRule, Member, ProcessKey, Processor, ProcessorSettings, TaskId};

use super::members::Threads;
use super::missing::{Missing, prefer};
use crate::levers::{Boost, Thread};
use sockets::Sockets;

/// While a task is preferred, it is looked at so often whether it waits, microseconds.
const CHECK_US: u64 = 1_000;

/// The tasks of a job with their threads.
pub type Tasks = BTreeMap<ProcessKey, Threads>;

/// The processor of a task, and its CPU time until the last look.
#[derive(Clone, Copy, Debug)]
struct Place {
    processor: usize,
    cpu_us: u64,
}

/// The orders of all processors, for one job.
#[derive(Debug)]
pub struct ByArrivals {
    settings: ProcessorSettings,
    sockets: Sockets,
    processors: BTreeMap<usize, Processor>,
    places: BTreeMap<ProcessKey, Place>,
    boost: Boost,
    /// The task that is preferred on each processor.
    preferred: BTreeMap<usize, ProcessKey>,
    /// Messages, or groups of such that came at once.
    pub arrivals: u64,
    /// How often a task was preferred.
    pub preferences: u64,
}

impl ByArrivals {
    /// Starts without a task. `local_share` is in thousandths.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new(rule: ArrivalRule, local_share: u32) -> io::Result<ByArrivals> {
        Ok(ByArrivals {
            settings: ProcessorSettings { rule, local_share, ..ProcessorSettings::default() },
            sockets: Sockets::new()?,
            processors: BTreeMap::new(),
            places: BTreeMap::new(),
            boost: Boost::Nice,
            preferred: BTreeMap::new(),
            arrivals: 0,
            preferences: 0,
        })
    }

    /// Gives a descriptor that is readable when messages have come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.sockets.fd()
    }

    /// Follows tasks that have come or gone, and their sockets. `real_time`: tasks may be preferred
    /// by real time.
    pub fn look(&mut self, tasks: &Tasks, real_time: bool, now_us: u64) {
        let gone: Vec<ProcessKey> = self.places.keys().filter(|task| !tasks.contains_key(task)).copied().collect();
        gone.into_iter().for_each(|task| self.forget(task, now_us));
        self.sockets.look(tasks.keys());
        self.boost = Boost::of_tasks(real_time, tasks.keys());
        for task in tasks.keys() {
            self.note_state(*task, now_us);
        }
        self.note_use(now_us);
    }

    /// Tells whether the kernel does not let the agent see messages of some task.
    pub fn is_blind(&self) -> bool {
        self.sockets.is_refused()
    }

    fn forget(&mut self, task: ProcessKey, now_us: u64) {
        let place = self.places.remove(&task);
        if let Some(processor) = place.and_then(|place| self.processors.get_mut(&place.processor)) {
            processor.forget(id(task), now_us);
        }
    }

    /// Finds the processor on which a task ran last, where it is registered from now on. `None`:
    /// the task has gone.
    fn place(&mut self, task: ProcessKey, now_us: u64) -> Option<(usize, char)> {
        let line = os::process::line(task.pid).ok().filter(|line| line.began == task.began)?;
        if self.places.get(&task).is_none_or(|place| place.processor != line.processor) {
            let cpu_us = self.places.get(&task).map_or(0, |place| place.cpu_us);
            self.forget(task, now_us);
            let new = || Processor::new(self.settings, now_us).ok();
            let processor = match self.processors.entry(line.processor) {
                std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::btree_map::Entry::Vacant(vacant) => vacant.insert(new()?),
            };
            processor.register(id(task), now_us).ok()?;
            self.places.insert(task, Place { processor: line.processor, cpu_us });
        }
        Some((line.processor, line.state))
    }

    /// Notes whether a task waits.
    fn note_state(&mut self, task: ProcessKey, now_us: u64) {
        let Some((processor, state)) = self.place(task, now_us) else { return };
        let Some(processor) = self.processors.get_mut(&processor) else { return };
        if state == 'R' {
            processor.ready(id(task), now_us);
        } else {
            processor.blocked(id(task), now_us);
        }
    }

    /// Notes the CPU time that each task has used since the last time.
    fn note_use(&mut self, now_us: u64) {
        for (task, place) in &mut self.places {
            let Ok(cpu_us) = os::process::cpu_us(task.pid) else { continue };
            let ran_us = cpu_us.saturating_sub(place.cpu_us);
            let is_first = std::mem::replace(&mut place.cpu_us, cpu_us) == 0;
            if let Some(processor) = self.processors.get_mut(&place.processor).filter(|_| !is_first) {
                processor.ran(Member::Task(id(*task)), ran_us, now_us);
            }
        }
    }

    /// Applies the rule to messages that have come, and ends what is over. Changes the priorities
    /// of tasks accordingly. Gives what the machine does not allow.
    pub fn step(&mut self, tasks: &Tasks, now_us: u64) -> BTreeSet<Missing> {
        for task in self.sockets.arrived() {
            self.arrivals += 1;
            if let Some((processor, _)) = self.place(task, now_us)
                && let Some(processor) = self.processors.get_mut(&processor)
            {
                processor.arrived(id(task), now_us);
            }
        }
        let preferred: Vec<ProcessKey> = self.preferred.values().copied().collect();
        preferred.into_iter().for_each(|task| self.note_state(task, now_us));
        for processor in self.processors.values_mut() {
            if processor.next_tick_us().is_some_and(|us| us <= now_us) {
                processor.tick(now_us);
            }
        }
        self.change(tasks)
    }

    fn change(&mut self, tasks: &Tasks) -> BTreeSet<Missing> {
        let mut wanted = BTreeMap::new();
        for (number, processor) in &self.processors {
            let task = processor.preferred().and_then(|id| self.places.keys().find(|task| self::id(**task) == id));
            wanted.extend(task.map(|task| (*number, *task)));
        }
        let kept: BTreeSet<ProcessKey> = wanted.values().copied().collect();
        let before = std::mem::replace(&mut self.preferred, wanted);
        let had: BTreeSet<ProcessKey> = before.into_values().collect();
        had.difference(&kept).for_each(|task| threads(tasks, *task).for_each(Thread::lower));
        let mut missing = BTreeSet::new();
        for task in kept.difference(&had) {
            self.preferences += 1;
            missing.extend(threads(tasks, *task).filter_map(|thread| prefer(thread, self.boost)));
        }
        missing
    }

    /// Gives the moment of the next [`step`](Self::step), if no message comes before.
    pub fn next_us(&self, now_us: u64) -> Option<u64> {
        let check_us = (!self.preferred.is_empty()).then_some(now_us + CHECK_US);
        self.processors.values().filter_map(Processor::next_tick_us).chain(check_us).min()
    }

    /// Gives all tasks their priority back.
    pub fn end(&mut self, tasks: &Tasks) {
        let preferred = std::mem::take(&mut self.preferred);
        preferred.into_values().for_each(|task| threads(tasks, task).for_each(Thread::lower));
    }
}

/// The name of a task in the order of a processor.
fn id(task: ProcessKey) -> TaskId {
    TaskId(task.pid.unsigned_abs().into())
}

fn threads(tasks: &Tasks, task: ProcessKey) -> impl Iterator<Item = &Thread> {
    tasks.get(&task).into_iter().flat_map(|threads| threads.values())
}
