//! Which process it is, and with which rights it runs: what the kernel says, at one moment, of a
//! process that asks for something.
//!
//! # The problem
//! The daemons run as root and act on processes by their numbers. Three things make a number a weak
//! name for a process: its process may end and another get the number; the process may execute a
//! set-user-ID program, and become somebody else under the same number; and SO_PEERCRED names the
//! process that called connect(2), which need not be the one that speaks.
//!
//! # The way taken
//! Each packet that matters carries SCM_CREDENTIALS, which the kernel fills in for the process that
//! calls send(2) (`packet::Sender`). Whoever is to be served is then described by a
//! [`ProcessIdentity`], and the description is compared with a later one before each step that
//! gives the process something:
//!
//! - the start time tells it from a later process of the same number;
//! - the ids, groups and capabilities tell of a set-user-ID, set-group-ID or capability-giving
//!   program;
//! - the owner of /proc/PID tells of such a program even when it has given its rights up again: the
//!   kernel makes a process that gained rights by execve(2) undumpable, and /proc/PID root's
//!   (fs/exec.c, `begin_new_exec`; proc(5)).
//!
//! A process may give rights up, and may use those that it has to take other ids.
//! [`ProcessIdentity::may_become`] is that rule: rights that grow without CAP_SETUID or CAP_SETGID
//! can only come from an execve(2).

use crate::process::{self, Status};
use crate::{Error, Result};
use std::os::unix::fs::MetadataExt;

/// Bit of CAP_SETGID in a set of capabilities.
const CAP_SETGID: u64 = 1 << 6;
/// Bit of CAP_SETUID in a set of capabilities.
const CAP_SETUID: u64 = 1 << 7;

/// A process and its rights at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Number in this process' PID namespace.
    pub pid: i32,
    /// Start time, clock ticks since boot (field 22 of /proc/PID/stat).
    pub began: u64,
    /// Real, effective, saved and file-system user id.
    pub uid: [u32; 4],
    /// Real, effective, saved and file-system group id.
    pub gid: [u32; 4],
    /// Supplementary groups, in the kernel's order.
    pub groups: Vec<u32>,
    /// Permitted capabilities, a bit each.
    pub permitted: u64,
    /// The effective capabilities.
    pub effective: u64,
    /// The inheritable capabilities.
    pub inheritable: u64,
    /// The ambient capabilities.
    pub ambient: u64,
    /// User that owns /proc/PID: the effective user, or root if the process is undumpable.
    pub owner: u32,
}

/// Why a process is not, or not any more, the one that was meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The number belongs to a later process.
    #[error("process {pid} has ended, and its number is another process' now")]
    Reused {
        /// The number that was looked up.
        pid: i32,
    },
    /// The sender's ids are not those of the process.
    #[error("process {pid} runs with other ids than its request was sent with ({what})")]
    NotSender {
        /// PID of the process that this is about.
        pid: i32,
        /// Kind of the ids that differ.
        what: &'static str,
    },
    /// The process gained rights by execve(2), and may have given them up again.
    #[error("process {pid} runs, or ran, a program that gives rights (set-user-ID, set-group-ID or file capabilities)")]
    Privileged {
        /// PID of the process that this is about.
        pid: i32,
    },
    /// Rights changed in a way that only execve(2) explains.
    #[error("process {pid} has rights that it did not have before: its {what} changed")]
    Gained {
        /// PID of the process that this is about.
        pid: i32,
        /// The ids or capabilities that changed.
        what: &'static str,
    },
}

impl ProcessIdentity {
    /// Reads the identity of process `pid`.
    ///
    /// # Errors
    /// There is no such process.
    pub fn of(pid: i32) -> Result<ProcessIdentity> {
        let began = process::began(pid)?;
        let path = format!("/proc/{pid}");
        let owner = std::fs::metadata(&path).map_err(|e| Error::new(format!("looking at {path}"), e))?.uid();
        let Status { uid, gid, groups, permitted, capabilities: effective, inheritable, ambient, .. } =
            process::status(pid)?;
        Ok(ProcessIdentity { pid, began, uid, gid, groups, permitted, effective, inheritable, ambient, owner })
    }

    /// Checks that this is the process whose packet carried these credentials (real ids), and that
    /// it has no rights beyond those of its user.
    ///
    /// # Errors
    /// Its ids are mixed or others, or an ordinary user's process gained rights by execve(2).
    pub fn is_of_sender(&self, uid: u32, gid: u32) -> std::result::Result<(), IdentityError> {
        let pid = self.pid;
        if self.uid != [uid; 4] {
            return Err(IdentityError::NotSender { pid, what: "user" });
        }
        // Root may be in whatever group it likes at the moment.
        if uid != 0 && self.gid != [gid; 4] {
            return Err(IdentityError::NotSender { pid, what: "group" });
        }
        if self.owner != uid { Err(IdentityError::Privileged { pid }) } else { Ok(()) }
    }

