//! The links between this room and others of the same home, by process.

use checkpoint::{Ahead, BodyError};
use identity::Identity;
use link::{LinkError, Receiver, Sender};
use room_protocol::message::onward::Ticket;
use std::collections::{HashMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use thiserror::Error;

/// Why a process does not come over such a way.
#[derive(Debug, Error)]
pub enum DirectLinkError {
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The encrypted link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Who it is.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// The other room sent something that was not agreed.
    #[error("{0}")]
    Odd(&'static str),
    /// The kernel refused.
    #[error(transparent)]
    Os(#[from] os::Error),
    /// The memory of a process.
    #[error(transparent)]
    Body(#[from] BodyError),
}

/// All of them, by process.
#[derive(Default)]
pub struct DirectLinks {
    pub identity: OnceLock<Identity>,
    pub ways: Mutex<Ways>,
    pub served: AtomicUsize,
}

#[derive(Default)]
pub struct Ways {
    /// Being made, or made.
    pub out: HashMap<i32, Way>,
    /// The room that may bring it, and the socket over which it does.
    pub coming: HashMap<i32, Coming>,
    /// The rooms that may read the pages of a process, the newest last.
    readers: VecDeque<Reader>,
}

/// A room that may read the pages of a process, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// PID of the process, at home.
    pub pid: i32,
    /// The ticket that the room shows.
    pub ticket: Ticket,
    /// The node of the room.
    pub node: String,
}

/// The most rooms that may read and have not come yet; the oldest is forgotten first.
const READERS_MAX: usize = 256;

pub struct Way {
    pub ticket: Ticket,
    pub out: Option<DirectLink>,
    /// Pages that went by it already.
    pub ahead: Option<Ahead>,
}

/// A way to another room.
#[derive(Clone)]
pub struct DirectLink {
    /// The link to the other room.
    pub link: Arc<Sender>,
    pub socket: Arc<TcpStream>,
    /// From it, until somebody listens.
    pub back: Arc<Mutex<Option<Receiver>>>,
}

impl std::fmt::Debug for DirectLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DirectLink").field(&self.socket).finish()
    }
}

pub struct Coming {
    pub ticket: Ticket,
    pub from: String,
    pub socket: Option<TcpStream>,
    /// Pages follow by it when the process runs.
    pub lends: bool,
}

impl DirectLinks {
    pub fn ways(&self) -> MutexGuard<'_, Ways> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This node's certificate.
    pub fn set_identity(&self, identity: Identity) {
        // Set once, when the room is made.
        let _ = self.identity.set(identity);
    }

    pub fn identity(&self) -> Result<&Identity, DirectLinkError> {
        self.identity.get().ok_or(DirectLinkError::Odd("the room is not made yet"))
    }

    /// The way that process `pid` is to take.
    pub fn out(&self, pid: i32) -> Option<DirectLink> {
        self.ways().out.get(&pid).and_then(|way| way.out.clone())
    }

    /// This of its memory has gone by the way with this ticket. Nobody wants to know if there is
    /// another by now.
    pub fn keep(&self, pid: i32, ticket: &Ticket, ahead: Ahead) {
        if let Some(way) = self.ways().out.get_mut(&pid).filter(|way| way.ticket == *ticket) {
            way.ahead = Some(ahead);
        }
    }

    /// The part of its memory that went by the link that it is to take.
    pub fn take_ahead(&self, pid: i32) -> Option<Ahead> {
        self.ways().out.get_mut(&pid).and_then(|way| way.ahead.take())
    }

    /// This process may be brought.
    pub fn admit(&self, pid: i32, ticket: Ticket, from: String) {
        self.ways().coming.insert(pid, Coming { ticket, from, socket: None, lends: false });
    }

    /// Lets a room read the pages of a process.
    pub fn lend(&self, reader: Reader) {
        let mut ways = self.ways();
        if ways.readers.len() == READERS_MAX {
            ways.readers.pop_front();
        }
        ways.readers.push_back(reader);
    }

    /// Tells whether this room may read, which it then may no more.
    pub fn take_reader(&self, reader: &Reader) -> bool {
        let mut ways = self.ways();
        let found = ways.readers.iter().position(|known| known == reader);
        found.and_then(|at| ways.readers.remove(at)).is_some()
    }

    /// Whatever way this process had, it is not needed any more.
    pub fn end(&self, pid: i32) {
        let mut ways = self.ways();
        let out = ways.out.remove(&pid).and_then(|way| way.out);
        let coming = ways.coming.remove(&pid).and_then(|coming| coming.socket);
        drop(ways);
        // A thread that waits in it goes on.
        out.into_iter().for_each(|out| drop(out.socket.shutdown(Shutdown::Both)));
        coming.into_iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }

    /// This process runs here now: its way is needed only for pages that follow.
    pub fn arrived(&self, pid: i32) {
        if !self.ways().coming.get(&pid).is_some_and(|coming| coming.lends) {
            self.end(pid);
        }
    }

    /// Does this while the process may still be brought by who has this ticket.
    pub fn if_coming(&self, pid: i32, ticket: &Ticket, act: impl FnOnce(&mut Coming)) -> Result<(), DirectLinkError> {
        let mut ways = self.ways();
        match ways.coming.get_mut(&pid) {
            Some(coming) if coming.ticket == *ticket => {
                act(coming);
                Ok(())
            }
            _ => Err(DirectLinkError::Odd("the process is not expected any more")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_that_was_announced_reads_once() {
        let links = DirectLinks::default();
        let reader = |pid, ticket, node: &str| Reader { pid, ticket: [ticket; 16], node: node.into() };
        links.lend(reader(7, 1, "n2"));
        let others = [reader(8, 1, "n2"), reader(7, 2, "n2"), reader(7, 1, "n3")];
        assert!(!others.iter().any(|other| links.take_reader(other)));
        assert!(links.take_reader(&reader(7, 1, "n2")) && !links.take_reader(&reader(7, 1, "n2")));
        (0..=READERS_MAX as i32).for_each(|pid| links.lend(reader(pid, 1, "n2")));
        assert!(!links.take_reader(&reader(0, 1, "n2")) && links.take_reader(&reader(1, 1, "n2")));
    }

    #[test]
    fn who_was_not_announced_brings_nothing() {
        let links = DirectLinks::default();
        let brought = |pid, ticket| {
            let mut done = false;
            let let_in = links.if_coming(pid, &[ticket; 16], |_| done = true);
            assert_eq!(let_in.is_ok(), done);
            done
        };
        assert!(!brought(7, 1));
        links.admit(7, [1; 16], "n2".into());
        assert!(brought(7, 1) && !brought(7, 2) && !brought(8, 1));
        // Announced anew, the old one is worth nothing.
        links.admit(7, [2; 16], "n2".into());
        assert!(!brought(7, 1) && brought(7, 2));
        links.end(7);
        assert!(!brought(7, 2) && links.out(7).is_none());
    }
}
