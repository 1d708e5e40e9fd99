//! Which processes are looked at.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The processes that the user names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All of them.
    #[default]
    All,
    /// Some of them.
    Named(Names),
}

/// Numbers of processes, or names of programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Processes by themselves.
    pub processes: Vec<String>,
    /// Processes with all their descendants, as `tern cosched` understands a job.
    pub jobs: Vec<String>,
}

impl Names {
    fn all(&self) -> impl Iterator<Item = &String> {
        self.processes.iter().chain(&self.jobs)
    }

    /// Tells whether a process of this number and name is named itself.
    pub fn include(&self, pid: i32, program: &str) -> bool {
        self.all().any(|name| name == program || name.parse() == Ok(pid))
    }
}

/// A process that was seen.
struct Seen {
    pid: i32,
    parent: i32,
    program: String,
}

impl Seen {
    fn is_named(&self, name: &str) -> bool {
        name == self.program || name.parse() == Ok(self.pid)
    }
}

impl Choice {
    /// Lists the processes that are chosen now.
    pub fn pids(&self) -> Vec<i32> {
        match self {
            Choice::All => os::process::all().unwrap_or_default(),
            Choice::Named(names) => chosen(names, &seen()),
        }
    }

    /// Lists the names for which there is no process.
    pub fn absent(&self) -> Vec<&str> {
        let Choice::Named(names) = self else { return Vec::new() };
        let seen = seen();
        let is_absent = |name: &&String| !seen.iter().any(|process| process.is_named(name));
        names.all().filter(is_absent).map(String::as_str).collect()
    }
}

fn seen() -> Vec<Seen> {
    let read = |pid| {
        let line = os::process::line(pid).ok()?;
        Some(Seen { pid, parent: line.parent, program: line.name })
    };
    os::process::all().unwrap_or_default().into_iter().filter_map(read).collect()
}

fn chosen(names: &Names, seen: &[Seen]) -> Vec<i32> {
    let among = |names: &[String], process: &Seen| names.iter().any(|name| process.is_named(name));
    let mut pids: HashSet<i32> = seen.iter().filter(|process| among(&names.jobs, process)).map(|p| p.pid).collect();
    loop {
        let known = pids.len();
        pids.extend(seen.iter().filter(|process| pids.contains(&process.parent)).map(|p| p.pid).collect::<Vec<_>>());
        if pids.len() == known {
            break;
        }
    }
    pids.extend(seen.iter().filter(|process| among(&names.processes, process)).map(|p| p.pid));
    seen.iter().map(|process| process.pid).filter(|pid| pids.contains(pid)).collect()
}

/// Gives the name of a process's program (comm in proc_pid_comm(5)).
pub fn program(pid: i32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&text).trim_end().to_owned())
}

/// Opens a file that another process names. A pipe or a device, which could make the caller wait,
/// is refused.
pub fn open_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Tells whether a process is there and has not ended.
pub fn is_alive(pid: i32) -> bool {
    os::process::began(pid).is_ok() && !os::process::is_exiting(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_process_with_all_its_descendants() {
        let seen = [(7, 5, "c"), (1, 0, "init"), (2, 1, "pvmd"), (5, 2, "b"), (9, 1, "x"), (3, 9, "c")];
        let seen = seen.map(|(pid, parent, program)| Seen { pid, parent, program: program.into() });
        let names = |processes: &[&str], jobs: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            Names { processes: owned(processes), jobs: owned(jobs) }
        };
        assert_eq!(chosen(&names(&[], &["pvmd"]), &seen), [7, 2, 5]);
        assert_eq!(chosen(&names(&["x"], &["5"]), &seen), [7, 5, 9]);
        assert_eq!(chosen(&names(&["c"], &[]), &seen), [7, 3]);
    }

    #[test]
    fn processes_are_chosen_by_number_and_name() {
        let own = std::process::id() as i32;
        let name = program(own).unwrap();
        let named = |processes| Choice::Named(Names { processes, jobs: Vec::new() });
        assert!(named(vec![name]).pids().contains(&own));
        let choice = named(vec![own.to_string(), "no such program".into()]);
        assert_eq!((choice.pids(), choice.absent()), (vec![own], vec!["no such program"]));
        assert!(is_alive(own) && Choice::All.pids().contains(&own));
    }
}
