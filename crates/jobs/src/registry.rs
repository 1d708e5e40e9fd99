//! The jobs of a home.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Family, JobName, Process, ProcessKey};

/// The jobs that are remembered after their end, so that a command may wait for one that has just
/// ended.
const ENDED_MAX: usize = 256;
/// The most jobs of one user at once.
const JOBS_OF_USER_MAX: usize = 256;

/// The number of a job, which no later job of the home has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A job as a user calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobSeeker {
    /// By its number.
    Id(JobId),
    /// By its name.
    Name(JobName),
}

impl FromStr for JobSeeker {
    type Err = crate::InvalidJobName;

    fn from_str(text: &str) -> Result<JobSeeker, crate::InvalidJobName> {
        match text.parse() {
            Ok(number) => Ok(JobSeeker::Id(JobId(number))),
            Err(_) => text.parse().map(JobSeeker::Name),
        }
    }
}

impl fmt::Display for JobSeeker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobSeeker::Id(id) => id.fmt(f),
            JobSeeker::Name(name) => name.fmt(f),
        }
    }
}

/// A job of the home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The name, which no other job of the user has at the time.
    pub name: JobName,
    /// The user whose job it is.
    pub owner: u32,
    /// Real time at which the job began, seconds since 1970.
    pub began_s: u64,
    /// The user has had the job stand still.
    pub suspended: bool,
    /// The process that started the job and collects its orphans (PR_SET_CHILD_SUBREAPER of
    /// prctl(2)). The keeper is no process of the job. The job lasts as long as its keeper.
    pub keeper: Option<ProcessKey>,
    family: Family,
}

impl Job {
    /// Gives the processes of the job as of the last update.
    pub fn members(&self) -> BTreeSet<ProcessKey> {
        let keeper = self.keeper;
        self.family.members().iter().copied().filter(|key| Some(*key) != keeper).collect()
    }
}

/// Why an order about jobs is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// The name is in use.
    #[error("there is a job {0} already")]
    NameInUse(JobName),
    /// The user has too many jobs.
    #[error("a user has {JOBS_OF_USER_MAX} jobs at most")]
    TooMany,
    /// A process belongs to another job.
    #[error("process {pid} belongs to job {job}")]
    Taken {
        /// PID of the process.
        pid: i32,
        /// Name of the job.
        job: JobName,
    },
    /// There is no such job.
    #[error("there is no job {0}")]
    Unknown(JobSeeker),
}

/// The jobs of a home, of all users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registry {
    jobs: BTreeMap<JobId, Job>,
    last: u64,
    /// The jobs that have ended last.
    ended: VecDeque<(JobId, Job)>,
}

/// A job that is to begin.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The name that the user has given.
    pub name: Option<JobName>,
    /// The program that gives the name otherwise.
    pub program: String,
    /// The user whose job it is.
    pub owner: u32,
    /// Real time, seconds since 1970.
    pub now_s: u64,
    /// The process that starts the job and collects its orphans.
    pub keeper: Option<ProcessKey>,
    /// The processes of the job that run already.
    pub first: Vec<ProcessKey>,
}

impl Registry {
    /// Begins a job. Without a name the job gets that of its program.
    ///
    /// # Errors
    /// The name is in use, a process has a job already, or the user has too many jobs.
    pub fn begin(&mut self, new: NewJob) -> Result<JobId, JobError> {
        let NewJob { name, program, owner, now_s, keeper, first } = new;
        if self.jobs.values().filter(|job| job.owner == owner).count() >= JOBS_OF_USER_MAX {
            return Err(JobError::TooMany);
        }
        let taken = first.iter().find_map(|key| Some((key.pid, self.of(*key)?.1)));
        if let Some((pid, job)) = taken {
            return Err(JobError::Taken { pid, job: job.name.clone() });
        }
        let id = JobId(self.last + 1);
        let in_use = |name: &JobName| self.jobs.values().any(|job| job.owner == owner && job.name == *name);
        let name = match name {
            Some(name) if in_use(&name) => return Err(JobError::NameInUse(name)),
            Some(name) => name,
            None => {
                let program = JobName::of_program(&program);
                if in_use(&program) { program.numbered(id.0) } else { program }
            }
        };
        let family = Family::of(first.into_iter().chain(keeper));
        self.last = id.0;
        self.jobs.insert(id, Job { name, owner, began_s: now_s, suspended: false, keeper, family });
        Ok(id)
    }

    /// Notes which processes the machine has now. Gives the jobs that have ended.
    pub fn update(&mut self, processes: &[Process]) -> Vec<(JobId, Job)> {
        self.jobs.values_mut().for_each(|job| job.family.update(processes));
        let ended: Vec<_> = self.jobs.extract_if(.., |_, job| job.family.has_ended()).collect();
        self.ended.extend(ended.iter().cloned());
        self.ended.drain(..self.ended.len().saturating_sub(ENDED_MAX));
        ended
    }

