//! Operations with processes and threads.

use super::try_each;
use std::io::{Error, Result};
use std::process::Command;

/// Measures fork, exit and wait.
pub fn fork(n: u64) -> Result<f64> {
    try_each(n, |_| {
        // SAFETY: this guest has one thread; the child does nothing but end.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last_os_error()),
            // SAFETY: ends the child, which has nothing to clean up.
            0 => unsafe { libc::_exit(0) },
            child => wait(child),
        }
    })
}

fn wait(child: i32) -> Result<()> {
    let mut status = 0;
    // SAFETY: writes one number.
    match unsafe { libc::waitpid(child, &mut status, 0) } {
        pid if pid == child && status == 0 => Ok(()),
        _ => Err(Error::other("the child did not end well")),
    }
}

/// Measures vfork, exec and wait, as posix_spawn(3) does.
pub fn spawn(n: u64) -> Result<f64> {
    try_each(n, |_| match Command::new("/bin/true").status()? {
        status if status.success() => Ok(()),
        status => Err(Error::other(format!("/bin/true: {status}"))),
    })
}

/// Measures creating a thread and waiting for its end.
pub fn thread(n: u64) -> Result<f64> {
    try_each(n, |_| std::thread::Builder::new().spawn(|| ())?.join().map_err(|_| Error::other("a thread panicked")))
}
