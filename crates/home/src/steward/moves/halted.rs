//! A deputy that was stopped (SIGSTOP, job control) before it had done what it was told: it would
//! do that when it is continued. Its tracer lets it run until then, and stops it again, which
//! nobody else sees.

use super::Move;
use super::implant::stop_again;
use checkpoint::BodyError;
use os::ptrace::{self, Event, HostTid};
use std::time::{Duration, Instant};

/// How long a thread is waited for before the next one is looked at.
const TURN: Duration = Duration::from_millis(1);

impl Move {
    /// Has a stopped deputy do what it was told; nothing, if it is not stopped.
    pub(super) fn finish_stopped(&self, tids: &[i32], within: Duration) -> Result<(), BodyError> {
        if os::process::status(self.pid)?.state != 'T' {
            return Ok(());
        }
        let frozen = checkpoint::freeze(self.pid)?;
        if !frozen.stopped {
            frozen.thaw();
            return Ok(());
        }
        frozen.threads.into_iter().try_for_each(|thread| thread.resume(0))?;
        let begun = Instant::now();
        let is_idle = || self.room.table().deputies.get(&self.pid).is_none_or(|deputy| deputy.is_idle());
        while !is_idle() && begun.elapsed() < within {
            for tid in tids {
                match ptrace::wait_within(HostTid(*tid), TURN)? {
                    Some(Event::Signal(stopped, signal)) => stopped.resume(signal)?,
                    Some(
                        Event::Halt(stopped, _)
                        | Event::Other(stopped)
                        | Event::SystemCall(stopped)
                        | Event::Filter(stopped)
                        | Event::Made(stopped, _)
                        | Event::Exec(stopped, _),
                    ) => stopped.resume(0)?,
                    Some(Event::Exited(_) | Event::Killed(_)) | None => {}
                }
            }
        }
        os::process::threads(self.pid)?.into_iter().try_for_each(|tid| stop_again(HostTid(tid)))
    }
}
