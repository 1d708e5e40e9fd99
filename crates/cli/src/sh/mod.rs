//! `tern sh`: one command on one node or many, in node-local mode.
//!
//! Each node's command is a child of this process: `tern run --local --on NODE`, which becomes the
//! command's deputy. So the kernel here keeps count of them, `ps` shows them, and Ctrl-C reaches
//! all: they are in this process' group.

mod streams;

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::args::{self, Sh};
use crate::{Dirs, Error, Host, nodes, run};

/// Runs the command. Gives the exit status.
pub(crate) fn sh(dirs: &Dirs, args: &Sh, host: Host) -> Result<u8, Error> {
    let nodes = nodes::chosen(dirs, &args.nodes)?;
    if let [node] = nodes.as_slice()
        && !args.prefix
        && !args.stdin
        && args.output_dir.is_none()
    {
        (host.restore_inheritance)();
        let (channel, program) = run::place(dirs, &run_on(node, args), Vec::new(), host.begins_at_home)?;
        (host.become_deputy)(channel, &program)
    }
    let interrupts = (host.interrupts)().map_err(|source| Error::Local { what: "watch for interrupts", source })?;
    let mut started = Vec::new();
    let mut streams = streams::Streams::new(args)?;
    for node in nodes {
        let child = piped(dirs, args, &node).spawn();
        let mut child = child.map_err(|source| Error::Local { what: "start tern run", source })?;
        streams.take(&node, &mut child)?;
        started.push((node, child));
    }
    streams.feed();
    let children = Arc::new(Children(Mutex::new(started.iter().map(|(_, child)| Some(child.id())).collect())));
    pass_interrupts(Arc::clone(&children), interrupts);
    let mut worst = 0;
    for (at, (node, child)) in started.iter_mut().enumerate() {
        let status = children.wait(at, child).map_err(|source| Error::Local { what: "wait for a node", source })?;
        worst = worst.max(code(status));
        if !args.quiet && !status.success() {
            streams.say(&format!("tern sh: {node}: {}", words(status)));
        }
    }
    streams.end();
    Ok(worst)
}

/// The arguments of `tern run --local --on NODE`.
fn run_on(node: &str, args: &Sh) -> args::Run {
    args::Run {
        on: Some(node.to_owned()),
        local: true,
        movable: false,
        any_cpu: false,
        as_root: args.as_root,
        force: false,
        cosched: None,
        strict: false,
        quiet: true,
        command: args.command.clone(),
    }
}

/// The command of a node, with pipes.
fn piped(dirs: &Dirs, args: &Sh, node: &str) -> Command {
    let mut command = command(dirs, node, args.as_root);
    command.arg("--").args(args.command.iter().map(|w| w as &OsStr));
    let stdin = if args.stdin { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `tern run --local --on NODE`, without the program's words.
pub(crate) fn command(dirs: &Dirs, node: &str, as_root: bool) -> Command {
    // Also right after the file was replaced by an upgrade: the same program as this one.
    let mut command = Command::new("/proc/self/exe");
    command.arg("--state").arg(&dirs.state).arg("--run-dir").arg(&dirs.run_dir);
    command.args(["--timeout", &format!("{}us", dirs.timeout.as_micros())]);
    command.args(["run", "--quiet", "--local", "--on", node]);
    command.args(as_root.then_some("--as-root"));
    command
}

fn code(status: ExitStatus) -> u8 {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) if status.core_dumped() => format!("ended by signal {signal} (core dumped)"),
        (None, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
    }
}

/// PIDs of children that have not been waited for: these numbers are theirs.
struct Children(Mutex<Vec<Option<u32>>>);

impl Children {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<u32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of one, and forgets it before its number may be another process'.
    fn wait(&self, at: usize, child: &mut Child) -> std::io::Result<ExitStatus> {
        if let Some(pid) = pid_of(child.id()) {
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), ended))?;
        }
        let mut children = self.lock();
        children[at] = None;
        child.wait()
    }

    fn interrupt(&self) {
        for pid in self.lock().iter().flatten().filter_map(|pid| pid_of(*pid)) {
            // One that has just ended needs no signal.
            let _ = kill_process(pid, Signal::INT);
        }
    }
}

fn pid_of(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Has an interrupt that this process alone was sent reach all children. Those that the terminal
/// sends, it sends to them as well.
fn pass_interrupts(children: Arc<Children>, interrupts: OwnedFd) {
    std::thread::spawn(move || {
        let mut one = [PollFd::new(&interrupts, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut one, None)).is_ok() && !is_in_foreground() {
            children.interrupt();
        }
    });
}

/// Whether this process' group has its terminal (proc_pid_stat(5): the fields 5 and 8).
fn is_in_foreground() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let mut fields = stat.rsplit(')').next().unwrap_or("").split_ascii_whitespace().skip(2);
    let (group, of_terminal) = (fields.next(), fields.nth(2));
    group.is_some() && group == of_terminal
}
