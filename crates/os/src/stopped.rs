//! Whether a process is stopped, for who looks often: nobody but its parent is told of it.

use crate::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The command may have 64 bytes (kernel threads), and stands before the state.
const HEAD_BYTES: usize = 128;
const STATE_AT: usize = 2;

/// Its state (proc_pid_stat(5)), which is read anew each time.
#[derive(Debug)]
pub struct State(File);

impl State {
    /// Of this process; of no other one that gets its number later.
    pub fn of(pid: i32) -> Result<State> {
        let path = format!("/proc/{pid}/stat");
        File::open(&path).map(State).map_err(|e| Error::new(format!("opening {path}"), e))
    }

    /// It is stopped by a signal, whose effect SIGCONT ends. False of one that is gone.
    pub fn is_stopped(&self) -> bool {
        let mut head = [0; HEAD_BYTES];
        let text = self.0.read_at(&mut head, 0).map_or(&[][..], |n| &head[..n]);
        // The command may hold anything; the state stands behind the last ')'.
        text.iter().rposition(|b| *b == b')').and_then(|at| text.get(at + STATE_AT)) == Some(&b'T')
    }
}

/// Tells whether a process has executed a program since it was made (PF_FORKNOEXEC of its flags in
/// /proc/PID/stat, linux/sched.h).
pub fn has_executed(pid: i32) -> bool {
    const PF_FORKNOEXEC: u64 = 0x40;
    const FLAGS_BEHIND_NAME: usize = 6;
    let Ok(text) = std::fs::read(format!("/proc/{pid}/stat")) else { return false };
    let text = String::from_utf8_lossy(&text);
    let flags =
        text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(FLAGS_BEHIND_NAME)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & PF_FORKNOEXEC == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_stop_and_its_end_are_seen() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id() as i32;
        let state = State::of(pid).unwrap();
        // SAFETY: a child that was not waited for.
        let signal = |signal| unsafe { libc::kill(pid, signal) };
        let becomes = |stopped| {
            (0..10_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                state.is_stopped() == stopped
            })
        };
        assert!(!state.is_stopped());
        signal(libc::SIGSTOP);
        assert!(becomes(true));
        signal(libc::SIGCONT);
        assert!(becomes(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!state.is_stopped());
        assert!(State::of(pid).is_err());
    }
}
