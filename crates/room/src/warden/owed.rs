//! Descriptors that came with a message for a thread that was interrupted, or is to leave, or that are of a child that it made: they cannot be given through its listener, so the tracer has the thread
//! take them before its call returns.

use os::ptrace::HostTid;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// One of them.
#[derive(Debug)]
pub struct Due {
    /// The open file.
    pub file: OwnedFd,
    /// MSG_CMSG_CLOEXEC
    pub close_on_exec: bool,
    /// Where its number goes in the thread's memory.
    pub number_at: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Owed(Mutex<HashMap<HostTid, Vec<Due>>>);

impl Owed {
    /// One more.
    pub fn add(&self, host: HostTid, due: Due) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(host).or_default().push(due);
    }

    /// What a thread is to take, and has not.
    pub fn take(&self, host: HostTid) -> Vec<Due> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&host).unwrap_or_default()
    }
}
