//! Running a command in a node. The command keeps terminal, descriptors, environment and working
//! directory, and its exit status is passed on.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use control_protocol::paths::{RUN_ENV, STATE_ENV};
use rustix::fs::{FlockOperation, flock};
use rustix::thread::ThreadNameSpaceType as Namespaces;

use crate::cgroup;
use crate::ended::Ended;
use crate::error::{Context, Error, Result, chain};
use crate::machine::client;
use crate::process::enter;
use crate::state::{LabState, NodeState};

/// The command's PID while it runs, for the signal handler.
static COMMAND: AtomicI32 = AtomicI32::new(0);

/// Runs `argv` in the node and waits for its end. Only for processes with one thread.
pub fn run(node: &NodeState, argv: &[OsString]) -> Result<Ended> {
    if node.is_machine() {
        return client::run(node, argv);
    }
    wait(start(node, argv, StandardStreams::Kept)?)
}

/// Runs `argv` with this machine's files in the network of the lab's switch, which all frames pass
/// (`lab0`). Replaces this process.
pub fn run_at_switch(state: &LabState, argv: &[OsString]) -> Result<std::convert::Infallible> {
    let hub = state.hub.open().ok_or_else(|| Error::NoLab(state.options.name.to_string()))?;
    enter(hub, Namespaces::NETWORK)?;
    let (program, arguments) = argv.split_first().ok_or_else(no_command)?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).context(|| format!("run {} at the switch", program.to_string_lossy()))
}

fn wait(pid: i32) -> Result<Ended> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for the call.
        match unsafe { libc::waitpid(pid, &mut status, 0) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()).context(|| "wait for the command"),
            _ if libc::WIFEXITED(status) => return Ok(Ended::Exit(libc::WEXITSTATUS(status) as u8)),
            _ => return Ok(Ended::Signal(libc::WTERMSIG(status))),
        }
    }
}

/// Starts `argv` in the node as a daemon: a child of the node's init, in a session of its own,
/// without input. Its output goes to [`LOG`], which the daemon keeps locked while it lives. Only
/// for processes with one thread.
pub fn start_daemon(node: &NodeState, argv: &[OsString]) -> Result<()> {
    if node.is_machine() {
        return client::start_daemon(node, argv);
    }
    wait(start(node, argv, StandardStreams::Daemon)?).map(drop)
}

/// Tells whether the daemon that was started with `log` (as this machine reaches it) has ended.
pub fn daemon_has_ended(log: &Path) -> bool {
    File::open(log).is_ok_and(|log| flock(&log, FlockOperation::NonBlockingLockShared).is_ok())
}

/// The standard descriptors of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StandardStreams {
    /// The descriptors of the caller.
    Kept,
    /// The descriptors of a daemon.
    Daemon,
}

/// The file in the node with the standard output and standard error of daemons.
pub const LOG: &str = "/run/lab/ternd.log";

/// Starts `argv` in the node. Gives the child's PID on this machine. Only for processes with one
/// thread.
fn start(node: &NodeState, argv: &[OsString], standard: StandardStreams) -> Result<i32> {
    let pidfd = node.init.open().ok_or_else(|| Error::NodeDown(node.name.clone()))?;
    // Only children enter a PID namespace.
    enter(&pidfd, Namespaces::PROCESS_ID)?;
    let held = Held::new();
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context(|| "fork"),
        0 => {
            drop(held);
            let Err((code, error)) = become_command(node, &pidfd, argv, standard);
            eprintln!("tern lab: {}", chain(&error));
            std::process::exit(code)
        }
        pid => {
            if standard == StandardStreams::Kept {
                forward_signals(pid);
            }
            Ok(pid)
        }
    }
}

