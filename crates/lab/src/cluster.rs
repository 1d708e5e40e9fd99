//! The cluster in a lab: n1 founds it, the other nodes are invited and join, until every daemon
//! lists all nodes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use control_protocol::codec::encode;
use control_protocol::tool::{Answer, Assembly, PACKET_BYTES, REQUEST_BYTES, Request, Status};
use rustix::process::Signal;

use crate::error::{Context, Error, Result};
use crate::exec::{LOG, daemon_has_ended, start_daemon};
use crate::machine::client;
use crate::process::{Process, members};
use crate::programs::{LAB, TERN};
use crate::state::{LabState, NodeState};

/// The time that founding the cluster may take, beside [`PER_NODE`].
const LIMIT: Duration = Duration::from_secs(60);
/// Additional time for every node.
const PER_NODE: Duration = Duration::from_millis(500);
/// Additional time for every virtual machine.
const PER_MACHINE: Duration = Duration::from_secs(60);
/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(5);
/// The time that one daemon may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Founds the cluster and starts all daemons. Returns when every daemon lists all nodes as alive.
pub fn found(state: &LabState) -> Result<()> {
    let Some((home, others)) = state.nodes.split_first() else { return Ok(()) };
    let options = &state.options;
    let end = Instant::now() + LIMIT + PER_NODE * options.nodes + PER_MACHINE * options.machines;
    let mut daemons = vec![Daemon::start(home, &["init".into()])?];
    daemons[0].wait(end, |_| true)?;
    let tokens = invitations(home, others.len())?;
    for (node, token) in others.iter().zip(tokens) {
        daemons.push(Daemon::start(node, &["join".into(), token])?);
    }
    let all = options.all_nodes();
    let complete = |status: &Status| status.alive == all && status.known == all;
    daemons.iter().try_for_each(|daemon| daemon.wait(end, complete))?;
    state.nodes.iter().try_for_each(|node| trust_root(node, &options.root_on))
}

/// Makes a node trust these nodes with root's processes.
fn trust_root(node: &NodeState, root_on: &str) -> Result<()> {
    let refused = |reason: String| Error::Setup { who: format!("root-on of {}", node.name), reason };
    match ask(node, &Request::SetPolicy { changes: vec![("root-on".into(), root_on.into())] }) {
        Some(Answer::Done) => Ok(()),
        Some(Answer::Failed { reason, .. }) => Err(refused(reason)),
        _ => Err(refused("ternd did not answer as it should".into())),
    }
}

/// Asks the daemon of a node for its status; `None` if there is none.
pub fn status(node: &NodeState) -> Option<Status> {
    match ask(node, &Request::Status)? {
        Answer::Status(status) => Some(status),
        _ => None,
    }
}

/// Kills the node's daemon without warning, if there is one.
pub fn kill_daemon(node: &NodeState) -> Result<()> {
    if node.is_machine() {
        return client::kill_daemon(node);
    }
    for pid in members(node.init)? {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if arguments.split(|b| *b == 0).next() == Some(b"ternd") {
            let daemon = Process::of(pid)?;
            daemon.signal(Signal::KILL);
            daemon.wait(ANSWER_LIMIT);
        }
    }
    Ok(())
}

/// Kills the node's daemon and starts another one with these flags. Returns when the new daemon
/// answers.
pub fn restart_daemon(node: &NodeState, flags: &[String]) -> Result<()> {
    kill_daemon(node)?;
    let words: Vec<OsString> =
        daemon_words(node).iter().map(OsString::from).chain(flags.iter().map(OsString::from)).collect();
    start_daemon(node, &words)?;
    Daemon { node }.wait(Instant::now() + LIMIT, |_| true)
}

/// The words that begin the command line of a node's daemon.
fn daemon_words(node: &NodeState) -> &'static [&'static str] {
    if node.pace > 1 { &[LAB, "daemon"] } else { &["ternd"] }
}

/// The words that begin a command line of the tool, if its process goes on as the daemon.
fn tool_words(node: &NodeState) -> &'static [&'static str] {
    if node.pace > 1 { &[LAB, "as-node"] } else { &[TERN] }
}

