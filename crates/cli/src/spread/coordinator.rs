//! The coordinator's two threads: one answers programs and jobs, one follows hosts and loads.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_protocol::hosts::{HeldHosts, HostsOrder, Term, WANTED_MAX};
use control_protocol::tool::{Answer, NodeRow, Request};
use policy::spread::Kind;
use rustix::event::{PollFd, PollFlags, poll};

use super::state::State;
use super::words::{self, Command, FromJob};
use super::{What, job};
use crate::{Dirs, Error, client};

/// Hosts and loads are looked at so often.
const LOOKED_EVERY: Duration = Duration::from_millis(500);
/// A process that is slow to take its answer is not waited for longer.
const ANSWERED_WITHIN: Duration = Duration::from_millis(100);

/// A lock that a thread that panicked does not spoil.
pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for as many hosts as there are, at most so many, for a process. The daemon keeps them for
/// it as long as it lives.
///
/// # Errors
/// The daemon refuses, or does not answer.
pub(super) fn ask_for_hosts(dirs: &Dirs, state: &Mutex<State>, hosts_max: u32) -> Result<(), Error> {
    let nodes = nodes(dirs)?;
    let others = u32::try_from(nodes.iter().filter(|row| !row.here).count()).unwrap_or(WANTED_MAX);
    let holder = Some(own_pid());
    let wanted = others.min(hosts_max);
    let held = if wanted == 0 {
        HeldHosts::default()
    } else {
        held(dirs, HostsOrder::Request { wanted, term: Term::Short, holder })?
    };
    lock(state).learn(&nodes, &held);
    Ok(())
}

/// Gives the hosts back at once, rather than when the daemon sees that this process has ended.
pub(super) fn give_hosts_back(dirs: &Dirs) {
    // The daemon does it, if this fails.
    let _ = held(dirs, HostsOrder::Release { hosts: Vec::new(), holder: Some(own_pid()) });
}

/// Follows hosts and loads for as long as the process lives.
pub(super) fn follow(dirs: Dirs, state: Arc<Mutex<State>>) {
    loop {
        std::thread::sleep(LOOKED_EVERY);
        // A daemon that is being started anew is waited for; its hosts serve meanwhile.
        if let (Ok(nodes), Ok(held)) = (nodes(&dirs), held(&dirs, HostsOrder::List)) {
            lock(&state).learn(&nodes, &held);
        }
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(0)
}

fn nodes(dirs: &Dirs) -> Result<Vec<NodeRow>, Error> {
    match client::ask(dirs, &Request::Nodes)? {
        Answer::Nodes(rows) => Ok(rows),
        _ => Err(client::unexpected()),
    }
}

fn held(dirs: &Dirs, order: HostsOrder) -> Result<HeldHosts, Error> {
    match client::ask(dirs, &Request::Hosts(order))? {
        Answer::Hosts(held) => Ok(held.into_iter().find(|held| held.pid == own_pid()).unwrap_or_default()),
        _ => Err(client::unexpected()),
    }
}

/// A connection of a program or a job.
struct Connection {
    socket: OwnedFd,
    number: u64,
    pid: i32,
}

/// Answers for as long as the process lives.
pub(super) fn serve(listener: OwnedFd, state: Arc<Mutex<State>>, what: What) {
    let mut connections: Vec<Connection> = Vec::new();
    let mut number = 0;
    loop {
        let mut polled = vec![PollFd::new(&listener, PollFlags::IN)];
        polled.extend(connections.iter().map(|connection| PollFd::new(&connection.socket, PollFlags::IN)));
        if poll(&mut polled, None).is_err() {
            continue;
        }
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        drop(polled);
        let mut index = 0;
        connections.retain(|connection| {
            index += 1;
            let stays = !ready[index] || attend(connection, &state, what).unwrap_or(false);
            if !stays {
                lock(&state).remove(connection.number);
            }
            stays
        });
        if ready[0]
            && let Ok(connection) = accept(&listener, number)
        {
            number += 1;
            connections.push(connection);
        }
    }
}

/// Accepts a connection of the same user's.
fn accept(listener: &OwnedFd, number: u64) -> io::Result<Connection> {
    let socket = packet::accept(listener)?;
    let peer = packet::peer(&socket)?;
    if peer.uid != rustix::process::getuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    packet::set_timeout(&socket, Some(ANSWERED_WITHIN))?;
    Ok(Connection { socket, number, pid: peer.pid })
}

/// Takes one packet, and answers it. Gives whether the connection stays.
fn attend(connection: &Connection, state: &Mutex<State>, what: What) -> io::Result<bool> {
    let packet = packet::receive(connection.socket.as_fd(), words::PACKET_BYTES)?;
    match packet.bytes.split_first() {
        Some((&abi::spread::ASK, question)) => {
            let goes = is_worth(connection.pid, question, state, what);
            let answer = if goes { abi::spread::GOES } else { abi::spread::STAYS };
            packet::send(connection.socket.as_fd(), &[answer], &[])?;
            Ok(false)
        }
        Some((&words::JOB_TAG, message)) => {
            let message: FromJob = words::read(message)?;
            if let Some(turn) = lock(state).hear(connection.number, message) {
                let bytes = postcard::to_allocvec(&turn).map_err(io::Error::other)?;
                packet::send(connection.socket.as_fd(), &bytes, &[])?;
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Tells whether a program that process `pid` is about to execute is worth a place.
fn is_worth(pid: i32, question: &[u8], state: &Mutex<State>, what: What) -> bool {
    if what == What::BackgroundJobs && !is_in_background(pid) {
        return false;
    }
    let mut texts = question.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let Some(path) = texts.next() else { return false };
    let mut command = Command::new(path, None, texts.skip(1));
    if command.as_invocation(|invocation| invocation.kind()) == Kind::Other {
        let from: PathBuf = Path::new("/proc").join(pid.to_string()).join("cwd");
        command.interpreter = job::interpreter(&from.join(&command.path));
    }
    lock(state).is_worth(&command)
}

/// Tells whether a process belongs to a job in the background of its terminal.
fn is_in_background(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    in_background(&stat)
}

/// The same, by the process's line of /proc: its group is not the terminal's.
fn in_background(stat: &str) -> bool {
    // Behind the name, in parentheses, come state, parent, group, session, terminal, and the
    // terminal's group.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let fields: Vec<&str> = fields.split(' ').collect();
    match (fields.get(2), fields.get(4), fields.get(5)) {
        (Some(group), Some(terminal), Some(foreground)) => *terminal != "0" && group != foreground,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_tells_who_is_in_the_background() {
        assert!(in_background("7 (a) b) S 1 7 5 34816 5 0"));
        assert!(!in_background("7 (cc) S 1 7 5 34816 7 0"));
        assert!(!in_background("7 (cc) S 1 7 5 0 -1 0"));
        assert!(!in_background(""));
    }
}
