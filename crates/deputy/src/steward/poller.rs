//! One thread that waits for everything that deputies say, for their ends, and for watched descriptors. It keeps all of the steward's privileges.

use super::privileged::Order;
use os::{Error, Result};
use rustix::event::{Timespec, epoll};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::message::StandinId;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The bell.
    Bell,
    /// A deputy thread's channel.
    Channel {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
    },
    /// The end of a deputy.
    End {
        /// Process.
        pid: i32,
    },
    /// Changes at a stand-in's open file.
    Standin {
        /// Which.
        standin: StandinId,
    },
}

/// Sources and orders.
pub struct Poller {
    epoll: OwnedFd,
    bell: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sources: HashMap<u64, Source>,
    last: u64,
    orders: VecDeque<Order>,
}

const BELL: u64 = 0;

impl Poller {
    /// Waits for nothing yet.
    pub fn new() -> Result<Poller> {
        let failed = |e| Error::new("making an epoll", e);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let bell = os::fds::event()?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN).map_err(failed)?;
        Ok(Poller { epoll, bell, state: Mutex::default() })
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

    /// Waits for this descriptor no more: its open file may live on elsewhere, and would still be told of.
    pub fn remove(&self, fd: BorrowedFd<'_>, key: u64) {
        let _ = epoll::delete(&self.epoll, fd);
        self.forget(key);
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
            Source::Bell | Source::Standin { .. } => true,
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
        let mut events = Vec::with_capacity(64);
        let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        ready.clear();
        if let Err(e) = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref())
            && e != rustix::io::Errno::INTR
        {
            tracing::error!("waiting for deputies: {e}");
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
