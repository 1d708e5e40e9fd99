//! What a thread is to do before its call returns, and that only the tracer can have it do.
//!
//! Descriptors that came with a message for a thread that was interrupted, or is to leave, or that
//! are of a child that it made: they cannot be given through its listener. Rights that a call has
//! changed at home.

use os::ptrace::HostTid;
use room_protocol::message::Credentials;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// One of these things.
#[derive(Debug)]
pub enum Due {
    /// Take a descriptor.
    Descriptor(Descriptor),
    /// Take these rights.
    Rights(Box<Credentials>),
    /// Have the flag of PR_SET_KEEPCAPS, or have it not.
    KeepsCapabilities(bool),
}

/// A descriptor that a thread takes.
#[derive(Debug)]
pub struct Descriptor {
    /// The open file.
    pub file: OwnedFd,
    /// Whether MSG_CMSG_CLOEXEC was given.
    pub close_on_exec: bool,
    /// Where its number goes in the thread's memory.
    pub number_at: u64,
    /// It is a regular file: seeks of it are home's to make.
    pub has_offset: bool,
}

/// All that threads are to do.
#[derive(Debug, Default)]
pub struct Owed(Mutex<HashMap<HostTid, Vec<Due>>>);

impl Owed {
    /// Adds what is due to a thread.
    pub fn add(&self, host: HostTid, due: Due) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(host).or_default().push(due);
    }

    /// Takes what a thread is to do, and has not done.
    pub fn take(&self, host: HostTid) -> Vec<Due> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&host).unwrap_or_default()
    }
}
