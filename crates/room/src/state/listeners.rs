//! The listeners of a room, through which the filter hands guests' calls over.

use os::pidfd::PidFd;
use os::ptrace::HostTid;
use rustix::event::epoll;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The listeners of a room: one per family of guests.
pub struct Listeners {
    pub epoll: OwnedFd,
    pub all: Mutex<HashMap<u64, Arc<OwnedFd>>>,
    pub next: AtomicU64,
}

impl Listeners {
    /// Begins without a listener.
    pub fn new() -> os::Result<Listeners> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| os::Error::new("making an epoll", e))?;
        Ok(Listeners { epoll, all: Mutex::default(), next: AtomicU64::new(0) })
    }

    /// Takes the listener that process `host` has at number `fd`.
    pub fn add(&self, host: HostTid, fd: i32) -> os::Result<()> {
        self.watch(os::seccomp::listener_of(&PidFd::open(host.0)?, fd)?)
    }

    pub fn watch(&self, listener: OwnedFd) -> os::Result<()> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let data = epoll::EventData::new_u64(key);
        let failed = |e| os::Error::new("watching a listener", e);
        let listener = Arc::new(listener);
        self.lock().insert(key, listener.clone());
        // By its number: that is kept, for the watch to be ended by.
        epoll::add(&self.epoll, &*listener, data, epoll::EventFlags::IN).map_err(failed)
    }

    pub fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<OwnedFd>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn remove(&self, key: u64) {
        if let Some(listener) = self.lock().remove(&key) {
            let _ = epoll::delete(&self.epoll, &*listener);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that nobody answers any more keeps its listener. That was told of again and again,
    /// for the life of the room.
    #[test]
    fn what_was_removed_is_not_told_of() {
        let listeners = Listeners::new().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        listeners.watch(reader.into()).unwrap();
        drop(writer);
        let mut events = Vec::with_capacity(8);
        let mut told = || {
            events.clear();
            let at_once = rustix::event::Timespec::default();
            epoll::wait(&listeners.epoll, rustix::buffer::spare_capacity(&mut events), Some(&at_once)).unwrap();
            events.first().map(|event| event.data.u64())
        };
        let key = told().unwrap();
        let kept = listeners.lock().get(&key).cloned();
        listeners.remove(key);
        assert_eq!((told(), kept.is_some()), (None, true));
    }
}