    /// Finds a job of this user. Root finds the jobs of all users by number, and its own by name
    /// before those of others.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, seeker: &JobSeeker, asker: u32) -> Result<(JobId, &Job), JobError> {
        let may_see = |job: &&Job| asker == 0 || job.owner == asker;
        let found = match seeker {
            JobSeeker::Id(id) => self.jobs.get(id).filter(may_see).map(|job| (*id, job)),
            JobSeeker::Name(name) => {
                let named = self.jobs.iter().filter(|(_, job)| may_see(job) && job.name == *name);
                named.min_by_key(|(_, job)| job.owner != asker).map(|(id, job)| (*id, job))
            }
        };
        found.ok_or_else(|| JobError::Unknown(seeker.clone()))
    }

    /// Tells whether a job of this user, which is not there, has ended lately.
    pub fn has_ended(&self, seeker: &JobSeeker, asker: u32) -> bool {
        let is_meant = |(id, job): &(JobId, Job)| match seeker {
            JobSeeker::Id(wanted) => id == wanted,
            JobSeeker::Name(wanted) => job.name == *wanted,
        };
        self.ended.iter().any(|ended| (asker == 0 || ended.1.owner == asker) && is_meant(ended))
    }

    /// Notes whether the user has had a job stand still.
    pub fn suspend(&mut self, id: JobId, suspended: bool) {
        self.jobs.get_mut(&id).into_iter().for_each(|job| job.suspended = suspended);
    }

    /// Lists the jobs that a user may see, in the order of their beginning.
    pub fn seen_by(&self, asker: u32) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.iter().filter(move |(_, job)| asker == 0 || job.owner == asker).map(|(id, job)| (*id, job))
    }

    /// Finds the job of a process.
    pub fn of(&self, key: ProcessKey) -> Option<(JobId, &Job)> {
        self.jobs.iter().find(|(_, job)| job.family.contains(key)).map(|(id, job)| (*id, job))
    }

    /// Tells whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, name: &str) -> Process {
        Process { key: ProcessKey { pid, began: 7 }, parent, name: name.into() }
    }

    fn new(owner: u32, pid: i32) -> NewJob {
        let first = vec![process(pid, 1, "ring").key];
        NewJob { name: None, program: "/usr/bin/ring".into(), owner, now_s: 5, keeper: None, first }
    }

    fn named(name: &str) -> Option<JobName> {
        Some(name.parse().unwrap())
    }

    #[test]
    fn jobs_have_names_of_their_own_and_are_found() {
        let mut all = Registry::default();
        let first = all.begin(new(1000, 10)).unwrap();
        let second = all.begin(new(1000, 11)).unwrap();
        let other = all.begin(new(1001, 12)).unwrap();
        let name = |asker, id| all.find(&JobSeeker::Id(id), asker).map(|(_, job)| job.name.to_string());
        assert_eq!(name(1000, first), Ok("ring".into()));
        assert_eq!(name(1000, second), Ok("ring-2".into()));
        assert_eq!(name(0, other), Ok("ring".into()), "another user's job may have the same name");
        assert_eq!(name(1001, first), Err(JobError::Unknown(JobSeeker::Id(first))));
        let by_name = |asker| all.find(&"ring".parse().unwrap(), asker).map(|(id, _)| id);
        assert_eq!((by_name(1000), by_name(1001)), (Ok(first), Ok(other)));
        assert_eq!(all.seen_by(1001).count(), 1);
        let in_use = all.begin(NewJob { name: named("ring"), ..new(1000, 20) });
        assert_eq!(in_use, Err(JobError::NameInUse("ring".parse().unwrap())));
    }

    #[test]
    fn a_process_has_one_job() {
        let mut all = Registry::default();
        all.begin(new(1000, 10)).unwrap();
        all.update(&[process(10, 1, "ring"), process(11, 10, "ring")]);
        let again = all.begin(new(1000, 11));
        assert_eq!(again, Err(JobError::Taken { pid: 11, job: "ring".parse().unwrap() }));
    }

    #[test]
    fn a_job_lasts_as_long_as_its_keeper_and_its_processes() {
        let mut all = Registry::default();
        let keeper = process(9, 1, "tern");
        let id = all.begin(NewJob { keeper: Some(keeper.key), first: Vec::new(), ..new(1000, 0) }).unwrap();
        let members = |all: &Registry| -> Vec<i32> {
            all.find(&JobSeeker::Id(id), 0).unwrap().1.members().iter().map(|key| key.pid).collect()
        };
        assert!(all.update(std::slice::from_ref(&keeper)).is_empty(), "it has not begun yet");
        // The keeper collects an orphan that nobody has seen before.
        assert!(all.update(&[keeper, process(11, 9, "daemon")]).is_empty());
        assert_eq!(members(&all), [11]);
        assert!(all.update(&[process(11, 1, "daemon")]).is_empty());
        assert_eq!(all.update(&[]).len(), 1);
        assert!(all.is_empty());
        let ended = |name: &str, asker| all.has_ended(&name.parse().unwrap(), asker);
        assert!(ended("ring", 1000) && ended("ring", 0) && ended("1", 1000));
        assert!(!ended("ring", 1001) && !ended("other", 0) && !ended("2", 0));
        // Its number is not given again.
        assert!(all.begin(new(1000, 10)).unwrap() > id);
    }

    #[test]
    fn a_user_has_a_bounded_number_of_jobs() {
        let mut all = Registry::default();
        for pid in 0..JOBS_OF_USER_MAX as i32 {
            all.begin(new(1000, 100 + pid)).unwrap();
        }
        assert_eq!(all.begin(new(1000, 10)), Err(JobError::TooMany));
        assert!(all.begin(new(1001, 10)).is_ok());
    }
}
