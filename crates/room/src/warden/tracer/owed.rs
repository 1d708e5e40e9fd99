//! A thread whose call is over, and stands still, takes the descriptors that came with its message.

use super::Tracer;
use super::injected::with_inside;
use os::inject::Inside;
use os::ptrace::{Stopped, TraceError};
use std::sync::Arc;
use std::time::Duration;

impl Tracer {
    /// Has the thread take them; it is then as it was, and about to get `signal`, if any.
    pub fn pay(&self, stopped: Stopped, signal: i32) -> Result<Stopped, TraceError> {
        let host = stopped.tid();
        let owed = self.room.owed.take(host);
        if owed.is_empty() {
            return Ok(stopped);
        }
        let registers = stopped.registers()?;
        let carried = if signal > 0 { Some(stopped.signal_info()?) } else { None };
        let (mut stopped, done) = with_inside(stopped, Duration::ZERO, |inside, _| {
            for due in owed {
                self.room.filtering.offer(host, Arc::new(due.file));
                let (nr, args) = os::seccomp::asking_call();
                let taken = inside.call(nr, args);
                self.room.filtering.end(host);
                let number = taken?;
                inside.memory().write(due.number_at, &(number.max(-1) as i32).to_le_bytes())?;
                keep_at_exec(inside, number, due.close_on_exec)?;
            }
            Ok(())
        })?;
        stopped.set_registers(&registers)?;
        if let Some(info) = carried {
            stopped.set_signal_info(&info)?;
        }
        done.map(|()| stopped)
    }
}

fn keep_at_exec(inside: &mut Inside, number: i64, close_on_exec: bool) -> Result<(), TraceError> {
    match u64::try_from(number) {
        Ok(number) if !close_on_exec => {
            inside.must("keeping a descriptor at exec", libc::SYS_fcntl, [number, libc::F_SETFD as u64, 0, 0, 0, 0])?;
        }
        Ok(_) => {}
        Err(_) => tracing::warn!("a descriptor that came with a message is lost: error {}", -number),
    }
    Ok(())
}
