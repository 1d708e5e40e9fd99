//! Orderly end of a soak by SIGTERM or SIGINT: its processes are killed, and its report is printed.

use crate::Error;
use std::sync::atomic::{AtomicI32, Ordering};

/// The signal that arrived; 0 if none did.
static CAME: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: libc::c_int) {
    CAME.store(signal, Ordering::Relaxed);
}

/// Catches these signals from now on. A signal that was ignored stays ignored.
pub fn watch() -> Result<(), Error> {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the handler only stores to an atomic, and lives as long as the program.
        let before = unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) };
        match before {
            libc::SIG_ERR => return Err(Error::system("handling signals")(std::io::Error::last_os_error())),
            // SAFETY: restores the earlier disposition.
            libc::SIG_IGN => drop(unsafe { libc::signal(signal, libc::SIG_IGN) }),
            _ => {}
        }
    }
    Ok(())
}

/// Gives the signal that arrived, if one did.
pub fn signal() -> Option<i32> {
    Some(CAME.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}
