//! Requests to the agent of a virtual machine, all made in the switch's network.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use control_protocol::tool::{Answer, Request};

use super::words::{AgentRequest, Happened, Input, PIECE_BYTES, PORT, Reply, receive, send};
use crate::ended::Ended;
use crate::error::{Context, Error, Result};
use crate::process::in_network;
use crate::state::NodeState;

/// The time that an agent may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// The time that an agent may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// The number of readings of a clock, of which the quickest counts.
const READINGS: usize = 30;

fn connect(agent: Ipv4Addr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&(agent, PORT).into(), CONNECT_LIMIT)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn order(agent: Ipv4Addr, order: &AgentRequest) -> io::Result<Reply> {
    let stream = connect(agent)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    send(&stream, order)?;
    receive(&stream)
}

/// Reads the machine's wall clock, nanoseconds since 1970. The caller must be in the switch's
/// network.
pub fn clock(agent: Ipv4Addr) -> Result<i64> {
    match order(agent, &AgentRequest::Clock).context(|| format!("ask {agent} for its clock"))? {
        Reply::Clock(ns) => Ok(ns),
        other => Err(unexpected(other)),
    }
}

/// Sets the machine's wall clock to this machine's plus `error_ns`. The caller must be in the
/// switch's network.
pub fn set_clock_error(agent: Ipv4Addr, error_ns: i64) -> Result<()> {
    let mut best: Option<(Duration, i64)> = None;
    for _ in 0..READINGS {
        let (start, start_ns) = (Instant::now(), wall_clock_ns());
        let there_ns = clock(agent)?;
        let round_trip = start.elapsed();
        let ahead_ns = there_ns - start_ns - (round_trip.as_nanos() / 2) as i64;
        if best.is_none_or(|(quickest, _)| round_trip < quickest) {
            best = Some((round_trip, ahead_ns));
        }
    }
    let step_ns = error_ns - best.map_or(0, |(_, ahead_ns)| ahead_ns);
    done(order(agent, &AgentRequest::StepClock(step_ns)).context(|| format!("set the clock of {agent}"))?, "its agent")
}

fn wall_clock_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn unexpected(reply: Reply) -> Error {
    Error::Setup {
        who: "a machine's agent".into(),
        reason: format!("it answered {reply:?}, which does not fit the request"),
    }
}

fn done(reply: Reply, who: &str) -> Result<()> {
    match reply {
        Reply::Done(Ok(())) => Ok(()),
        Reply::Done(Err(reason)) => Err(Error::Setup { who: who.into(), reason }),
        other => Err(unexpected(other)),
    }
}

fn ask_node(node: &NodeState, what: &AgentRequest) -> Result<Reply> {
    let pidfd = node.init.open().ok_or_else(|| down(node))?;
    in_network(pidfd, || order(node.address, what).context(|| format!("ask the agent of {}", node.name)))
}

/// Gives the error for a machine that has ended, with the end of its console.
fn down(node: &NodeState) -> Error {
    let console = node.console.as_deref().map(super::console::last_words).unwrap_or_default();
    Error::NodeDown(format!("{} (a virtual machine; its console ends with: {console})", node.name))
}

/// Asks the machine's ternd; `None` if it does not answer.
pub fn ask(node: &NodeState, request: &Request) -> Option<Answer> {
    match ask_node(node, &AgentRequest::Ask(request.clone())).ok()? {
        Reply::Answered(answer) => answer,
        _ => None,
    }
}

/// Starts a daemon in the machine.
pub fn start_daemon(node: &NodeState, argv: &[OsString]) -> Result<()> {
    done(ask_node(node, &AgentRequest::Start(argv.to_vec()))?, &node.name)
}

/// Kills the daemon that was started last.
pub fn kill_daemon(node: &NodeState) -> Result<()> {
    done(ask_node(node, &AgentRequest::KillDaemon)?, &node.name)
}

/// Tells whether the daemon has ended, and gives the end of its log.
pub fn daemon(node: &NodeState) -> Result<(bool, String)> {
    match ask_node(node, &AgentRequest::Daemon)? {
        Reply::Daemon { ended, log } => Ok((ended, log)),
        other => Err(unexpected(other)),
    }
}

/// Makes the machine's packets to the node of this number be lost, or arrive.
pub fn set_reachable(node: &NodeState, other: u32, reachable: bool) -> Result<()> {
    done(ask_node(node, &AgentRequest::Reachable(other, reachable))?, &node.name)
}

/// Lists the names in a directory of the machine.
pub fn list(node: &NodeState, path: &Path) -> Result<Vec<String>> {
    match ask_node(node, &AgentRequest::List(path.to_owned()))? {
        Reply::Names(Ok(names)) => Ok(names),
        Reply::Names(Err(reason)) => {
            Err(Error::Setup { who: format!("list {} on {}", path.display(), node.name), reason })
        }
        other => Err(unexpected(other)),
    }
}

/// Runs a command in the machine with the standard descriptors and environment of this process, but
/// without a terminal. The command ends with this process.
pub fn run(node: &NodeState, argv: &[OsString]) -> Result<Ended> {
    let pidfd = node.init.open().ok_or_else(|| down(node))?;
    let stream = in_network(pidfd, || connect(node.address).context(|| format!("reach the agent of {}", node.name)))?;
    let environment = std::env::vars_os().collect();
    let talk = || format!("talk with the agent of {}", node.name);
    send(&stream, &AgentRequest::Run { argv: argv.to_vec(), environment }).context(talk)?;
    let input = stream.try_clone().context(talk)?;
    // This thread is not joined: it may wait for input of this process for ever.
    std::thread::spawn(move || feed(&input));
    loop {
        let happened =
            receive(&stream).map_err(|e| if node.init.is_alive() { e } else { io::Error::other(down(node)) });
        match happened.context(talk)? {
            Happened::Out(piece) => drop(io::stdout().write_all(&piece).and_then(|()| io::stdout().flush())),
            Happened::Err(piece) => drop(io::stderr().write_all(&piece)),
            Happened::Exited(code) => return Ok(Ended::Exit(code)),
            Happened::Killed(signal) => return Ok(Ended::Signal(signal)),
            Happened::NotRun(code, reason) => {
                let program = argv.first().cloned().unwrap_or_default();
                eprintln!("tern lab: cannot run {} on {}: {reason}", program.to_string_lossy(), node.name);
                return Ok(Ended::Exit(code));
            }
        }
    }
}

fn feed(stream: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let length = io::stdin().read(&mut buffer).unwrap_or(0);
        send(stream, &Input(buffer[..length].to_vec()))?;
        if length == 0 {
            return Ok(());
        }
    }
}
