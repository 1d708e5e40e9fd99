//! Who waits for whose record lock. Home's kernel sees locks of open files here, one for each owner in the room, and looks for no deadlocks among those (posix_locks_deadlock in fs/locks.c):
//! so it is done here, for owners of this room.

use super::locks::Locks;
use super::{lock, sys};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// As many owners are followed as the kernel follows (MAX_DEADLK_ITERATIONS).
const FOLLOWED: usize = 10;

/// A lock that an owner waits for.
#[derive(Clone)]
pub(super) struct Awaited {
    /// Of which file.
    pub(super) node: u64,
    /// Carries the owner's locks.
    pub(super) description: Arc<OwnedFd>,
    /// What of it.
    pub(super) range: libc::flock,
    /// The request that waits.
    pub(super) unique: u64,
}

impl Locks {
    /// `owner` is going to wait.
    ///
    /// # Errors
    /// EDEADLK: who holds the lock waits for `owner`, or for somebody who does.
    pub(super) fn wait(&self, owner: u64, awaited: Awaited) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        let (mut who, mut what) = (owner, awaited.clone());
        for _ in 0..FOLLOWED {
            let Some(holder) = self.holder(who, &what) else { break };
            if holder == owner {
                return Err(Errno::DEADLK);
            }
            let Some(next) = waiting.get(&holder) else { break };
            (who, what) = (holder, next.clone());
        }
        waiting.insert(owner, awaited);
        Ok(())
    }

    /// It has the lock, or gave up.
    pub(super) fn waited(&self, owner: u64, unique: u64) {
        let mut waiting = lock(&self.waiting);
        if waiting.get(&owner).is_some_and(|awaited| awaited.unique == unique) {
            waiting.remove(&owner);
        }
    }

    fn holder(&self, owner: u64, what: &Awaited) -> Option<u64> {
        let mut range = what.range;
        sys::ofd_lock(what.description.as_fd(), libc::F_OFD_GETLK, &mut range).ok()?;
        // Whose number the kernel tells is a process of home's.
        (range.l_type != libc::F_UNLCK as i16 && range.l_pid <= 0)
            .then(|| self.other(what.node, owner, &range))
            .flatten()
            .map(|(holder, _)| holder)
    }
}