/// Signals that are passed on to the command.
const FORWARDED: [i32; 4] = [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// Signals from keys, which reach both processes. The command decides about their effect.
const OF_KEYS: [i32; 2] = [libc::SIGINT, libc::SIGQUIT];

/// A guard that blocks all of these signals: the command may get one before its PID is known here.
struct Held {
    before: libc::sigset_t,
}

impl Held {
    fn new() -> Held {
        // SAFETY: both sets are initialised, by sigemptyset and by sigprocmask, before they are
        // read.
        unsafe {
            let (mut held, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut held);
            for signal in FORWARDED.into_iter().chain(OF_KEYS) {
                libc::sigaddset(&mut held, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &held, &mut before);
            Held { before }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the set is what the kernel gave.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

fn become_command(
    node: &NodeState,
    pidfd: &OwnedFd,
    argv: &[OsString],
    standard: StandardStreams,
) -> Result<std::convert::Infallible, (i32, Error)> {
    let (program, arguments) = argv.split_first().ok_or_else(|| (125, no_command()))?;
    let place = std::env::current_dir().unwrap_or_else(|_| "/".into());
    cgroup::join(&node.cgroups).map_err(|e| (125, e))?;
    let all = Namespaces::MOUNT
        | Namespaces::NETWORK
        | Namespaces::HOST_NAME_AND_NIS_DOMAIN_NAME
        | Namespaces::INTER_PROCESS_COMMUNICATION
        | Namespaces::CONTROL_GROUP;
    enter(pidfd, all).map_err(|e| (125, e))?;
    if standard == StandardStreams::Daemon {
        detach().map_err(|e| (125, e))?;
    }
    let place = if place.is_dir() && standard == StandardStreams::Kept { place.as_path() } else { Path::new("/") };
    let error = Command::new(program)
        .args(arguments)
        .current_dir(place)
        .env("PATH", search_path(node))
        .env(STATE_ENV, node.state_dir())
        .env("TERN_PACE", node.pace.to_string())
        .env_remove(RUN_ENV)
        .exec();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Err((code, Error::System { what: format!("run {} on {}", program.to_string_lossy(), node.name), source: error }))
}

fn no_command() -> Error {
    Error::Invalid { what: "command", value: String::new(), reason: "a program's name is needed".into() }
}

fn detach() -> Result<()> {
    rustix::process::setsid().context(|| "start a session")?;
    let null = File::open("/dev/null").context(|| "open /dev/null")?;
    let log = File::options().create(true).append(true).open(LOG).context(|| format!("open {LOG}"))?;
    flock(&log, FlockOperation::NonBlockingLockExclusive).context(|| format!("lock {LOG}: another daemon is there"))?;
    // A process whose parent is outside of the PID namespace would be inherited by this machine's
    // init, not by the node's. SAFETY: this process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()).context(|| "fork"),
        0 => {}
        _ => std::process::exit(0),
    }
    rustix::stdio::dup2_stdin(&null).context(|| "redirect standard input")?;
    rustix::stdio::dup2_stdout(&log).context(|| "redirect standard output")?;
    rustix::stdio::dup2_stderr(&log).context(|| "redirect standard error")
}

fn search_path(node: &NodeState) -> OsString {
    if !node.whole {
        return "/bin".into();
    }
    let mut path = OsString::from("/run/lab/bin");
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    path
}

/// Passes signals on that are sent to this process alone. Signals from the terminal reach the
/// command by themselves, because it is in the same process group.
fn forward_signals(pid: i32) {
    extern "C" fn forward(signal: libc::c_int) {
        // SAFETY: kill is async-signal-safe; the child is not reaped before this process ends, so
        // the PID is its own.
        unsafe { libc::kill(COMMAND.load(Ordering::Relaxed), signal) };
    }
    COMMAND.store(pid, Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int) = forward;
    // SAFETY: the handler calls only async-signal-safe functions.
    unsafe {
        for signal in OF_KEYS {
            libc::signal(signal, libc::SIG_IGN);
        }
        for signal in FORWARDED {
            libc::signal(signal, handler as libc::sighandler_t);
        }
    }
}

/// Ends this process as the command ended.
pub fn end_like(ended: Ended) -> u8 {
    match ended {
        Ended::Exit(code) => code,
        Ended::Signal(signal) => {
            // SAFETY: plain system calls on this process; `none` is a valid struct rlimit. No core
            // file, because it would be of this tool, not of the command.
            unsafe {
                let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_CORE, &none);
                libc::signal(signal, libc::SIG_DFL);
                libc::kill(libc::getpid(), signal);
            }
            128u8.wrapping_add(signal as u8)
        }
    }
}
