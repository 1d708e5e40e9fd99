//! Last words: the heir tells the processes of a dead steward, on their own standard error, why
//! they end.

use crate::deputy::watchdog::Held;
use os::pidfd::PidFd;
use std::os::fd::{AsRawFd, OwnedFd};

/// For so long the processes wait for their end, until all are told, milliseconds.
const TOLD_WITHIN_MS: i32 = 500;
/// The number of standard error.
const STDERR: i32 = 2;

/// Tells them; what cannot be written soon is left out. A process of its own writes, for a terminal
/// or pipe may make it wait.
pub(super) fn tell(held: &[Held], host: &str) {
    if held.is_empty() {
        return;
    }
    let why = os::last_words::read().map_or_else(String::new, |words| format!(" ({words})"));
    tracing::error!("the steward of the room on {host} has ended{why}: {} processes end with it", held.len());
    // SAFETY: the heir has one thread.
    match unsafe { os::namespace::fork_into(0) } {
        Ok(None) => {
            held.iter().for_each(|held| write(held, host, &why));
            std::process::exit(0)
        }
        Ok(Some((_, writer))) => {
            let writer = PidFd::from(writer);
            let mut polled = libc::pollfd { fd: writer.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one live pollfd.
            unsafe { libc::poll(&mut polled, 1, TOLD_WITHIN_MS) };
            let _ = writer.kill(libc::SIGKILL);
        }
        Err(e) => tracing::warn!("nobody tells them: {e}"),
    }
}

/// Writes to a process' standard error, if that can take it now.
pub fn say(process: &PidFd, words: &str) {
    let Ok(stderr) = process.get_fd(STDERR) else { return };
    if is_ready(&stderr) {
        // Nobody is left to hear that it failed.
        let _ = rustix::io::write(&stderr, words.as_bytes());
    }
}

fn write(held: &Held, host: &str, why: &str) {
    let pid = held.pid;
    let words = match held.memory {
        None => {
            format!("tern: process {pid} ran on {host}, and its steward here has died{why}: it ends as if killed\n")
        }
        Some(_) => {
            format!(
                "tern: the memory of process {pid} followed it from {host} when its steward here died{why}: it ends as if killed\n"
            )
        }
    };
    say(&held.process, &words);
}

fn is_ready(stderr: &OwnedFd) -> bool {
    let mut polled = libc::pollfd { fd: stderr.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&mut polled, 1, 0) == 1 && polled.revents & libc::POLLOUT != 0 }
}