struct Daemon<'a> {
    node: &'a NodeState,
}

impl Daemon<'_> {
    /// Runs `tern init` or `tern join TOKEN` on the node, which continues as the node's daemon.
    fn start<'a>(node: &'a NodeState, command: &[String]) -> Result<Daemon<'a>> {
        let address = node.address.to_string();
        let options = ["--name", &node.name, "--addr", &address, "--daemon"];
        let words = tool_words(node).iter().copied().chain(command.iter().map(String::as_str)).chain(options);
        let argv: Vec<OsString> = words.map(OsString::from).collect();
        start_daemon(node, &argv)?;
        Ok(Daemon { node })
    }

    /// Waits until the status of the daemon is as wanted.
    fn wait(&self, end: Instant, wanted: impl Fn(&Status) -> bool) -> Result<()> {
        let start = Instant::now();
        loop {
            let seen = status(self.node);
            if seen.as_ref().is_some_and(&wanted) {
                return Ok(());
            }
            if seen.is_none() && self.has_ended() {
                return Err(Error::Setup { who: format!("ternd on {}", self.node.name), reason: self.last_words() });
            }
            if Instant::now() >= end {
                let detail = match seen {
                    Some(status) => format!("; it sees {} of {} nodes alive", status.alive, status.known),
                    None => "; it does not answer".into(),
                };
                let what = format!("ternd on {} to see all nodes", self.node.name);
                return Err(Error::Timeout { what, seconds: start.elapsed().as_secs(), detail });
            }
            sleep(PAUSE);
        }
    }

    fn has_ended(&self) -> bool {
        match self.node.is_machine() {
            true => client::daemon(self.node).is_ok_and(|(ended, _)| ended),
            false => daemon_has_ended(&inside(self.node, LOG)),
        }
    }

    fn last_words(&self) -> String {
        let text = match self.node.is_machine() {
            true => client::daemon(self.node).map(|(_, log)| log),
            false => std::fs::read_to_string(inside(self.node, LOG)).context(|| "read its log"),
        };
        let text = text.unwrap_or_default();
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        let words = last.into_iter().rev().collect::<Vec<_>>().join("; ");
        if words.is_empty() { "it ended without a word".into() } else { words }
    }
}

fn invitations(home: &NodeState, count: usize) -> Result<Vec<String>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let refused = |reason: String| Error::Setup { who: format!("invitation by {}", home.name), reason };
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let request = Request::Invite { valid_s: 600, count, authority: true, loopback: false };
    match ask(home, &request) {
        Some(Answer::Invited { tokens, .. }) if u32::try_from(tokens.len()) == Ok(count) => Ok(tokens),
        Some(Answer::Failed { reason, .. }) => Err(refused(reason)),
        _ => Err(refused("ternd did not answer as it should".into())),
    }
}

/// Asks the daemon of a node; `None` if it cannot be reached or does not answer.
fn ask(node: &NodeState, request: &Request) -> Option<Answer> {
    match node.is_machine() {
        true => client::ask(node, request),
        false => {
            ask_at(&control_protocol::paths::daemon_socket(&inside(node, control_protocol::paths::RUN_DIR)), request)
        }
    }
}

/// Asks the daemon at this socket; `None` if it cannot be reached or does not answer.
pub fn ask_at(socket: &Path, request: &Request) -> Option<Answer> {
    let socket = packet::connect(socket).ok()?;
    packet::set_timeout(&socket, Some(ANSWER_LIMIT)).ok()?;
    packet::send(&socket, &encode(request, REQUEST_BYTES).ok()?, &[]).ok()?;
    let mut assembly = Assembly::default();
    loop {
        let packet = packet::receive(&socket, PACKET_BYTES).ok()?;
        if packet.bytes.is_empty() {
            return None;
        }
        if let Some(answer) = assembly.take(&packet.bytes).ok()? {
            return Some(answer);
        }
    }
}

/// Gives a path of the node, as this machine reaches it.
fn inside(node: &NodeState, path: &str) -> PathBuf {
    Path::new("/proc").join(node.init.pid.to_string()).join("root").join(path.trim_start_matches('/'))
}
