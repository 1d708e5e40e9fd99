//! The processes of a job: those that were named, and their descendants.

use std::collections::BTreeSet;

use jobs::{Family, Process, ProcessKey};

/// Programs that start and connect the tasks of parallel jobs, as the kernel names them (15 bytes
/// at most). A job cannot do without them: a stopped PVM daemon is given up by the others.
const DAEMONS: [&str; 15] = [
    "hydra_bstrap_pr",
    "hydra_nameserve",
    "hydra_pmi_proxy",
    "mpiexec",
    "mpiexec.hydra",
    "mpiexec.mpich",
    "mpiexec.openmpi",
    "mpirun",
    "mpirun.mpich",
    "mpirun.openmpi",
    "orted",
    "prte",
    "prted",
    "pvmd",
    "pvmd3",
];
/// The other names of `mpiexec.openmpi`, and of this program.
const OTHER_DAEMONS: [&str; 8] = ["orterun", "prterun", "pvm", "pvmgs", "ternd", "tern", "tern-lab", "sshd"];

/// Tells whether the process starts or connects tasks, and is none.
pub fn is_daemon(process: &Process) -> bool {
    DAEMONS.contains(&process.name.as_str()) || OTHER_DAEMONS.contains(&process.name.as_str())
}

/// A job: the processes that were named when it was registered, and all that descend from them. A
/// process stays in its job when its parent has ended.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// All processes of the job, with daemons.
    family: Family,
    /// Those that are tasks.
    tasks: BTreeSet<ProcessKey>,
}

impl Job {
    /// Begins with these processes, which are found by the first [`update`](Self::update).
    pub fn of(named: impl IntoIterator<Item = ProcessKey>) -> Job {
        Job { family: Family::of(named), tasks: BTreeSet::new() }
    }

    /// Adds processes, which are found by the next [`update`](Self::update).
    pub fn add(&mut self, named: impl IntoIterator<Item = ProcessKey>) {
        self.family.add(named);
    }

    /// Notes which processes the machine has now.
    pub fn update(&mut self, processes: &[Process]) {
        self.family.update(processes);
        let tasks = processes.iter().filter(|process| self.family.contains(process.key) && !is_daemon(process));
        self.tasks = tasks.map(|process| process.key).collect();
    }

    /// Gives the tasks as of the last update: all processes but daemons.
    pub fn tasks(&self) -> &BTreeSet<ProcessKey> {
        &self.tasks
    }

    /// Tells whether all processes of the job have ended.
    pub fn has_ended(&self) -> bool {
        self.family.has_ended()
    }

    /// Tells whether the process belongs to the job.
    pub fn contains(&self, key: ProcessKey) -> bool {
        self.family.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, name: &str) -> Process {
        Process { key: key(pid), parent, name: name.into() }
    }

    fn key(pid: i32) -> ProcessKey {
        ProcessKey { pid, began: 7 }
    }

    fn pids(job: &Job) -> Vec<i32> {
        job.tasks().iter().map(|key| key.pid).collect()
    }

    #[test]
    fn descendants_of_daemons_are_tasks_and_daemons_are_none() {
        let mut job = Job::of([key(10)]);
        let mut all = vec![
            process(1, 0, "init"),
            process(10, 1, "mpiexec.hydra"),
            process(11, 10, "hydra_pmi_proxy"),
            process(12, 11, "rank"),
            process(13, 12, "sh"),
            process(14, 1, "rank"),
        ];
        job.update(&all);
        assert_eq!(pids(&job), [12, 13]);
        assert!(job.contains(key(11)) && !job.contains(key(14)));
        // Orphans stay, and so do theirs.
        all.retain(|process| process.key.pid != 12);
        all[3].parent = 1;
        all.push(process(20, 13, "cc1"));
        job.update(&all);
        assert_eq!(pids(&job), [13, 20]);
        all.clear();
        job.update(&all);
        assert!(job.has_ended());
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut job = Job::of([key(10)]);
        let mut later = process(10, 1, "other");
        later.key.began = 8;
        job.update(&[later]);
        assert!(job.has_ended() && pids(&job).is_empty());
    }

    #[test]
    fn absurd_families_end() {
        let mut job = Job::of([key(1), key(2)]);
        job.update(&[process(1, 2, ""), process(2, 1, "pvmd3"), process(3, 3, "")]);
        assert_eq!(pids(&job), [1]);
    }
}
