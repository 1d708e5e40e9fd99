//! SIGTERM and SIGINT end a soak in order: what it started is killed, and what it has seen is reported.

use crate::Error;
use std::sync::atomic::{AtomicI32, Ordering};

/// The signal that came, 0 if none did.
static CAME: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: libc::c_int) {
    CAME.store(signal, Ordering::Relaxed);
}

/// From now on these signals are noted. Who ignores one goes on doing so.
pub fn watch() -> Result<(), Error> {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the handler only stores to an atomic, and lives as long as the program.
        let before = unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) };
        match before {
            libc::SIG_ERR => return Err(Error::system("handling signals")(std::io::Error::last_os_error())),
            // SAFETY: gives back what was there.
            libc::SIG_IGN => drop(unsafe { libc::signal(signal, libc::SIG_IGN) }),
            _ => {}
        }
    }
    Ok(())
}

/// The signal that came, if one did.
pub fn signal() -> Option<i32> {
    Some(CAME.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}
