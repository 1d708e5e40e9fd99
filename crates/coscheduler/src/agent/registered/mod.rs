//! A job of the agent: its tasks, its mode, and the levers that the mode needs.

mod switching;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use control_protocol::coscheduling::{JobOrder, TASKS_MAX};
use cosched::{Job, JobMode, NodeClock, Phase, Process, ProcessKey};

use super::by_arrivals::ByArrivals;
use super::control::Control;
use super::hosted::Hosted;
use super::members::{self, Threads};
use super::missing::Missing;
use crate::guardian::Undo;
use crate::levers::{Groups, Stop, began};
use crate::protocol::{JobReport, WindowLengths};
use crate::statistics::Times;

/// Something that groups do for the task with this PID.
type TaskGroups<G> = fn(&mut G, i32) -> os::Result<()>;

/// A job with its levers.
#[derive(Debug)]
pub struct Registered {
    /// Number of the job.
    pub number: u32,
    /// Number of the job for other nodes, which no other job has.
    pub key: u64,
    /// Rises each time that the mode is set.
    pub version: u64,
    /// The home, if the job is another one's.
    pub hosted: Option<Hosted>,
    job: Job,
    mode: JobMode,
    tasks: BTreeMap<ProcessKey, Threads>,
    /// Processes of tern that serve tasks which are away. They come first, too, or tasks that poll
    /// would keep them from the processor.
    helpers: BTreeMap<ProcessKey, Threads>,
    stop: Option<Stop>,
    weight: Option<Groups>,
    phase: Phase,
    /// Local work has its turn: tasks do not come first.
    yields: bool,
    /// Moment at which the phase ends, microseconds of the node's wall clock.
    phase_ends_us: Option<u64>,
    control: Option<Control>,
    by_arrivals: Option<ByArrivals>,
    missing: BTreeSet<Missing>,
    switches: Times,
}

impl Registered {
    /// Begins with these processes. Nothing is done to them before [`look`](Self::look) and
    /// [`apply`](Self::apply).
    pub fn new(number: u32, named: Vec<ProcessKey>, mode: JobMode) -> Registered {
        let mut own = Registered {
            number,
            key: super::clock::wall_us() << 8 | u64::from(number & 0xff),
            version: 1,
            hosted: None,
            job: Job::of(named),
            mode,
            tasks: BTreeMap::new(),
            helpers: BTreeMap::new(),
            stop: None,
            weight: None,
            phase: Phase::Before,
            yields: false,
            phase_ends_us: None,
            control: None,
            by_arrivals: None,
            missing: BTreeSet::new(),
            switches: Times::default(),
        };
        own.choose_levers();
        own
    }

    /// Begins with a job of another home.
    pub fn hosted(number: u32, hosted: Hosted, mode: JobMode) -> Registered {
        let mut own = Registered::new(number, Vec::new(), mode);
        own.hosted = Some(hosted);
        // Its tasks read the orders of their home.
        own.missing.remove(&Missing::Preload);
        own
    }

    /// Adds processes that have come.
    pub fn add(&mut self, named: Vec<ProcessKey>) {
        self.job.add(named);
    }

    /// Gives the mode.
    pub fn mode(&self) -> JobMode {
        self.mode
    }

    fn clock(&self) -> NodeClock {
        self.hosted.as_ref().map(|hosted| hosted.clock).unwrap_or_default()
    }

    /// Gives the order to nodes that host tasks; `None`: nothing is to be done there.
    pub fn order(&self) -> Option<JobOrder> {
        if self.hosted.is_some() || !self.mode.acts_on_nodes() {
            return None;
        }
        let tasks = self.tasks.keys().map(|task| task.pid).take(TASKS_MAX).collect();
        Some(JobOrder { job: self.key, tasks, mode: Some(self.mode), version: self.version })
    }

    /// Ends the present mode, and begins another one.
    pub fn set_mode(&mut self, mode: JobMode) {
        self.version += 1;
        self.end();
        self.mode = mode;
        self.missing.clear();
        self.switches = Times::default();
        self.choose_levers();
    }

    /// Takes the file that tells the tasks what to do.
    pub fn set_control(&mut self, control: Control) {
        self.control = Some(control);
        self.missing.remove(&Missing::Preload);
        self.tell_tasks();
    }

