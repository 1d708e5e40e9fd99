//! Who waits for whose record lock. Home's kernel sees locks of open files here, one for each owner in the room, and looks for no deadlocks among those (posix_locks_deadlock in fs/locks.c):
//! so it is done here, for owners of this room. (The kernel looks again at each lock that has to be waited for, one after the other; here all of them are looked at, once.)

use super::lock;
use super::locks::{LockedRange, Locks};
use rustix::io::{Errno, Result};
use std::collections::HashSet;

/// A lock that an owner waits for.
#[derive(Clone, Copy)]
pub(super) struct Awaited {
    /// Of which file.
    pub(super) node: u64,
    /// What of it.
    pub(super) range: LockedRange,
    /// The request that waits.
    pub(super) unique: u64,
}

impl Locks {
    /// `owner` is going to wait.
    ///
    /// # Errors
    /// EDEADLK: somebody who holds a part of it waits for `owner`, or for somebody who does.
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

    /// It has the lock, or gave up.
    pub(super) fn waited(&self, owner: u64, unique: u64) {
        let mut waiting = lock(&self.waiting);
        if waiting.get(&owner).is_some_and(|awaited| awaited.unique == unique) {
            waiting.remove(&owner);
        }
    }
}
