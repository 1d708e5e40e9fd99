//! Which processes are looked at.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The processes that the user names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All of them.
    #[default]
    All,
    /// Those with these numbers or names.
    Named(Vec<String>),
}

impl Choice {
    /// Lists the processes that are chosen now.
    pub fn pids(&self) -> Vec<i32> {
        let all = os::process::all().unwrap_or_default();
        match self {
            Choice::All => all,
            Choice::Named(names) => {
                all.into_iter().filter(|pid| names.iter().any(|name| is_named(*pid, name))).collect()
            }
        }
    }

    /// Lists the names for which there is no process.
    pub fn absent(&self) -> Vec<&str> {
        match self {
            Choice::All => Vec::new(),
            Choice::Named(names) => {
                let pids = self.pids();
                names.iter().filter(|name| !pids.iter().any(|pid| is_named(*pid, name))).map(String::as_str).collect()
            }
        }
    }
}

fn is_named(pid: i32, name: &str) -> bool {
    name.parse() == Ok(pid) || program(pid).as_deref() == Some(name)
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
    fn processes_are_chosen_by_number_and_name() {
        let own = std::process::id() as i32;
        let name = program(own).unwrap();
        assert!(Choice::Named(vec![name]).pids().contains(&own));
        let choice = Choice::Named(vec![own.to_string(), "no such program".into()]);
        assert_eq!((choice.pids(), choice.absent()), (vec![own], vec!["no such program"]));
        assert!(is_alive(own) && Choice::All.pids().contains(&own));
    }
}
