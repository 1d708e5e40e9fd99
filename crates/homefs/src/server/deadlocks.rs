//! Deadlock detection for record locks. To home's kernel these are locks of open files, one for
//! each owner in the room, among which the kernel looks for no deadlocks (posix_locks_deadlock in
//! fs/locks.c). So this module does, for owners of this room. (The kernel looks again at each lock
//! for which an owner waits, one after the other; this module looks at all of them once.)

use super::lock;
use super::locks::{LockedRange, Locks};
use rustix::io::{Errno, Result};
use std::collections::HashSet;

/// A lock for which an owner waits.
#[derive(Clone, Copy)]
pub(super) struct Awaited {
    /// Node of the file.
    pub(super) node: u64,
    /// Range of the lock.
    pub(super) range: LockedRange,
    /// The waiting request.
    pub(super) unique: u64,
}

impl Locks {
    /// Notes that `owner` is about to wait.
    ///
    /// # Errors
    /// EDEADLK: an owner that holds a part of the range waits for `owner`, directly or through
    /// others.
    pub(super) fn wait(&self, owner: u64, awaited: Awaited) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        let (mut left, mut seen) = (vec![(owner, awaited)], HashSet::new());
        while let Some((who, what)) = left.pop() {
            for holder in self.holders(who, what.node, &what.range) {
                if holder == owner {
                    return Err(Errno::DEADLK);
                }
                if seen.insert(holder) {
                    left.extend(waiting.get(&holder).map(|next| (holder, *next)));
                }
            }
        }
        waiting.insert(owner, awaited);
        Ok(())
    }

    /// Notes that the owner has the lock, or has given up.
    pub(super) fn waited(&self, owner: u64, unique: u64) {
        let mut waiting = lock(&self.waiting);
        if waiting.get(&owner).is_some_and(|awaited| awaited.unique == unique) {
            waiting.remove(&owner);
        }
    }
}
