//! The coordinator's knowledge of places, jobs and programs.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use control_protocol::hosts::HeldHosts;
use control_protocol::tool::NodeRow;
use policy::spread::{Marks, Programs, Spot, Worth, choose, slots_of, tokens};
use serde::Serialize;

use super::tokens::Tokens;
use super::words::{Command, FromJob, Turn};

/// So many looks back, a node's load may show jobs that have ended.
const PEAKS: usize = 10;
/// A host that refused a program is not used for so long.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// The time that a placement costs a program, milliseconds.
const PLACING_MS: u64 = 20;

/// Numbers of a build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Report {
    /// Programs about which was asked.
    pub(super) programs: u64,
    /// Jobs that ran at home.
    pub(super) home: u64,
    /// Jobs by the host at which they were placed.
    pub(super) hosts: BTreeMap<String, u64>,
    /// Jobs that a host refused, and that ran at home.
    pub(super) refused: u64,
    /// Why hosts refused the last one.
    pub(super) refusals: BTreeMap<String, String>,
    /// Jobs that ran again, for their host was lost.
    pub(super) again: u64,
    /// The most jobs that there were processors for.
    pub(super) slots_max: u32,
}

/// A place for jobs. The first one is home.
struct Place {
    name: String,
    spot: Spot,
    /// The most jobs that were there between looks at the loads, newest last.
    peaks: [u32; PEAKS],
    refused_until: Option<Instant>,
}

impl Place {
    fn new(name: String, is_home: bool) -> Place {
        let spot = Spot { slots: u32::from(is_home), jobs: 0, is_home };
        Place { name, spot, peaks: [0; PEAKS], refused_until: None }
    }

    /// Takes one more job.
    fn add(&mut self) {
        self.spot.jobs += 1;
        self.peaks[PEAKS - 1] = self.peaks[PEAKS - 1].max(self.spot.jobs);
    }

    /// Sets the slots by the node's load.
    fn follow(&mut self, row: Option<&NodeRow>) {
        let own_milli = self.peaks.iter().max().copied().unwrap_or(0).saturating_mul(1000);
        self.peaks.rotate_left(1);
        self.peaks[PEAKS - 1] = self.spot.jobs;
        let slots = match row {
            Some(NodeRow { alive: true, load: Some((load, _)), .. }) => {
                slots_of(load.capacity_milli, load.runnable_milli, own_milli)
            }
            Some(NodeRow { alive: true, load: None, .. }) => 1,
            _ => 0,
        };
        let refuses = self.refused_until.is_some_and(|until| Instant::now() < until);
        self.spot.slots = if refuses { 0 } else { slots.max(u32::from(self.spot.is_home)) };
    }
}

/// A job that is under way.
struct Running {
    place: usize,
    command: Command,
}

/// The coordinator's knowledge of places, jobs and programs.
pub(super) struct State {
    places: Vec<Place>,
    jobs: HashMap<u64, Running>,
    pub(super) programs: Programs,
    marks: Marks,
    tokens: Tokens,
    pub(super) report: Report,
}

impl State {
    /// Knows of home only.
    pub(super) fn new(programs: Programs, marks: Marks, tokens: Tokens) -> State {
        let places = vec![Place::new("home".into(), true)];
        State { places, jobs: HashMap::new(), programs, marks, tokens, report: Report::default() }
    }

    /// Gives the number of jobs for which there are processors.
    pub(super) fn slots(&self) -> u32 {
        tokens(&self.spots())
    }

    fn spots(&self) -> Vec<Spot> {
        self.places.iter().map(|place| place.spot).collect()
    }

    /// Takes in which hosts are held, and how loaded nodes are.
    pub(super) fn learn(&mut self, nodes: &[NodeRow], held: &HeldHosts) {
        for name in &held.hosts {
            if !self.places.iter().any(|place| place.name == *name) {
                self.places.push(Place::new(name.clone(), false));
            }
        }
        let (home, hosts) = self.places.split_at_mut(1);
        home[0].follow(nodes.iter().find(|row| row.here));
        for host in hosts {
            let is_held = held.hosts.contains(&host.name);
            host.follow(nodes.iter().find(|row| is_held && row.name == host.name));
        }
        self.bring_home(|place| held.hosts.contains(&place.name));
        self.tokens.follow(tokens(&self.spots()));
        self.report.slots_max = self.report.slots_max.max(self.slots());
    }

