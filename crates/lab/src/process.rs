//! Processes by PID and start time, and their namespaces.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};
use serde::{Deserialize, Serialize};

use crate::error::{Context, Result};

/// A process, identified so that a later process with the same PID is not mistaken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// PID in this machine's initial namespace.
    pub pid: i32,
    /// Start time, clock ticks since boot (field 22 of /proc/PID/stat).
    pub start_ticks: u64,
}

impl Process {
    /// Identifies the process that has this PID now.
    pub fn of(pid: i32) -> Result<Process> {
        let start_ticks = start_ticks(pid).context(|| format!("read /proc/{pid}/stat"))?;
        Ok(Process { pid, start_ticks })
    }

    /// Identifies this process.
    pub fn current() -> Result<Process> {
        Process::of(std::process::id() as i32)
    }

    /// Opens a descriptor for the process; `None` if the process has ended.
    pub fn open(self) -> Option<OwnedFd> {
        let pidfd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // The PID may have been reused before it was opened, but not after.
        (start_ticks(self.pid).ok()? == self.start_ticks).then_some(pidfd)
    }

    /// Tells whether the process runs. A zombie does not.
    pub fn is_alive(self) -> bool {
        self.open().is_some_and(|pidfd| !wait(&pidfd, Duration::ZERO))
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(self, signal: Signal) {
        if let Some(pidfd) = self.open() {
            let _ = pidfd_send_signal(pidfd, signal);
        }
    }

    /// Waits until the process has ended; false if it has not within `limit`.
    pub fn wait(self, limit: Duration) -> bool {
        self.open().is_none_or(|pidfd| wait(&pidfd, limit))
    }
}

fn wait(pidfd: &OwnedFd, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) if left.is_zero() => return false,
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}

fn start_ticks(pid: i32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command's name is in parentheses and may contain anything, so count from the last
    // parenthesis.
    let field = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok());
    field.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Moves this thread into namespaces of the process (man 2 setns). With MOUNT, this process must
/// have one thread.
pub fn enter(pidfd: impl AsFd, namespaces: ThreadNameSpaceType) -> Result<()> {
    move_into_thread_name_spaces(pidfd.as_fd(), namespaces)
        .context(|| format!("enter namespaces {namespaces:?} of a node"))
}

/// Runs `work` in the network namespace of the process, then returns to the own one.
pub fn in_network<T>(pidfd: impl AsFd, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let own = fs::File::open("/proc/thread-self/ns/net").context(|| "open the own network namespace")?;
    enter(pidfd, ThreadNameSpaceType::NETWORK)?;
    let done = work();
    rustix::thread::move_into_link_name_space(own.as_fd(), Some(rustix::thread::LinkNameSpaceType::Network))
        .context(|| "return to the own network namespace")?;
    done
}

/// Signals that are read from a descriptor instead of being delivered (man 2 signalfd).
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks these signals and opens a descriptor for them.
    pub fn block(signals: &[i32]) -> Result<Signals> {
        use std::os::fd::FromRawFd;
        // SAFETY: `set` is initialised by sigemptyset before it is read; all pointers are valid for
        // the calls.
        let raw = unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in signals {
                libc::sigaddset(&mut set, *signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        match raw {
            -1 => Err(io::Error::last_os_error()).context(|| "open a signal descriptor"),
            // SAFETY: a fresh descriptor that nobody else owns.
            fd => Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) })),
        }
    }

    /// Reads the number of the next pending signal.
    pub fn next(&self) -> Option<i32> {
        let mut info = [0; 128];
        match rustix::io::read(&self.0, &mut info) {
            Ok(128) => Some(i32::from_ne_bytes([info[0], info[1], info[2], info[3]])),
            _ => None,
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reaps all children that have ended, and gives their PIDs.
pub fn reap() -> Vec<i32> {
    use rustix::process::{WaitOptions, wait};
    std::iter::from_fn(|| wait(WaitOptions::NOHANG).ok().flatten().map(|(pid, _)| pid.as_raw_nonzero().get())).collect()
}

/// Lists the processes in the PID namespace of `init` by their ids on this machine.
pub fn members(init: Process) -> Result<Vec<i32>> {
    let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid"));
    let own = namespace(init.pid).context(|| format!("read /proc/{}/ns/pid", init.pid))?;
    let entries = fs::read_dir("/proc").context(|| "read /proc")?.flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    Ok(pids.filter(|pid| namespace(*pid).is_ok_and(|ns| ns == own)).collect())
}
