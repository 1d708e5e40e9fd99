//! Guests' calls that the filter hands over: one thread takes them from all listeners.

use crate::calls::served as calls;
use crate::state::listeners::Listeners;
use crate::state::shared::Shared;
use os::ptrace::HostTid;
use rustix::event::epoll;
use std::os::fd::AsFd;
use std::sync::Arc;

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
