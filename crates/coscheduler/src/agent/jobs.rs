//! All jobs of the agent.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;

use control_protocol::coscheduling::HostedJob;
use cosched::{JobMode, ModeName, Phase, ProcessKey, Windows};

use super::clock;
use super::control::Control;
use super::hosted::Hosted;
use super::members;
use super::missing::Missing;
use super::nodes::Nodes;
use super::registered::Registered;
use crate::guardian::{Guardian, Undo};
use crate::protocol::{Answer, JobReport, NAMED_MAX, Request};

/// The most jobs.
const JOBS_MAX: usize = 256;

/// The jobs, and the guardian that knows what was done to them.
#[derive(Debug)]
pub struct Jobs {
    jobs: Vec<Registered>,
    last_number: u32,
    guardian: Guardian,
    /// The means that the agent itself lacks.
    missing: BTreeSet<Missing>,
    /// Other nodes; only root's agent has them told.
    nodes: Option<Nodes>,
}

impl Jobs {
    /// Starts without a job.
    ///
    /// # Errors
    /// No guardian can be started.
    pub fn new(missing: BTreeSet<Missing>, nodes: Option<Nodes>) -> io::Result<Jobs> {
        Ok(Jobs { jobs: Vec::new(), last_number: 0, guardian: Guardian::start()?, missing, nodes })
    }

    /// Tells whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Looks for the processes of all jobs, and ends the modes of jobs that have ended.
    ///
    /// # Errors
    /// There is no guardian, and none can be started.
    pub fn look(&mut self) -> io::Result<()> {
        self.guardian.check()?;
        if self.jobs.is_empty() {
            self.tell_nodes();
            return self.tell();
        }
        let processes = members::processes();
        let mut taken = BTreeSet::new();
        self.jobs.iter_mut().for_each(|job| job.look(&processes, &mut taken));
        self.jobs.iter_mut().filter(|job| job.has_ended()).for_each(Registered::end);
        self.jobs.retain(|job| !job.has_ended());
        self.tell()?;
        self.jobs.iter_mut().for_each(|job| job.apply(&processes));
        self.tell_nodes();
        Ok(())
    }

    fn tell_nodes(&self) {
        if let Some(nodes) = &self.nodes {
            nodes.want(self.jobs.iter().filter_map(Registered::order));
        }
    }

    fn report(&self, job: &Registered) -> JobReport {
        let said = match &self.nodes {
            Some(nodes) if job.order().is_some() => nodes.report(job.key, job.version),
            _ => Some(Vec::new()),
        };
        let nodes = said.map(|nodes| nodes.into_iter().map(Into::into).collect());
        JobReport { nodes, ..job.report(&self.missing) }
    }

    /// Tells the guardian what it would have to take back.
    fn tell(&mut self) -> io::Result<()> {
        let mut all = Undo::default();
        for undo in self.jobs.iter().map(Registered::undo) {
            all.groups.extend(undo.groups);
            all.threads.extend(undo.threads);
            all.stopped.extend(undo.stopped);
        }
        self.guardian.tell(all)
    }

    /// Stops and starts the tasks of all jobs whose windows begin or end now. None is started
    /// before those that are to stop run no more.
    ///
    /// # Errors
    /// There is no guardian, and none can be started.
    pub fn switch(&mut self) -> io::Result<()> {
        let wall_us = clock::wall_us();
        self.jobs.iter_mut().for_each(|job| job.take_turns(wall_us));
        let due: Vec<Option<Phase>> = self.jobs.iter_mut().map(|job| job.due(wall_us)).collect();
        if due.iter().all(Option::is_none) {
            return Ok(());
        }
        self.tell()?;
        let count = |stops: bool| due.iter().flatten().filter(|phase| (**phase == Phase::Stop) == stops).count();
        let is_handed_over = count(true) > 0 && count(false) > 0;
        for stops in [true, false] {
            for (job, phase) in self.jobs.iter_mut().zip(&due) {
                if let Some(phase) = phase.filter(|phase| (*phase == Phase::Stop) == stops) {
                    job.switch(phase, wall_us);
                }
            }
            if stops && is_handed_over {
                visit_processors();
            }
        }
        Ok(())
    }

    /// Prefers tasks by the messages that have come.
    pub fn step(&mut self) {
        self.jobs.iter_mut().for_each(Registered::step);
    }

    /// Gives the moment of the next [`step`](Self::step) if no message comes before, microseconds
    /// of the monotonic clock.
    pub fn next_step_us(&self) -> Option<u64> {
        let now_us = clock::monotonic_us();
        self.jobs.iter().filter_map(|job| job.next_step_us(now_us)).min()
    }

    /// Gives the descriptors that are readable when messages have come.
    pub fn arrivals(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.jobs.iter().filter_map(Registered::arrivals)
    }

    /// Gives the moment of the next switch, microseconds of the wall clock.
    pub fn next_switch_us(&self) -> Option<u64> {
        let wall_us = clock::wall_us();
        self.jobs.iter().filter_map(|job| job.next_switch_us(wall_us)).min()
    }

    /// Does what a command asks for.
    ///
    /// # Errors
    /// There is no guardian, and none can be started.
    pub fn answer(&mut self, request: &Request) -> io::Result<Answer> {
        let chosen = match request {
            Request::Set { pids, mode, control } => self.set(pids, *mode).map(|number| {
                if let Some((control, job)) = control.clone().zip(self.jobs.iter_mut().find(|job| job.number == number))
                {
                    job.set_control(Control::new(control));
                }
                vec![number]
            }),
            Request::Gang { jobs, slice_us } => self.gang(jobs, *slice_us),
            Request::Off { pids } => self.off(pids),
            Request::Host(order) => self.host(order),
            Request::Status => Ok(self.jobs.iter().map(|job| job.number).collect()),
        };
        self.look()?;
        self.switch()?;
        Ok(match chosen {
            Ok(numbers) => {
                let chosen = self.jobs.iter().filter(|job| numbers.contains(&job.number));
                Answer::Jobs(chosen.map(|job| self.report(job)).collect())
            }
            Err(reason) => Answer::Refused { reason },
        })
    }

