//! Named faults, for tests: builds with the feature `faults` look for a file `fault` with a line
//! `PHASE:KIND` in the run directory, and have that happen when the phase is reached, once. Other
//! builds have nothing of it.
//!
//! Kinds: `error` (the phase fails), `hang` (nothing happens until a file `fault.over` is there,
//! which is removed then), `disconnect` (all network connections of this process are shut down),
//! `kill` (this process gets SIGKILL), `panic` (the phase panics). The file becomes `fault.done`.

use crate::Result;

/// A phase that may fail is reached.
///
/// # Errors
/// If a test wants that.
#[cfg_attr(not(feature = "faults"), inline(always))]
pub fn at(phase: &str) -> Result<()> {
    #[cfg(feature = "faults")]
    return armed::at(phase);
    #[cfg(not(feature = "faults"))]
    {
        let _ = phase;
        Ok(())
    }
}

/// A phase that cannot fail any more is reached.
#[cfg_attr(not(feature = "faults"), inline(always))]
pub fn past(phase: &str) {
    drop(at(phase));
}

/// Faults of this process are named in this directory.
#[cfg_attr(not(feature = "faults"), inline(always))]
pub fn listen(run_dir: &std::path::Path) {
    #[cfg(feature = "faults")]
    armed::listen(run_dir);
    #[cfg(not(feature = "faults"))]
    let _ = run_dir;
}

/// Tells how long to wait for another node: `usual`, but no longer than a test can.
#[cfg_attr(not(feature = "faults"), inline(always))]
pub fn patience(usual: std::time::Duration) -> std::time::Duration {
    #[cfg(feature = "faults")]
    return armed::patience(usual);
    #[cfg(not(feature = "faults"))]
    usual
}

#[cfg(feature = "faults")]
mod armed {
    use crate::{Error, Result};
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    static RUN_DIR: OnceLock<PathBuf> = OnceLock::new();
    /// A test that forgot to end a hang.
    const HANGS_MAX: Duration = Duration::from_secs(60);

    pub fn listen(run_dir: &Path) {
        // Each process has one.
        let _ = RUN_DIR.set(run_dir.to_owned());
    }

    /// A file `fault.patience` has the seconds.
    pub fn patience(usual: Duration) -> Duration {
        let text = RUN_DIR.get().and_then(|dir| std::fs::read_to_string(dir.join("fault.patience")).ok());
        text.and_then(|t| t.trim().parse().ok()).map_or(usual, Duration::from_secs_f64)
    }

    pub fn at(phase: &str) -> Result<()> {
        let Some(dir) = RUN_DIR.get() else { return Ok(()) };
        let file = dir.join("fault");
        let Ok(text) = std::fs::read_to_string(&file) else { return Ok(()) };
        let Some((wanted, kind)) = text.trim().split_once(':') else { return Ok(()) };
        if wanted != phase || std::fs::rename(&file, dir.join("fault.done")).is_err() {
            return Ok(());
        }
        match kind {
            "hang" => hang(&dir.join("fault.over")),
            "disconnect" => {
                disconnect();
                // The link's own threads have seen it then.
                std::thread::sleep(Duration::from_millis(100));
            }
            "panic" => panic!("the fault at {phase}"),
            // SAFETY: a signal to the own process.
            "kill" => drop(unsafe { libc::kill(libc::getpid(), libc::SIGKILL) }),
            _ => {
                let source = std::io::Error::from_raw_os_error(libc::EIO);
                return Err(Error::new(format!("passing the fault at {phase}"), source));
            }
        }
        Ok(())
    }

    fn hang(over: &Path) {
        let begun = Instant::now();
        while !over.exists() && begun.elapsed() < HANGS_MAX {
            std::thread::sleep(Duration::from_millis(2));
        }
        // The next one has an end of its own.
        let _ = std::fs::remove_file(over);
    }

    fn disconnect() {
        let numbers = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        for fd in numbers.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok()) {
            let (mut domain, mut bytes) = (0i32, size_of::<i32>() as libc::socklen_t);
            // SAFETY: writes one int; what is no socket is refused.
            let asked = unsafe {
                libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut domain).cast(), &raw mut bytes)
            };
            if asked == 0 && (domain == libc::AF_INET || domain == libc::AF_INET6) {
                // SAFETY: a descriptor of this process, which stays open.
                unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
            }
        }
    }
}