    /// Counts the jobs of hosts that are not held any more at home: they are sent there.
    fn bring_home(&mut self, is_held: impl Fn(&Place) -> bool) {
        for running in self.jobs.values_mut().filter(|running| running.place != 0) {
            if !is_held(&self.places[running.place]) {
                self.places[running.place].spot.jobs -= 1;
                self.places[0].add();
                running.place = 0;
            }
        }
    }

    /// Tells whether a program that is to be executed is worth a place.
    pub(super) fn is_worth(&mut self, command: &Command) -> bool {
        self.report.programs += 1;
        let has_hosts = self.places.iter().any(|place| !place.spot.is_home && place.spot.slots > 0);
        let words: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
        if !has_hosts || self.marks.marks(&command.path, &words) {
            return false;
        }
        command.as_invocation(|invocation| self.programs.judge(invocation)) != Worth::Stays
    }

    /// Takes what a job says. Gives the answer, if it waits for one.
    pub(super) fn hear(&mut self, job: u64, message: FromJob) -> Option<Turn> {
        match message {
            FromJob::Begins(command) => Some(self.begin(job, command)),
            FromJob::Refused { why } => {
                self.refused(job, why);
                None
            }
            FromJob::Again => {
                self.report.again += 1;
                self.has_lost(job);
                Some(Turn::Home)
            }
            FromJob::Ended { ran_ms, cpu_ms } => {
                self.note(job, ran_ms, cpu_ms);
                None
            }
        }
    }

    fn begin(&mut self, job: u64, command: Command) -> Turn {
        let is_short = command.as_invocation(|invocation| self.programs.is_short(invocation));
        let place = if is_short { 0 } else { choose(&self.spots()).unwrap_or(0) };
        self.places[place].add();
        self.jobs.insert(job, Running { place, command });
        if place == 0 {
            self.report.home += 1;
            return Turn::Home;
        }
        let name = self.places[place].name.clone();
        *self.report.hosts.entry(name.clone()).or_default() += 1;
        Turn::On(name)
    }

    /// The job runs at home now, and its host is not used for a while.
    fn refused(&mut self, job: u64, why: String) {
        let Some(running) = self.jobs.get_mut(&job) else { return };
        let host = &mut self.places[running.place];
        if host.spot.is_home {
            return;
        }
        host.refused_until = Some(Instant::now() + REFUSED_FOR);
        host.spot.slots = 0;
        host.spot.jobs -= 1;
        self.report.refused += 1;
        self.report.refusals.insert(host.name.clone(), why);
        running.place = 0;
        self.places[0].add();
    }

    /// The job's host is lost.
    fn has_lost(&mut self, job: u64) {
        let Some(running) = self.jobs.get_mut(&job).filter(|running| running.place != 0) else { return };
        let host = &mut self.places[running.place];
        host.refused_until = Some(Instant::now() + REFUSED_FOR);
        host.spot.slots = 0;
        host.spot.jobs -= 1;
        running.place = 0;
        self.places[0].add();
    }

    /// Learns from the run of a job.
    fn note(&mut self, job: u64, ran_ms: u64, cpu_ms: u64) {
        let Some(running) = self.jobs.get(&job) else { return };
        let ms = if running.place == 0 { cpu_ms } else { ran_ms.saturating_sub(PLACING_MS) };
        let key = running.command.as_invocation(|invocation| invocation.key());
        self.programs.note(&key, ms);
    }

    /// The job has gone.
    pub(super) fn remove(&mut self, job: u64) {
        if let Some(running) = self.jobs.remove(&job) {
            self.places[running.place].spot.jobs -= 1;
        }
    }
}
