//! Signals that say nothing to a steward or a warden, and that end a process by default. A program
//! of root's that signals processes by chance (stress-ng's `resources` sends SIGALRM to numbers
//! that it has not set) must not end a room with all others in it. Whoever wants to end one has
//! SIGTERM, SIGINT, SIGQUIT and SIGKILL.

use crate::Result;
use crate::error::check;

/// The signals that are meant.
const STRAY: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];

/// Has this process outlive them. Programs that it executes have them by default, as ever: so each
/// is handled, not ignored.
///
/// # Errors
/// The kernel refuses.
pub fn outlive() -> Result<()> {
    STRAY.into_iter().try_for_each(|signal| {
        // SAFETY: a whole sigaction, whose handler does nothing.
        let set = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut())
        };
        check(set, || format!("handling signal {signal}")).map(drop)
    })
}

extern "C" fn ignore(_: i32) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a process of its own: before, the first of them ended it.
    #[test]
    fn they_end_nothing() {
        // SAFETY: the child raises signals and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            outlive().unwrap();
            STRAY.into_iter().for_each(|signal| {
                // SAFETY: a signal to this process, which handles it.
                unsafe { libc::raise(signal) };
            });
            // SAFETY: ends this process alone.
            unsafe { libc::_exit(7) };
        }
        let mut status = 0;
        // SAFETY: one's own child.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 7));
    }
}
