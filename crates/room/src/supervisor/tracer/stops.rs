//! Stops of job control. A body never stops by itself: the room's kernel knows neither its parent
//! nor its group. A thread that takes a signal which stops by default waits until home's kernel has
//! decided about the deputy; when the deputy is stopped, so is the body, by SIGSTOP. SIGCONT comes
//! from home like any other signal.

use crate::state::signal_action::is_default;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::dying::tell_fault;
use os::ptrace::{Stopped, TraceError};
use room_protocol::ToHome;

impl Tracer {
    /// Lets a thread go on with this signal; home is asked first if that would stop it.
    pub fn deliver(&mut self, stopped: Stopped, signal: i32) -> Result<(), TraceError> {
        let stops = matches!(signal, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        let Some(stopped) = self.hold_dying(stopped, signal)? else { return Ok(()) };
        let who = self.room.guests().who(stopped.tid());
        if let Some(who) = who {
            tell_fault(&stopped, signal, who);
        }
        match who.filter(|_| stops && is_default(stopped.tid(), signal)) {
            Some(who) => {
                let continued = self.stops.continued.get(&who.pid).copied().unwrap_or(0);
                self.stops.pausing.entry(who.pid).or_default().push(stopped);
                self.room.tell(&ToHome::Stops { pid: who.pid, tid: who.tid, signal, continued });
                Ok(())
            }
            None => stopped.resume(signal),
        }
    }

    /// The deputy is stopped.
    pub fn stop(&mut self, pid: i32) {
        self.stops.stopped.insert(pid);
        self.stops_for_another(pid);
        let pausing = self.stops.pausing.remove(&pid).unwrap_or_default();
        if pausing.is_empty()
            && let Some(host) = self.room.guests().host(pid)
        {
            // SAFETY: a thread that this tracer traces and has not waited for: the number is its
            // own.
            unsafe { libc::kill(host.0, libc::SIGSTOP) };
        }
        resume_all(pausing, libc::SIGSTOP);
    }

    /// Nothing stops the body, or it was continued.
    pub fn go_on(&mut self, pid: i32) {
        resume_all(self.stops.pausing.remove(&pid).unwrap_or_default(), 0);
    }
}

fn resume_all(threads: Vec<Stopped>, signal: i32) {
    for thread in threads {
        if let Err(TraceError::Failed(e)) = thread.resume(signal) {
            tracing::error!("{e}");
        }
    }
}
