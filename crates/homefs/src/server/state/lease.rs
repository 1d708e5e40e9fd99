//! One lease of the server.

use crate::sys;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A lease on an open file of the server.
pub(crate) struct HeldLease {
    pub(crate) file: Arc<OwnedFd>,
    /// Whether the keeper has seen that a process waits for the lease.
    pub(crate) broken: AtomicBool,
    pub(crate) given_up: AtomicBool,
}

impl HeldLease {
    /// Gives the file under the lease.
    pub(crate) fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Tells whether the server has given the lease up. The room may not know yet.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Tells whether the server holds the lease and no process waits for it.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_given_up() && sys::lease_is_whole(self.file.as_fd())
    }
}
