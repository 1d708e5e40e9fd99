//! Stops a deputy for a move, once each of its threads has done what it was told.
//!
//! A deputy may have been stopped by SIGSTOP or job control before it had done what it was told: it
//! would do that when it is continued. Its tracer lets it run until then, and stops it again, which
//! nobody else sees.

use crate::deputy::implant::{NEVER_BLOCKED, stop_again};
use crate::deputy::record::Deputy;
use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use checkpoint::{BodyError, Frozen};
use os::ptrace::{self, Event, HostTid};
use std::time::{Duration, Instant};

/// After so long a deputy that has not done what it was told may be stopped.
const STOPPED_AFTER: Duration = Duration::from_millis(30);

/// How long deputy threads may take to do what they were told last.
pub const IDLE_WITHIN: Duration = Duration::from_secs(2);

/// How long a thread is waited for before the next one is looked at.
const TURN: Duration = Duration::from_millis(1);

impl MigrationSession {
    /// Has a stopped deputy do what it was told; nothing, if it is not stopped.
    fn finish_stopped(&self, tids: &[i32], within: Duration) -> Result<(), BodyError> {
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

    /// Stops the deputy, but not while it tells of a signal: nobody else knows of that.
    pub fn stop_idle(&self, tids: &[i32], within: Duration) -> Result<Frozen, MoveError> {
        let begun = Instant::now();
        loop {
            self.wait_idle(tids, within)?;
            let frozen = checkpoint::freeze(self.pid)?;
            if let Err(why) = self.room.check_deputy(self.pid) {
                frozen.thaw();
                return Err(why.into());
            }
            // While it handles a signal, and then alone, it blocks all
            // (blobs/deputy/src/signals.rs).
            let busy = frozen.threads.iter().any(|t| t.mask().is_ok_and(|mask| mask | NEVER_BLOCKED == u64::MAX));
            if !busy {
                return Ok(frozen);
            }
            frozen.thaw();
            if begun.elapsed() > within {
                return Err(BodyError::NotMigratable("its deputy is busy: it handles a signal".into()).into());
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Until the deputy has done what it was told, and has exactly these threads: those of ended
    /// ones end too.
    fn wait_idle(&self, tids: &[i32], within: Duration) -> Result<(), MoveError> {
        let begun = Instant::now();
        let mut is_asked = false;
        loop {
            let idle = self.room.table().deputies.get(&self.pid).is_none_or(|d| d.is_idle());
            match idle && os::process::threads(self.pid)? == tids {
                true => return Ok(()),
                false if !is_asked && begun.elapsed() > STOPPED_AFTER => {
                    is_asked = true;
                    self.finish_stopped(tids, within)?;
                }
                false if begun.elapsed() > within => {
                    return Err(self.deputy_is_busy());
                }
                false => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// Names what keeps the deputy from being stopped.
    pub fn deputy_is_busy(&self) -> MoveError {
        let business = self.room.table().deputies.get(&self.pid).map(Deputy::business).unwrap_or_default();
        BodyError::NotMigratable(format!("its deputy is busy: {business}")).into()
    }
}
