//! Guests' calls that the filter hands over: one thread takes them from all listeners.

use super::calls;
use super::shared::Shared;
use os::pidfd::PidFd;
use os::ptrace::HostTid;
use rustix::event::epoll;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The listeners of a room: one per family of guests.
pub struct Listeners {
    epoll: OwnedFd,
    all: Mutex<HashMap<u64, Arc<OwnedFd>>>,
    next: AtomicU64,
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

    fn watch(&self, listener: OwnedFd) -> os::Result<()> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let data = epoll::EventData::new_u64(key);
        let failed = |e| os::Error::new("watching a listener", e);
        let listener = Arc::new(listener);
        self.lock().insert(key, listener.clone());
        // By its number: that is kept, for the watch to be ended by.
        epoll::add(&self.epoll, &*listener, data, epoll::EventFlags::IN).map_err(failed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<OwnedFd>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, key: u64) {
        if let Some(listener) = self.lock().remove(&key) {
            let _ = epoll::delete(&self.epoll, &*listener);
        }
    }
}

/// Serves all listeners, for ever.
pub fn serve(room: &Arc<Shared>, listeners: &Listeners) {
    let mut events = Vec::with_capacity(64);
    loop {
        events.clear();
        match epoll::wait(&listeners.epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => {
                tracing::error!("waiting for guests' calls: {e}");
                return;
            }
        }
        for event in &events {
            let (key, flags) = (event.data.u64(), event.flags);
            let listener = listeners.lock().get(&key).cloned();
            let Some(listener) = listener else { continue };
            if flags.contains(epoll::EventFlags::IN) {
                match os::seccomp::receive(listener.as_fd()) {
                    Ok(Some(notice)) => {
                        let caller = room.process(HostTid(notice.host_tid));
                        room.contain(caller, || calls::dispatch(room, &listener, notice));
                    }
                    Ok(None) => {}
                    Err(e) => tracing::error!("{e}"),
                }
            } else {
                listeners.remove(key);
            }
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
