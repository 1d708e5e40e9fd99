//! Open files of home's that have a lock of their own (flock(2), F_OFD_SETLK): a body that goes
//! home takes them along as they are open there, for opened anew they would be locked by nobody.
//!
//! Which of a body's descriptors they are only the kernel knows. Its stopped thread is made to have
//! a file synced: the request says which one that is, and goes no further.

use room_protocol::message::OpenAtHome;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The locks that are held.
#[derive(Debug, Default)]
pub struct Locked {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Through which a lock was asked for.
    files: HashSet<OpenAtHome>,
    /// Threads (numbers of the room) that are to tell, and what they told.
    telling: HashMap<u32, Option<OpenAtHome>>,
}

impl Locked {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lock is asked for through this one.
    pub fn add(&self, file: OpenAtHome) {
        self.known().files.insert(file);
    }

    /// It is closed.
    pub fn closed(&self, file: OpenAtHome) {
        self.known().files.remove(&file);
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.known().files.is_empty()
    }

    /// A thread has this one synced; true if it was only to tell which it is.
    pub fn tells(&self, tid: u32, file: OpenAtHome) -> bool {
        self.known().telling.get_mut(&tid).map(|told| *told = Some(file)).is_some()
    }

    /// Which one a thread tells of when `sync` makes it; `None` if that has no lock of its own.
    pub fn told_by<E>(&self, tid: u32, sync: impl FnOnce() -> Result<(), E>) -> Result<Option<OpenAtHome>, E> {
        self.known().telling.insert(tid, None);
        let done = sync();
        let mut known = self.known();
        let told = known.telling.remove(&tid).flatten().filter(|file| known.files.contains(file));
        done.map(|()| told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_asked_tells_and_of_locked_files_alone() {
        let locked = Locked::default();
        let [a, b] = [1, 2].map(|fh| OpenAtHome { node: 7, fh });
        assert!(locked.is_empty() && !locked.tells(5, a));
        locked.add(a);
        let told = |file| locked.told_by(5, || if locked.tells(5, file) { Ok(()) } else { Err(()) });
        assert_eq!((told(a), told(b)), (Ok(Some(a)), Ok(None)));
        assert_eq!(locked.told_by(5, || Ok::<(), ()>(())), Ok(None), "it was not synced");
        assert!(!locked.tells(5, a), "it was asked before");
        locked.closed(a);
        assert!(locked.is_empty() && told(a) == Ok(None));
    }
}