    fn tell_tasks(&mut self) {
        let name = self.mode.name;
        match self.control.as_ref().map(|control| control.set(name)) {
            Some(Ok(())) => {}
            None if !name.spins() && !name.reads_ahead() => {}
            None => {
                self.missing.insert(Missing::Preload);
            }
            Some(Err(e)) => {
                tracing::warn!("cosched: telling the tasks of job {}: {e}", self.number);
                self.missing.insert(Missing::Preload);
            }
        }
    }

    fn choose_levers(&mut self) {
        self.tell_tasks();
        let rule = self.mode.name.arrival_rule();
        self.by_arrivals = rule.and_then(|rule| match ByArrivals::new(rule, self.mode.local_share) {
            Ok(by_arrivals) => Some(by_arrivals),
            Err(e) => {
                tracing::warn!("cosched: job {}: {e}", self.number);
                self.missing.insert(Missing::Events);
                None
            }
        });
        // A name that no agent used before: others may have been left behind, or be elsewhere.
        let name = format!("tern-cosched-{}-{:x}", self.number, super::clock::wall_us());
        self.stop = self.mode.windows.map(|_| Stop::new(name.clone()));
        // A group of version 1 has no runtime for real time.
        let weighs = self.mode.name.comes_first() && !self.mode.real_time;
        self.weight = if weighs { Groups::new(os::cgroup::Lever::Weigh, name) } else { None };
        self.phase_ends_us = self.mode.windows.map(|_| 0);
        if weighs && self.weight.is_none() {
            self.missing.insert(Missing::Weight);
        }
    }

    /// Tells whether all processes have ended. A job of another home ends when its home does not
    /// repeat the order: its tasks may come again.
    pub fn has_ended(&self) -> bool {
        match &self.hosted {
            Some(hosted) => hosted.until <= std::time::Instant::now(),
            None => self.job.has_ended(),
        }
    }

    /// Tells whether a process belongs to the job.
    pub fn contains(&self, key: ProcessKey) -> bool {
        self.job.contains(key)
    }

    /// Looks which processes and threads the job has now, and prepares the levers for them.
    /// Tasks that an earlier job has (`taken`) are left to that one.
    pub fn look(&mut self, processes: &[Process], taken: &mut BTreeSet<ProcessKey>) {
        self.job.update(processes);
        let mut before = std::mem::take(&mut self.tasks);
        let of = |task: &ProcessKey| (*task, members::threads(*task, before.remove(task).as_ref()));
        self.tasks = self.job.tasks().iter().filter(|task| taken.insert(**task)).map(of).collect();
        if self.comes_first() {
            let mut before = std::mem::take(&mut self.helpers);
            let of = |helper: ProcessKey| (helper, members::threads(helper, before.remove(&helper).as_ref()));
            self.helpers =
                members::helpers(processes).into_iter().filter(|helper| taken.insert(*helper)).map(of).collect();
        }
        // A process that has executed a daemon's program is a task no more.
        before.values().flat_map(|threads| threads.values()).for_each(|thread| thread.lower());
        self.for_tasks(Stop::prepare, Groups::prepare);
    }

    /// Has both kinds of groups do something for each task. Groups that fail for a task which is
    /// alive are given up.
    fn for_tasks(&mut self, stop_does: TaskGroups<Stop>, weight_does: TaskGroups<Groups>) {
        for task in self.tasks.keys() {
            if let Some(stop) = &mut self.stop
                && let Err(e) = stop_does(stop, task.pid)
                && began(task.pid) == Some(task.began)
            {
                tracing::info!("cosched: {e}");
                stop.give_up_groups();
            }
            if let Some(weight) = &mut self.weight
                && let Err(e) = weight_does(weight, task.pid)
                && began(task.pid) == Some(task.began)
            {
                tracing::info!("cosched: {e}");
                weight.dissolve();
                self.weight = None;
                self.missing.insert(Missing::Weight);
            }
        }
    }

    /// Tells all that the guardian would have to take back, now or after the next
    /// [`apply`](Self::apply).
    pub fn undo(&self) -> Undo {
        let may_rise = self.comes_first() || self.by_arrivals.is_some();
        let all = self.tasks.values().chain(self.helpers.values());
        let raised = may_rise.then(|| all.flat_map(|threads| threads.values()));
        Undo {
            groups: self.group_directories(),
            threads: raised.into_iter().flatten().map(|thread| thread.before()).collect(),
            stopped: self.stop.as_ref().map_or(Vec::new(), |stop| stop.stopped().to_vec()),
        }
    }

