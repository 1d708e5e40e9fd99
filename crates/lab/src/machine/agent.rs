//! The agent in a virtual machine: carries out the lab's commands that arrive over the machine's
//! network. It answers only the switch, where no guest is.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

use super::words::{AgentRequest, Happened, Input, PIECE_BYTES, PORT, Reply, receive, send};
use crate::cluster;
use crate::error::{Context, Result};
use crate::exec::LOG;
use crate::link;
use crate::state::{MACHINE_STATE_DIR, SWITCH_ADDRESS};

/// The role of this process.
pub const ROLE: &str = "__lab-agent";
/// The most bytes of the daemon's log that are reported.
const LOG_BYTES: usize = 4 << 10;
const SECOND_NS: i64 = 1_000_000_000;

/// The daemon that was started last.
static DAEMON: Mutex<Option<Child>> = Mutex::new(None);

/// Serves until the machine ends.
pub fn main() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).context(|| format!("listen on port {PORT}"))?;
    loop {
        let Ok((stream, peer)) = listener.accept() else { continue };
        if peer.ip() == SWITCH_ADDRESS {
            std::thread::spawn(move || serve(stream));
        }
    }
}

fn serve(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let reply = match receive(&stream)? {
            AgentRequest::Run { argv, environment } => {
                let mut command = Command::new(argv.first().cloned().unwrap_or_default());
                command.args(argv.iter().skip(1)).env_clear().envs(environment);
                return run(surrounded(&mut command), &stream);
            }
            order => obey(order),
        };
        send(&stream, &reply)?;
    }
}

/// Sets what all commands of the machine have in common.
fn surrounded(command: &mut Command) -> &mut Command {
    command.env("PATH", "/bin").env("TERN_STATE", MACHINE_STATE_DIR).current_dir("/")
}

fn obey(order: AgentRequest) -> Reply {
    let done = |result: Result<()>| Reply::Done(result.map_err(|e| crate::error::chain(&e)));
    match order {
        AgentRequest::Ask(request) => Reply::Answered(cluster::ask_at(
            &control_protocol::paths::daemon_socket(control_protocol::paths::RUN_DIR.as_ref()),
            &request,
        )),
        AgentRequest::Start(argv) => done(start(&argv)),
        AgentRequest::Daemon => {
            let mut daemon = DAEMON.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let ended = !daemon.as_mut().is_some_and(|d| matches!(d.try_wait(), Ok(None)));
            let log = fs::read_to_string(LOG).unwrap_or_default();
            let from = log.char_indices().rev().nth(LOG_BYTES).map_or(0, |(at, _)| at);
            Reply::Daemon { ended, log: log[from..].to_owned() }
        }
        AgentRequest::KillDaemon => {
            let daemon = DAEMON.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            done(
                daemon.map_or(Ok(()), |mut d| d.kill().and_then(|()| d.wait().map(drop)).context(|| "kill the daemon")),
            )
        }
        AgentRequest::Clock => Reply::Clock(clock_ns()),
        AgentRequest::StepClock(ns) => done(step_clock(ns)),
        AgentRequest::Reachable(index, reachable) => done(link::set_reachable(index, reachable)),
        AgentRequest::List(path) => Reply::Names(
            fs::read_dir(&path)
                .map_err(|e| e.to_string())
                .map(|entries| entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect()),
        ),
        AgentRequest::Run { .. } => Reply::Done(Err("a command cannot follow another order".into())),
    }
}

fn start(argv: &[std::ffi::OsString]) -> Result<()> {
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput).context(|| "start nothing")?;
    let log = File::options().create(true).append(true).open(LOG).context(|| format!("open {LOG}"))?;
    let errors = log.try_clone().context(|| "share the log")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log).stderr(errors);
    // SAFETY: setsid is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        })
    };
    let daemon = surrounded(&mut command).spawn().context(|| format!("start {}", program.to_string_lossy()))?;
    *DAEMON.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(daemon);
    Ok(())
}

fn clock_ns() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * SECOND_NS + now.tv_nsec
}

fn step_clock(by_ns: i64) -> Result<()> {
    let ns = clock_ns().saturating_add(by_ns);
    let time = Timespec { tv_sec: ns.div_euclid(SECOND_NS), tv_nsec: ns.rem_euclid(SECOND_NS) };
    clock_settime(ClockId::Realtime, time).context(|| "set the clock")
}

/// Runs a command whose standard descriptors are at the other end of `stream`.
fn run(command: &mut Command, stream: &TcpStream) -> io::Result<()> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            let code = if e.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
            return send(stream, &Happened::NotRun(code, e.to_string()));
        }
    };
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let group = child.id() as i32;
    let over = AtomicBool::new(false);
    let to_other_end = Mutex::new(stream);
    std::thread::scope(|scope| {
        scope.spawn(|| feed(stdin, stream, group, &over));
        let out = scope.spawn(|| pass_on(stdout, &to_other_end, Happened::Out));
        let errors = scope.spawn(|| pass_on(stderr, &to_other_end, Happened::Err));
        let _ = (out.join(), errors.join());
        let status = child.wait();
        over.store(true, Ordering::SeqCst);
        let word = match &status {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Happened::Exited(code as u8),
                (None, signal) => Happened::Killed(signal.unwrap_or(libc::SIGKILL)),
            },
            Err(e) => Happened::NotRun(126, e.to_string()),
        };
        let sent = send(stream, &word);
        // The client closes the connection now, which ends the thread that waits for input.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        sent
    })
}

/// Feeds input to the command. If the client disconnects before it has closed the input, the
/// command is killed.
fn feed(mut stdin: Option<ChildStdin>, mut stream: &TcpStream, group: i32, over: &AtomicBool) {
    while let Ok(Input(piece)) = receive(&mut stream) {
        match stdin.as_mut().filter(|_| !piece.is_empty()) {
            // A command need not read all of its input.
            Some(pipe) => drop(pipe.write_all(&piece)),
            None => stdin = None,
        }
    }
    if !over.load(Ordering::SeqCst) {
        // SAFETY: a plain system call; the group is the command's own, which has not been waited
        // for.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

fn pass_on(from: Option<impl Read>, to: &Mutex<&TcpStream>, word: fn(Vec<u8>) -> Happened) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; PIECE_BYTES];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let to = to.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if send(*to, &word(buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}
