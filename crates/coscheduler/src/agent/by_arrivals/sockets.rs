//! The sockets of tasks, which tell when messages come.
//!
//! The agent holds a duplicate of each connected stream, and has the kernel report each time that
//! something comes on it (EPOLLET). The agent reads nothing. Because of the duplicate, the other
//! end of a connection notices that the task has closed it only when the agent looks next.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use cosched::ProcessKey;
use os::pidfd::PidFd;
use rustix::event::{Timespec, epoll};
use rustix::net::{SocketType, sockopt};

/// The most sockets of a job.
const SOCKETS_MAX: usize = 4096;
/// So many events are taken at once.
const EVENTS: usize = 64;

/// A descriptor of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Descriptor {
    task: ProcessKey,
    fd: i32,
    /// Inode number of the socket: another one may get the descriptor's number.
    inode: u64,
}

/// The sockets of a job.
#[derive(Debug)]
pub struct Sockets {
    epoll: OwnedFd,
    last_key: u64,
    /// By their keys in the epoll set; `None`: not of use.
    held: BTreeMap<Descriptor, Option<(u64, OwnedFd)>>,
    tasks: BTreeMap<u64, ProcessKey>,
    is_refused: bool,
}

impl Sockets {
    /// Starts without a socket.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new() -> io::Result<Sockets> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Sockets { epoll, last_key: 0, held: BTreeMap::new(), tasks: BTreeMap::new(), is_refused: false })
    }

    /// Gives a descriptor that is readable when something has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Tells whether the kernel did not let the agent see a socket.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Follows sockets that these tasks have opened or closed.
    pub fn look<'a>(&mut self, tasks: impl Iterator<Item = &'a ProcessKey>) {
        let present: BTreeSet<Descriptor> = tasks.flat_map(|task| descriptors(*task)).take(SOCKETS_MAX).collect();
        self.held.retain(|descriptor, _| present.contains(descriptor));
        let keys: BTreeSet<u64> = self.held.values().flatten().map(|(key, _)| *key).collect();
        self.tasks.retain(|key, _| keys.contains(key));
        let inodes: BTreeSet<u64> = self.held.keys().map(|descriptor| descriptor.inode).collect();
        for descriptor in present {
            // A socket that several tasks have is that of the first.
            if !self.held.contains_key(&descriptor) && !inodes.contains(&descriptor.inode) {
                let held = self.hold(descriptor);
                self.held.insert(descriptor, held);
            }
        }
    }

    fn hold(&mut self, descriptor: Descriptor) -> Option<(u64, OwnedFd)> {
        const NOT_PERMITTED: i32 = 1;
        let held = PidFd::open(descriptor.task.pid).and_then(|task| task.get_fd(descriptor.fd));
        self.is_refused |= held.as_ref().is_err_and(|e| e.errno() == NOT_PERMITTED);
        let socket = held.ok()?;
        let is_stream = sockopt::socket_type(&socket).is_ok_and(|kind| kind == SocketType::STREAM);
        let listens = sockopt::socket_acceptconn(&socket).unwrap_or(true);
        if !is_stream || listens {
            return None;
        }
        self.last_key += 1;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(self.last_key), flags).ok()?;
        self.tasks.insert(self.last_key, descriptor.task);
        Some((self.last_key, socket))
    }

    /// Takes the tasks for which something has come since the last call, each as often as it has
    /// sockets with something new.
    pub fn arrived(&mut self) -> Vec<ProcessKey> {
        let mut arrived = Vec::new();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, room, Some(&Timespec::default())) {
                Ok(0) | Err(_) => return arrived,
                Ok(_) => arrived.extend(events.iter().filter_map(|event| self.tasks.get(&event.data.u64()))),
            }
        }
    }
}

/// Finds the sockets of a task.
fn descriptors(task: ProcessKey) -> Vec<Descriptor> {
    let fds = os::process::descriptors(task.pid).unwrap_or_default();
    let socket = |fd: i32| {
        let target = os::process::link(task.pid, &format!("fd/{fd}")).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        Some(Descriptor { task, fd, inode })
    };
    fds.into_iter().filter_map(socket).collect()
}
