//! A child that stands for its parent: the parent waits for it, passes signals on, and ends as the
//! child did.

use crate::error::check;
use crate::pidfd::PidFd;
use crate::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Signals that a parent passes on if they were sent to it alone.
const PASSED_ON: [i32; 6] = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Which of the two processes this is.
pub enum Begun {
    /// The child, with the signal mask that the parent had.
    Child,
    /// The process that was there before.
    Parent(Job),
}

/// A child that is waited for.
pub struct Job {
    pid: i32,
    process: PidFd,
    signals: OwnedFd,
    mask: libc::sigset_t,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its status, as wait4(2) gives it.
    status: i32,
    /// CPU time of the child and of what it waited for, microseconds.
    pub cpu_us: u64,
}

/// Makes the child. The caller has no other thread. If `dies_with_parent`, SIGKILL ends the child
/// when the parent ends.
///
/// # Errors
/// There are too many processes or descriptors.
pub fn begin(dies_with_parent: bool) -> Result<Begun> {
    let mut set = empty();
    for signal in PASSED_ON {
        // SAFETY: the set is initialised.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    let mut mask = empty();
    // SAFETY: both sets live here.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut mask) };
    // SAFETY: returns a new descriptor.
    let signals = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) }, || "signalfd".into())?;
    // SAFETY: the kernel just made it for us.
    let signals = unsafe { OwnedFd::from_raw_fd(signals) };
    // SAFETY: there is one thread, as the caller promises.
    let pid = check(unsafe { libc::fork() }, || "making a process".into())?;
    if pid > 0 {
        return Ok(Begun::Parent(Job { pid, process: PidFd::open(pid)?, signals, mask }));
    }
    drop(signals);
    // SAFETY: the mask was just read; no memory is passed to prctl.
    unsafe {
        if dies_with_parent {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
    }
    Ok(Begun::Child)
}

fn empty() -> libc::sigset_t {
    // SAFETY: a set of signals is plain data, which sigemptyset initialises.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        set
    }
}

impl Job {
    /// Waits until the child has ended, and passes signals on to it. Signals of the terminal reach
    /// the child by themselves. Afterwards this process has the signal mask that it had.
    ///
    /// # Errors
    /// None that a program could do something about.
    pub fn wait(self) -> Result<Ended> {
        loop {
            if let Some(ended) = self.ended()? {
                // SAFETY: the mask was read by `begin`.
                unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut()) };
                return Ok(ended);
            }
            if self.awaits_signal() {
                self.pass_on();
            }
        }
    }

    /// Waits until a signal has come, or the child has ended. Tells whether a signal has come.
    fn awaits_signal(&self) -> bool {
        let readable = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polled = [readable(self.signals.as_raw_fd()), readable(self.process.as_fd().as_raw_fd())];
        // SAFETY: two live entries.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
        polled[0].revents != 0
    }

    /// Passes on a signal that has come, if it did not come from the terminal.
    fn pass_on(&self) {
        // SAFETY: plain data that read(2) fills.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let bytes = size_of_val(&info);
        // SAFETY: so many bytes may be written there.
        let read = unsafe { libc::read(self.signals.as_raw_fd(), (&raw mut info).cast(), bytes) };
        if usize::try_from(read) == Ok(bytes) && info.ssi_code <= 0 {
            // The child is not reaped, so the descriptor is its own, ended or not.
            let _ = self.process.kill(i32::try_from(info.ssi_signo).unwrap_or(0));
        }
    }

    fn ended(&self) -> Result<Option<Ended>> {
        let mut status = 0;
        // SAFETY: plain data that wait4(2) fills.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both live here.
        let pid = unsafe { libc::wait4(self.pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
        match pid {
            0 => Ok(None),
            pid if pid == self.pid => {
                let us = |time: libc::timeval| u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0);
                Ok(Some(Ended { status, cpu_us: us(usage.ru_utime) + us(usage.ru_stime) }))
            }
            _ => Err(Error::last(format!("waiting for process {}", self.pid))),
        }
    }
}

impl Ended {
    /// Tells whether the child ended with status 0.
    pub fn is_success(&self) -> bool {
        self.status == 0
    }

    /// Gives the exit status. If a signal ended the child, the same signal ends this process.
    pub fn exit_status(&self) -> u8 {
        if !libc::WIFSIGNALED(self.status) {
            return u8::try_from(libc::WEXITSTATUS(self.status)).unwrap_or(u8::MAX);
        }
        let signal = libc::WTERMSIG(self.status);
        die_by(signal);
        u8::try_from(128 + signal).unwrap_or(u8::MAX)
    }
}

/// Ends this process by a signal, without a core: the child has left one, if it is wanted. Returns
/// if the signal ends no process.
fn die_by(signal: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let mut set = empty();
    // SAFETY: all memory lives here, and the default action runs no code.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    /// This test again, as a program of one thread.
    fn alone(what: &str) -> std::process::ExitStatus {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", "job::tests::as_a_program", "--test-threads=1"]).env("TERN_TEST_JOB", what);
        command.stdout(std::process::Stdio::null()).status().unwrap()
    }

    #[test]
    fn as_a_program() {
        let Ok(what) = std::env::var("TERN_TEST_JOB") else { return };
        // The harness runs tests in threads of its own, which wait.
        match begin(true).unwrap() {
            Begun::Child => {
                let mut command = Command::new("sh");
                let _ = std::os::unix::process::CommandExt::exec(command.args(["-c", &what]));
                std::process::exit(99);
            }
            Begun::Parent(job) => {
                let ended = job.wait().unwrap();
                std::process::exit(ended.exit_status().into());
            }
        }
    }

    #[test]
    fn the_parent_ends_as_the_child_does() {
        assert_eq!(alone("exit 7").code(), Some(7));
        assert_eq!(alone("kill -TERM $$").signal(), Some(libc::SIGTERM));
        assert_eq!(alone("ulimit -c 0; kill -SEGV $$").signal(), Some(libc::SIGSEGV));
    }
}
