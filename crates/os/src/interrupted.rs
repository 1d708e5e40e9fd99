//! Signals that are to end the caller, once it has undone what it is doing.

use std::sync::atomic::{AtomicI32, Ordering};

/// The last signal that came.
static CAME: AtomicI32 = AtomicI32::new(0);

/// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT interrupt the caller's calls (EINTR) instead of
/// ending it. Signals that it ignores stay ignored.
pub fn watch() {
    extern "C" fn note(signal: libc::c_int) {
        CAME.store(signal, Ordering::Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: all zero is a valid sigaction, and the handler lives as long as the program.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            if action.sa_sigaction != libc::SIG_IGN {
                action = std::mem::zeroed();
                action.sa_sigaction = note as *const () as usize;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    }
}

/// Gives the signal that came, if one did.
pub fn came() -> Option<i32> {
    Some(CAME.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}