    fn group_directories(&self) -> Vec<std::path::PathBuf> {
        let weight = self.weight.iter().flat_map(|groups| groups.directories());
        self.stop.iter().flat_map(|stop| stop.groups()).chain(weight).collect()
    }

    fn comes_first(&self) -> bool {
        self.mode.name.comes_first()
    }

    /// Does to new tasks and threads what the mode does to all.
    pub fn apply(&mut self, processes: &[Process]) {
        self.for_tasks(Stop::take, |groups, pid| groups.take(pid));
        if self.stop.as_ref().is_some_and(|stop| !stop.is_unseen()) {
            self.missing.insert(Missing::Freezer);
        }
        self.release_daemons(processes);
        self.raise();
        if let Some(by_arrivals) = &mut self.by_arrivals {
            // Of a guest, real time would keep its node's own work away, and could keep it from
            // being moved.
            by_arrivals.look(&self.tasks, self.hosted.is_none(), super::clock::monotonic_us());
            if by_arrivals.is_blind() {
                self.missing.insert(Missing::Events);
            }
        }
    }

    /// Prefers tasks by the messages that have come.
    pub fn step(&mut self) {
        if let Some(by_arrivals) = &mut self.by_arrivals {
            self.missing.extend(by_arrivals.step(&self.tasks, super::clock::monotonic_us()));
        }
    }

    /// Gives the moment of the next [`step`](Self::step) if no message comes before, microseconds
    /// of the monotonic clock.
    pub fn next_step_us(&self, now_us: u64) -> Option<u64> {
        self.by_arrivals.as_ref().and_then(|by_arrivals| by_arrivals.next_us(now_us))
    }

    /// Gives a descriptor that is readable when messages have come.
    pub fn arrivals(&self) -> Option<BorrowedFd<'_>> {
        self.by_arrivals.as_ref().map(ByArrivals::fd)
    }

    /// A task may have started a daemon, which was born in the job's groups.
    fn release_daemons(&self, processes: &[Process]) {
        for process in processes.iter().filter(|process| self.job.contains(process.key) && cosched::is_daemon(process))
        {
            if let Some(stop) = &self.stop {
                stop.release(process.key.pid);
            }
            if let Some(Err(e)) = self.weight.as_ref().map(|weight| weight.release(process.key.pid)) {
                tracing::debug!("cosched: {e}");
            }
        }
    }

    /// Takes back all that was done.
    pub fn end(&mut self) {
        if let Some(mut stop) = self.stop.take() {
            stop.end();
        }
        if let Some(mut weight) = self.weight.take() {
            weight.dissolve();
        }
        if let Some(mut by_arrivals) = self.by_arrivals.take() {
            by_arrivals.end(&self.tasks);
        }
        if self.comes_first() {
            let all = self.tasks.values().chain(self.helpers.values());
            all.flat_map(|threads| threads.values()).for_each(|thread| thread.lower());
            self.helpers.clear();
        }
        self.phase = Phase::Before;
        self.yields = false;
    }

    /// Tells how the job is.
    pub fn report(&self, agent: &BTreeSet<Missing>) -> JobReport {
        let lengths = |windows: cosched::Windows| WindowLengths {
            run_us: windows.run_us(),
            stop_us: windows.period_us() - windows.run_us(),
        };
        let of_agent = agent.iter().filter(|_| self.mode.windows.is_some());
        JobReport {
            job: self.number,
            mode: self.mode.name,
            windows: self.mode.windows.map(lengths),
            tasks: self.tasks.keys().map(|task| task.pid).collect(),
            missing: self.missing.iter().chain(of_agent).map(ToString::to_string).collect(),
            switches: self.switches.summary(),
            arrivals: self.by_arrivals.as_ref().map_or(0, |by_arrivals| by_arrivals.arrivals),
            preferences: self.by_arrivals.as_ref().map_or(0, |by_arrivals| by_arrivals.preferences),
            home: self.hosted.as_ref().map(|hosted| hosted.home.clone()),
            clock_offset_us: self.clock().offset_us,
            nodes: None,
        }
    }
}
