//! Is a process under restrictions that no file of /proc shows? Landlock (landlock(7)) tells nobody
//! who is under it; but whoever is may not look into processes that are not, whatever the rules say
//! (hook_ptrace_access_check in security/landlock/task.c). So a process is made that has the same
//! user and nothing else, and the one in question is asked to look into it.

use crate::namespace::{CapabilitySets, capabilities, fork_into};
use crate::pidfd::PidFd;
use crate::process::Status;
use crate::{Error, Result};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};

/// A process that may be looked into by every process of its user's, if nothing restricts that.
#[derive(Debug)]
pub struct LandlockProbe {
    pid: i32,
    /// `None`: another process has it.
    pidfd: Option<PidFd>,
    /// A child of this process.
    is_own: bool,
}

/// Can processes of this machine be under Landlock?
pub fn is_needed() -> bool {
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: no memory is passed; a question.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, LANDLOCK_CREATE_RULESET_VERSION) };
    version > 0
}

impl LandlockProbe {
    /// One for a process that is who `status` says, and for others of this user.
    pub fn of(status: &Status) -> Result<LandlockProbe> {
        LandlockProbe::of_user(status.uid[0], status.gid[0])
    }

    /// One that is this user. It ends with the calling thread.
    pub fn of_user(uid: u32, gid: u32) -> Result<LandlockProbe> {
        let (reader, writer) = std::io::pipe().map_err(|e| Error::new("making a pipe", e))?;
        let parent = std::process::id() as i32;
        // SAFETY: the child makes system calls only.
        match unsafe { fork_into(0)? } {
            // SAFETY: this is that process.
            None => unsafe { bear(writer.as_raw_fd(), parent, uid, gid) },
            Some((pid, pidfd)) => {
                let witness = LandlockProbe { pid, pidfd: Some(pidfd.into()), is_own: true };
                drop(writer);
                match { reader }.read(&mut [0]) {
                    Ok(1) => Ok(witness),
                    Ok(_) => Err(Error::new(format!("becoming user {uid}"), std::io::ErrorKind::PermissionDenied)),
                    Err(e) => Err(Error::new("waiting for a process to become a user", e)),
                }
            }
        }
    }

    /// One that another process has made ([`LandlockProbe::into_parts`]), which reaps it.
    pub fn from_parts(pid: i32, pidfd: OwnedFd) -> LandlockProbe {
        LandlockProbe { pid, pidfd: Some(pidfd.into()), is_own: false }
    }

    /// What another process needs to have it. The calling process is to reap it.
    pub fn into_parts(mut self) -> (i32, Option<PidFd>) {
        (self.pid, self.pidfd.take())
    }

    /// The call by which a process looks into it: number and arguments. Nowhere to write is given:
    /// who may look is told that.
    pub fn looked_into(&self) -> (i64, [u64; 6]) {
        (libc::SYS_get_robust_list, [self.pid as u64, 0, 0, 0, 0, 0])
    }
}

/// Does this result of [`LandlockProbe::looked_into`] say that the caller is restricted?
pub fn tells_of_restrictions(result: i64) -> bool {
    result != -i64::from(libc::EFAULT)
}

impl Drop for LandlockProbe {
    fn drop(&mut self) {
        let Some(pidfd) = &self.pidfd else { return };
        let _ = pidfd.kill(libc::SIGKILL);
        if self.is_own {
            // SAFETY: waits for a child of ours, and wants to know nothing of it.
            unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
        }
    }
}

/// Becomes the user without any capability, says so, and waits for its end.
///
/// # Safety
/// In a process of its own, of which nothing else will be used.
unsafe fn bear(writer: i32, parent: i32, uid: u32, gid: u32) -> ! {
    let (head, none) = capabilities(CapabilitySets::default());
    // SAFETY: system calls with plain numbers, and pointers to live data.
    unsafe {
        if writer > 0 {
            libc::syscall(libc::SYS_close_range, 0, writer - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, writer + 1, u32::MAX, 0);
        let became = libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0
            && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
            && libc::syscall(libc::SYS_capset, head.as_ptr(), none.as_ptr()) == 0
            && libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) == 0
            // A change of user takes it back.
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_getppid) == i64::from(parent);
        if became {
            libc::write(writer, c"!".as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        libc::_exit(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    /// A look into the witness, by this very thread.
    fn looks(witness: &LandlockProbe) -> i64 {
        let (nr, args) = witness.looked_into();
        // SAFETY: null pointers are what is asked for.
        match unsafe { libc::syscall(nr, args[0], args[1], args[2]) } {
            -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap()),
            result => result,
        }
    }

    #[test]
    fn who_is_restricted_is_told() {
        let witness = LandlockProbe::of(&process::status(std::process::id() as i32).unwrap()).unwrap();
        assert!(!tells_of_restrictions(looks(&witness)));
        if !is_needed() {
            return;
        }
        // One thread restricts itself: it may make no block devices.
        let restricted = std::thread::spawn(move || {
            let rules = 1u64 << 11;
            // SAFETY: a rule set of one word.
            unsafe {
                let set = libc::syscall(libc::SYS_landlock_create_ruleset, &raw const rules, 8, 0);
                assert!(set >= 0);
                assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
                assert_eq!(libc::syscall(libc::SYS_landlock_restrict_self, set, 0), 0);
                libc::close(set as i32);
            }
            (looks(&witness), witness)
        });
        let (result, witness) = restricted.join().unwrap();
        assert!(tells_of_restrictions(result));
        assert!(!tells_of_restrictions(looks(&witness)));
        let pid = witness.pid;
        drop(witness);
        assert!(process::status(pid).is_err());
    }
}
