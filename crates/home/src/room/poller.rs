//! One thread that waits for everything that deputies say, for their ends, and for watched
//! descriptors. It keeps all of the steward's privileges.
//!
//! The thread waits by poll(2) on two epoll instances, of which neither contains the other. For
//! each descriptor that is added to an instance inside another one, the kernel takes a mutex that
//! the whole machine has in common (`epnested_mutex` in fs/eventpoll.c), and keeps it while it asks
//! files whether they are ready: a file of FUSE may take for ever to answer, and the steward may be
//! the one who is to answer it.

use crate::room::orders::Order;
use os::{Error, Result};
use room_protocol::message::StandinId;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The bell of the loop.
    Bell,
    /// A deputy thread's channel.
    Channel {
        /// PID of the process.
        pid: i32,
        /// TID of the thread.
        tid: i32,
    },
    /// The end of a deputy.
    End {
        /// PID of the process.
        pid: i32,
    },
    /// Changes at stand-ins' open files.
    Edges,
}

/// Sources and orders.
pub struct Poller {
    epoll: OwnedFd,
    bell: OwnedFd,
    /// Open files of stand-ins, apart: what became ready first of them can so be asked for at any
    /// time.
    edges: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sources: HashMap<u64, Source>,
    last: u64,
    orders: VecDeque<Order>,
}

const BELL: u64 = 0;
/// What one look finds.
const READY_MAX: usize = 64;

impl Poller {
    /// Waits for nothing yet.
    pub fn new() -> Result<Poller> {
        let failed = |e| Error::new("making an epoll", e);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let bell = os::fds::event()?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN).map_err(failed)?;
        let edges = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let state = State { last: BELL, ..State::default() };
        Ok(Poller { epoll, bell, edges, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `fd` too. It leaves when all duplicates of it are closed.
    pub fn add(&self, fd: BorrowedFd<'_>, source: Source, events: epoll::EventFlags) -> Result<u64> {
        let mut state = self.lock();
        state.last += 1;
        let key = state.last;
        state.sources.insert(key, source);
        drop(state);
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(key), events).map_err(|e| {
            self.lock().sources.remove(&key);
            Error::new("watching a descriptor", e)
        })?;
        Ok(key)
    }

    /// Waits for changes at this stand-in's open file. What cannot be waited for (a regular file)
    /// is always ready.
    pub fn watch(&self, fd: BorrowedFd<'_>, standin: StandinId) -> bool {
        let events = epoll::EventFlags::from_bits_retain(u32::from(os::fds::POLLED)) | epoll::EventFlags::ET;
        epoll::add(&self.edges, fd, epoll::EventData::new_u64(u64::from(standin.0)), events).is_ok()
    }

    /// Waits for this no more: the open file may live on elsewhere, and would still be told of.
    pub fn unwatch(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.edges, fd);
    }

    /// Stand-ins at whose open files something has happened until now.
    pub fn edges(&self) -> Vec<StandinId> {
        let mut all = Vec::new();
        loop {
            let mut events: Vec<epoll::Event> = Vec::with_capacity(READY_MAX);
            let found =
                epoll::wait(&self.edges, rustix::buffer::spare_capacity(&mut events), Some(&Timespec::default()));
            if let Err(e) = found
                && e != rustix::io::Errno::INTR
            {
                tracing::error!("waiting for stand-ins: {e}");
            }
            all.extend(events.iter().filter_map(|event| Some(StandinId(u32::try_from(event.data.u64()).ok()?))));
            if events.len() < READY_MAX {
                return all;
            }
        }
    }

    /// Waits no more for any source of a process, whose open files live on elsewhere.
    pub fn remove_process<'a>(&self, pid: i32, files: impl Iterator<Item = BorrowedFd<'a>>) {
        for fd in files {
            let _ = epoll::delete(&self.epoll, fd);
        }
        self.forget_process(pid);
    }

    /// Forgets a source whose descriptor is closed.
    pub fn forget(&self, key: u64) {
        self.lock().sources.remove(&key);
    }

    /// Forgets all sources of a process.
    pub fn forget_process(&self, wanted: i32) {
        self.lock().sources.retain(|_, source| match source {
            Source::Bell | Source::Edges => true,
            Source::Channel { pid, .. } | Source::End { pid } => *pid != wanted,
        });
    }

    /// Has the poller's thread do this.
    pub fn order(&self, order: Order) {
        self.lock().orders.push_back(order);
        self.wake();
    }

    /// Has it look at the state.
    pub fn wake(&self) {
        os::fds::wake(self.bell.as_fd());
    }

    /// Next order, if any.
    pub fn next_order(&self) -> Option<Order> {
        self.lock().orders.pop_front()
    }

    /// Waits, at most so long if given; what is ready, with its key.
    pub fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<(u64, Source, epoll::EventFlags)>) {
        let mut events = Vec::with_capacity(READY_MAX);
        let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        ready.clear();
        let mut polled = [PollFd::new(&self.epoll, PollFlags::IN), PollFd::new(&self.edges, PollFlags::IN)];
        let found = poll(&mut polled, timeout.as_ref()).and_then(|_| {
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&Timespec::default()))
        });
        if let Err(e) = found
            && e != rustix::io::Errno::INTR
        {
            tracing::error!("waiting for deputies: {e}");
        }
        if !polled[1].revents().is_empty() {
            ready.push((BELL, Source::Edges, epoll::EventFlags::IN));
        }
        let state = self.lock();
        for event in &events {
            let key = event.data.u64();
            match (key, state.sources.get(&key)) {
                (BELL, _) => {
                    os::fds::drain(self.bell.as_fd());
                    ready.push((BELL, Source::Bell, event.flags));
                }
                (_, Some(source)) => ready.push((key, *source, event.flags)),
                (_, None) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    /// Before, one instance lay in the other: a guest whose file did not answer stopped every
    /// nested epoll of the machine.
    #[test]
    fn no_instance_contains_another() {
        let poller = Poller::new().unwrap();
        let (_pipe, writer) = std::io::pipe().unwrap();
        assert!(poller.watch(writer.as_fd(), StandinId(1)));
        let target = |line: &str| line.strip_prefix("tfd:")?.split_whitespace().next()?.parse::<i32>().ok();
        for epoll in [&poller.epoll, &poller.edges] {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", epoll.as_raw_fd())).unwrap();
            let watched: Vec<i32> = info.lines().filter_map(target).collect();
            assert_eq!(watched.len(), 1, "{info}");
            assert!(!watched.contains(&poller.epoll.as_raw_fd()) && !watched.contains(&poller.edges.as_raw_fd()));
        }
        let mut ready = Vec::new();
        poller.wait(Some(Duration::from_secs(10)), &mut ready);
        assert!(ready.iter().any(|(_, source, _)| *source == Source::Edges), "{ready:?}");
        assert_eq!(poller.edges(), [StandinId(1)]);
    }
}
