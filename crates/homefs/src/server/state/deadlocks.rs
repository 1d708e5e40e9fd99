//! Deadlock detection for record locks. To home's kernel these are locks of open files, one for
//! each owner in the room, among which the kernel looks for no deadlocks (posix_locks_deadlock in
//! fs/locks.c). So this module does, for owners of this room. (The kernel looks again at each lock
//! for which an owner waits, one after the other; this module looks at all of them once.)

use super::kernel_locks::LockedRange;
use super::mutex::lock;
use rustix::io::{Errno, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

/// A lock for which an owner waits.
#[derive(Clone, Copy)]
pub(crate) struct Awaited {
    /// Node of the file.
    pub(crate) node: u64,
    /// Range of the lock.
    pub(crate) range: LockedRange,
    /// The waiting request.
    pub(crate) unique: u64,
}

/// The owners that wait for a record lock.
#[derive(Default)]
pub(crate) struct Waits(Mutex<HashMap<u64, Awaited>>);

impl Waits {
    /// Notes that `owner` is about to wait. `holders` lists the other owners that keep an owner
    /// from getting a lock.
    ///
    /// # Errors
    /// EDEADLK: an owner that holds a part of the range waits for `owner`, directly or through
    /// others.
    pub(crate) fn begin(
        &self,
        owner: u64,
        awaited: Awaited,
        holders: impl Fn(u64, &Awaited) -> Vec<u64>,
    ) -> Result<()> {
        let mut waiting = lock(&self.0);
        let (mut left, mut seen) = (vec![(owner, awaited)], HashSet::new());
        while let Some((waiter, what)) = left.pop() {
            for holder in holders(waiter, &what) {
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
    pub(crate) fn end(&self, owner: u64, unique: u64) {
        let mut waiting = lock(&self.0);
        if waiting.get(&owner).is_some_and(|awaited| awaited.unique == unique) {
            waiting.remove(&owner);
        }
    }
}
