//! Threads that were asked to stop for something that was over before they did: they go on as if
//! nobody had asked.

use crate::supervisor::tracer::Tracer;
use checkpoint::BodyError;
use os::inject::Memory;
use os::ptrace::{self, HostTid, Stopped, TraceError};
use std::time::Duration;

impl Tracer {
    /// A thread waits for a result that the tracer has; should a signal stop it first, it has gone
    /// on before the interruption comes.
    pub fn interrupt_to_answer(&mut self, host: HostTid) {
        self.stale_stops.add([(host.0, Duration::ZERO)]);
        // Its stop follows, unless it is dead.
        if ptrace::interrupt(host).is_err() {
            self.stale_stops.forget_thread(host);
        }
    }

    /// A SIGCONT comes for a process. Of one that is not stopped, too, the kernel stops all threads
    /// that are traced (prepare_signal in kernel/signal.c).
    pub fn continue_unseen(&mut self, pid: i32) {
        if self.stops.is_stopped(pid) {
            return;
        }
        let slept = self.slept(pid);
        let threads = self.room.guests().threads_of(pid);
        let since = |(host, _): &(HostTid, _)| (host.0, slept.get(&host.0).copied().unwrap_or_default());
        self.stale_stops.add(threads.iter().map(since));
    }

    /// A thread has stopped for nothing: a call that says EINTR when it is merely stopped is made
    /// again. (What is left of a sleep this kernel knows itself.)
    pub fn undisturbed(&mut self, stopped: Stopped) -> Result<Stopped, TraceError> {
        const EINTR: i64 = -4;
        let host = stopped.tid();
        let Some(slept) = self.stale_stops.threads.remove(&host.0) else { return Ok(stopped) };
        if stopped.registers()?.rax as i64 != EINTR {
            return Ok(stopped);
        }
        checkpoint::as_it_was(stopped, slept, &Memory::of(host.0)?).map_err(|e| match e {
            BodyError::Os(e) => TraceError::Failed(e),
            BodyError::Exited | BodyError::NotMigratable(_) | BodyError::SharesMemory(_) | BodyError::Retryable(_) => {
                TraceError::Gone
            }
        })
    }
}
