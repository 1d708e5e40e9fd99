//! The rights of a request: the thread that runs it takes on the file-system identity of the
//! caller.

use crate::sys::{self, Caps};
use rustix::io::{Errno, Result};
use std::cell::RefCell;
use std::sync::Arc;

/// The identity of a process, as far as files matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// File-system user id.
    pub uid: u32,
    /// File-system group id.
    pub gid: u32,
    /// Ids of the supplementary groups.
    pub groups: Arc<[u32]>,
    /// Effective capabilities, one bit each (`CapEff` of `/proc/PID/status`); 0 for an ordinary
    /// user.
    pub caps: u64,
}

/// Knows the processes whose bodies the room hosts.
pub trait Callers: Send + Sync {
    /// Gives the credentials of a process that the room really hosts and that may send a request
    /// with these ids. `None` refuses the request. `tid` is the thread, in home's numbers, or 0 if
    /// the kernel asks on behalf of no thread.
    fn credentials(&self, tid: u32, uid: u32, gid: u32) -> Option<Credentials>;
}

#[derive(Default)]
struct Identity {
    prepared: bool,
    umask: Option<u32>,
    ids: Option<(u32, u32, Arc<[u32]>)>,
    effective: Option<u64>,
}

thread_local! {
    static IDENTITY: RefCell<Identity> = RefCell::default();
}

/// The capabilities of the steward itself: the most that any caller can be given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authority(Caps);

impl Authority {
    pub(crate) fn of_this_thread() -> Result<Authority> {
        sys::capabilities().map(Authority)
    }

    /// Makes this thread act as the caller from now on.
    pub(crate) fn assume(self, who: &Credentials) -> Result<()> {
        IDENTITY.with_borrow_mut(|now| {
            let same = now.ids.as_ref().is_some_and(|(u, g, groups)| {
                (*u, *g) == (who.uid, who.gid) && (Arc::ptr_eq(groups, &who.groups) || *groups == who.groups)
            });
            if !same {
                // Changing ids needs capabilities that the previous caller may not have had.
                sys::set_effective(self.0, u64::MAX)?;
                (now.ids, now.effective) = (None, None);
                sys::set_ids(who.uid, who.gid, &who.groups)?;
                now.ids = Some((who.uid, who.gid, who.groups.clone()));
            }
            now.become_effective(self.0, who.caps)
        })
    }

    /// Gives this thread all of the steward's capabilities: for marks, handles and leases, never
    /// for names and data.
    pub(crate) fn resume(self) -> Result<()> {
        IDENTITY.with_borrow_mut(|now| now.become_effective(self.0, u64::MAX))
    }

    /// Runs `work` with all of the steward's capabilities. Afterwards this thread acts as before.
    pub(crate) fn with_own_rights<T>(self, work: impl FnOnce() -> T) -> Result<T> {
        let before = IDENTITY.with_borrow(|now| now.effective);
        self.resume()?;
        let done = work();
        // A thread that has not acted for a caller yet keeps its own capabilities.
        if let Some(before) = before {
            IDENTITY.with_borrow_mut(|now| now.become_effective(self.0, before))?;
        }
        Ok(done)
    }

    /// Sets the umask for the next file that this thread makes.
    pub(crate) fn set_umask(self, mask: u32) -> Result<()> {
        IDENTITY.with_borrow_mut(|now| {
            if !now.prepared {
                sys::own_umask()?;
                now.prepared = true;
            }
            if now.umask != Some(mask) {
                rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask & 0o777));
                now.umask = Some(mask);
            }
            Ok(())
        })
    }
}

impl Identity {
    fn become_effective(&mut self, caps: Caps, effective: u64) -> Result<()> {
        if self.effective != Some(effective) {
            sys::set_effective(caps, effective).map_err(|_| Errno::PERM)?;
            self.effective = Some(effective);
        }
        Ok(())
    }
}
