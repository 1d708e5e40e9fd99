//! Threads that are made to make seccomp(2) or userfaultfd(2), about which the guests' filter asks
//! too.

use os::ptrace::HostTid;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Threads that are made to make seccomp(2) or userfaultfd(2), about which the guests' filter asks
/// too: to install a filter, to be answered by a descriptor, to be watched.
#[derive(Debug, Default)]
pub struct Filtering(Mutex<HashMap<HostTid, Option<Arc<OwnedFd>>>>);

impl Filtering {
    pub fn lock(&self) -> MutexGuard<'_, HashMap<HostTid, Option<Arc<OwnedFd>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this thread may.
    pub fn begin(&self, host: HostTid) {
        self.lock().insert(host, None);
    }

    /// From now on this file is the answer.
    pub fn offer(&self, host: HostTid, file: Arc<OwnedFd>) {
        self.lock().insert(host, Some(file));
    }

    /// Gives the file that answers the thread.
    pub fn offered(&self, host: HostTid) -> Option<Arc<OwnedFd>> {
        self.lock().get(&host).cloned().flatten()
    }

    /// Ends the permission of a thread.
    pub fn end(&self, host: HostTid) {
        self.lock().remove(&host);
    }

    /// Whether it may.
    pub fn may(&self, host: HostTid) -> bool {
        self.lock().contains_key(&host)
    }
}
