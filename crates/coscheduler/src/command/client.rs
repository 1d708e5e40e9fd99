//! Asking the agent, which is started if there is none.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::agent::{ROLE, SOCKET};
use crate::protocol::{Answer, PACKET_MAX, Request};

/// The first word of the command line of a process that starts an agent.
pub const STARTER_ROLE: &str = "__cosched-start";

/// The name of the agent's log.
pub const LOG: &str = "cosched.log";

/// An agent has begun to listen, or answered, after so long at most.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

/// Tells whether there is an agent.
pub fn is_served(directory: &Path) -> bool {
    connect(directory).is_ok()
}

/// Asks the agent of this directory. Starts one if there is none.
///
/// # Errors
/// No agent can be started, or it does not answer.
pub fn ask(directory: &Path, request: &Request) -> io::Result<Answer> {
    let begun = Instant::now();
    loop {
        match try_ask(directory, request) {
            // An agent that had no jobs any more may have ended at this moment.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof && begun.elapsed() < PATIENCE => {}
            done => return done,
        }
    }
}

fn try_ask(directory: &Path, request: &Request) -> io::Result<Answer> {
    let socket = match connect(directory) {
        Ok(socket) => socket,
        Err(_) => start(directory)?,
    };
    let gone = |e: io::Error| match e.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => io::ErrorKind::UnexpectedEof.into(),
        _ => e,
    };
    packet::send(&socket, &serde_json::to_vec(request)?, &[]).map_err(gone)?;
    let packet = packet::receive(&socket, PACKET_MAX).map_err(gone)?;
    if packet.bytes.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&packet.bytes)?)
}

fn connect(directory: &Path) -> io::Result<OwnedFd> {
    let socket = packet::connect_within(&directory.join(SOCKET), PATIENCE)?;
    // Where others can write, any program could serve the socket.
    match packet::peer(&socket)?.uid == rustix::process::geteuid().as_raw() {
        true => Ok(socket),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Starts an agent by way of another process, which ends when the agent serves. The agent is thus
/// no child of this process, whose program may wait for its children.
fn start(directory: &Path) -> io::Result<OwnedFd> {
    let log = OpenOptions::new().create(true).append(true).open(directory.join(LOG))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("tern").arg(STARTER_ROLE).arg(directory).current_dir("/");
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).status()?;
    if status.success() { connect(directory) } else { Err(io::Error::other("it ended at once")) }
}

/// Starts the agent of the directory that the only argument names, and waits until the agent
/// serves.
pub fn starter_main(args: &[String]) -> ExitCode {
    let started =
        args.first().ok_or(io::ErrorKind::InvalidInput.into()).and_then(|directory| serve(Path::new(directory)));
    match started {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("cosched: starting an agent: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve(directory: &Path) -> io::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    let mut agent = command.arg0("tern").arg(ROLE).arg(directory).stdin(Stdio::null()).spawn()?;
    let begun = Instant::now();
    loop {
        match connect(directory) {
            Ok(_) => return Ok(()),
            Err(e) if begun.elapsed() > PATIENCE => return Err(e),
            Err(_) => {}
        }
        if agent.try_wait()?.is_some_and(|status| !status.success()) {
            return Err(io::Error::other("it ended at once"));
        }
        std::thread::sleep(PAUSE);
    }
}