    /// Sets the mode of the job that has the first of these processes; of a new job if none has.
    fn set(&mut self, pids: &[i32], mode: JobMode) -> Result<u32, String> {
        let keys = keys(pids)?;
        let first = keys.first().ok_or("no process is named")?;
        if let Some(job) = self.jobs.iter_mut().find(|job| job.contains(*first)) {
            if let Some(hosted) = &job.hosted {
                let home = &hosted.home;
                return Err(format!(
                    "process {} is in a mode that {home} has set; tern cosched off ends it",
                    first.pid
                ));
            }
            job.set_mode(mode);
            return Ok(job.number);
        }
        if self.jobs.len() >= JOBS_MAX {
            return Err(format!("there are {JOBS_MAX} jobs already"));
        }
        self.last_number += 1;
        self.jobs.push(Registered::new(self.last_number, keys, mode));
        Ok(self.last_number)
    }

    /// Takes a job of another home, or goes on with it, or ends it.
    fn host(&mut self, order: &HostedJob) -> Result<Vec<u32>, String> {
        let hosted = Hosted::of(order);
        let known = self.jobs.iter().position(|job| job.hosted.as_ref().is_some_and(|hosted| hosted.is_of(order)));
        let Some(mode) = order.hosted.order.mode else {
            if let Some(index) = known {
                self.jobs.remove(index).end();
            }
            return Ok(Vec::new());
        };
        // Real time could keep the node's own work away, and tasks with it cannot be moved.
        let mode = JobMode { real_time: false, ..mode };
        let index = match known {
            Some(index) => index,
            None if !order.hosted.begins => return Ok(Vec::new()),
            None if self.jobs.len() >= JOBS_MAX => return Err(format!("there are {JOBS_MAX} jobs already")),
            None => {
                self.last_number += 1;
                self.jobs.push(Registered::hosted(self.last_number, hosted.clone(), mode));
                self.jobs.len() - 1
            }
        };
        let job = &mut self.jobs[index];
        job.hosted = Some(hosted);
        if job.mode() != mode {
            job.set_mode(mode);
        }
        // One that has ended meanwhile is no task any more.
        job.add(order.hosted.order.tasks.iter().filter_map(|pid| members::process(*pid)).map(|p| p.key).collect());
        Ok(vec![job.number])
    }

    /// Has these jobs take turns: each runs in windows that begin where those of the job before it
    /// end. All nodes count them from the beginning of the agreed clock.
    fn gang(&mut self, jobs: &[Vec<i32>], slice_us: u64) -> Result<Vec<u32>, String> {
        if !(2..=NAMED_MAX).contains(&jobs.len()) {
            return Err(format!("2 to {NAMED_MAX} jobs can take turns, not {}", jobs.len()));
        }
        let others = jobs.len() as u64 - 1;
        let windows = |turn: u64| {
            let windows = Windows::from_epoch(turn * slice_us).with_lengths(slice_us, others * slice_us);
            windows.map_err(|e| e.to_string())
        };
        windows(0)?;
        jobs.iter().try_for_each(|pids| keys(pids).map(drop))?;
        let turn = |(turn, pids): (u64, &Vec<i32>)| {
            let mode = JobMode { windows: Some(windows(turn)?), ..JobMode::from(ModeName::Explicit) };
            self.set(pids, mode)
        };
        (0..).zip(jobs).map(turn).collect()
    }

    /// Ends the modes of the jobs of these processes, or of all.
    fn off(&mut self, pids: &[i32]) -> Result<Vec<u32>, String> {
        let keys = keys(pids)?;
        for job in &mut self.jobs {
            if keys.is_empty() || keys.iter().any(|key| job.contains(*key)) {
                job.set_mode(ModeName::None.into());
                job.end();
            }
        }
        self.jobs.retain(|job| !(keys.is_empty() || keys.iter().any(|key| job.contains(*key))));
        Ok(self.jobs.iter().map(|job| job.number).collect())
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.jobs.iter_mut().for_each(Registered::end);
    }
}

/// Finds the processes of these numbers, which must be the user's.
fn keys(pids: &[i32]) -> Result<Vec<ProcessKey>, String> {
    if pids.len() > NAMED_MAX {
        return Err(format!("at most {NAMED_MAX} processes can be named"));
    }
    let user = rustix::process::geteuid().as_raw();
    let key = |pid: &i32| {
        let process = members::process(*pid).ok_or_else(|| format!("there is no process {pid}"))?;
        let status = os::process::status(*pid).map_err(|e| e.to_string())?;
        match user == 0 || os::process::owner(&status.uid) == user {
            true => Ok(process.key),
            false => Err(format!("process {pid} belongs to another user")),
        }
    };
    pids.iter().map(key).collect()
}

/// Runs on each processor once. A processor that a thread of higher priority has had returns to its
/// own thread by way of the kernel, which then notices that the thread is to stand still.
fn visit_processors() {
    let Some(words) = os::processor::own() else { return };
    for (word, bits) in words.iter().enumerate() {
        for bit in (0..u64::BITS as usize).filter(|bit| bits >> bit & 1 != 0) {
            os::processor::on(word * u64::BITS as usize + bit, || ());
        }
    }
}