    /// Tells whether user `uid` may have this process moved: it runs with that user's rights alone.
    /// Root may have all moved.
    pub fn belongs_to(&self, uid: u32) -> bool {
        uid == 0 || (self.uid == [uid; 4] && self.owner == uid)
    }

    /// Checks that `now` is the same process with the same rights.
    ///
    /// # Errors
    /// The first difference.
    pub fn still_is(&self, now: &ProcessIdentity) -> std::result::Result<(), IdentityError> {
        self.may_become(now)?;
        let pid = self.pid;
        let changed = |what| Err(IdentityError::Gained { pid, what });
        match () {
            () if now.uid != self.uid => changed("user ids"),
            () if now.gid != self.gid => changed("group ids"),
            () if now.groups != self.groups => changed("groups"),
            () if (now.permitted, now.effective) != (self.permitted, self.effective) => changed("capabilities"),
            () if now.owner != self.owner => Err(IdentityError::Privileged { pid }),
            () => Ok(()),
        }
    }

    /// Checks that `now` is the same process, with rights that system calls other than execve(2)
    /// can give it.
    ///
    /// # Errors
    /// Another process has the number, or rights grew (credentials(7), capabilities(7)).
    pub fn may_become(&self, now: &ProcessIdentity) -> std::result::Result<(), IdentityError> {
        let pid = self.pid;
        if now.pid != pid || now.began != self.began {
            return Err(IdentityError::Reused { pid });
        }
        let gained = |what| Err(IdentityError::Gained { pid, what });
        // A set*id call may take a capability out of the effective set before it is needed again:
        // the permitted set counts.
        let may = |capability: u64| (self.permitted | self.effective) & capability != 0;
        if !may(CAP_SETUID) && now.uid.iter().any(|id| !self.uid.contains(id)) {
            return gained("user ids");
        }
        if !may(CAP_SETGID) && now.gid.iter().any(|id| !self.gid.contains(id)) {
            return gained("group ids");
        }
        if !may(CAP_SETGID) && now.groups != self.groups {
            return gained("groups");
        }
        if now.permitted & !self.permitted != 0 { gained("capabilities") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> ProcessIdentity {
        ProcessIdentity {
            pid: 7,
            began: 100,
            uid: [1000; 4],
            gid: [1000; 4],
            groups: vec![1000],
            permitted: 0,
            effective: 0,
            inheritable: 0,
            ambient: 0,
            owner: 1000,
        }
    }

    #[test]
    fn only_the_sender_itself_is_taken() {
        assert_eq!(user().is_of_sender(1000, 1000), Ok(()));
        let mixed = ProcessIdentity { uid: [1000, 0, 0, 0], owner: 0, ..user() };
        assert_eq!(mixed.is_of_sender(1000, 1000), Err(IdentityError::NotSender { pid: 7, what: "user" }));
        let group = ProcessIdentity { gid: [1000, 8, 8, 8], owner: 0, ..user() };
        assert_eq!(group.is_of_sender(1000, 1000), Err(IdentityError::NotSender { pid: 7, what: "group" }));
        let gave_up = ProcessIdentity { owner: 0, ..user() };
        assert_eq!(gave_up.is_of_sender(1000, 1000), Err(IdentityError::Privileged { pid: 7 }));
    }

    #[test]
    fn rights_only_shrink() {
        let root = ProcessIdentity { uid: [0; 4], gid: [0; 4], permitted: !0, effective: !0, owner: 0, ..user() };
        assert_eq!(user().may_become(&user()), Ok(()));
        assert_eq!(root.may_become(&user_of_root()), Ok(()));
        assert!(user().may_become(&root).is_err());
        let later = ProcessIdentity { began: 101, ..user() };
        assert_eq!(user().may_become(&later), Err(IdentityError::Reused { pid: 7 }));
        let capable = ProcessIdentity { permitted: 1, ..user() };
        assert_eq!(user().may_become(&capable), Err(IdentityError::Gained { pid: 7, what: "capabilities" }));
        let saved = ProcessIdentity { uid: [1000, 1000, 5, 1000], ..user() };
        assert_eq!(saved.may_become(&ProcessIdentity { uid: [1000, 5, 5, 5], ..user() }), Ok(()));
        let gave_up = ProcessIdentity { owner: 0, ..user() };
        assert_eq!(user().still_is(&gave_up), Err(IdentityError::Privileged { pid: 7 }));
    }

    fn user_of_root() -> ProcessIdentity {
        user()
    }

    #[test]
    fn this_process_is_itself() {
        let pid = std::process::id() as i32;
        let (one, two) = (ProcessIdentity::of(pid).unwrap(), ProcessIdentity::of(pid).unwrap());
        assert_eq!(one.still_is(&two), Ok(()));
        assert!(ProcessIdentity::of(1).unwrap().still_is(&two).is_err());
    }
}
