//! Threads whose call was interrupted while home ran it.

use os::ptrace::Stopped;
use room_protocol::message::CallId;
use std::collections::HashMap;

/// Held threads, with the signal that is to be delivered.
#[derive(Debug, Default)]
pub struct InterruptedCalls {
    pub threads: HashMap<CallId, (Stopped, i32)>,
}

impl InterruptedCalls {
    /// Keeps a stopped thread until home has ended this call.
    pub fn keep(&mut self, id: CallId, stopped: Stopped, signal: i32) {
        self.threads.insert(id, (stopped, signal));
    }
}
