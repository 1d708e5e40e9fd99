//! Stops of job control. A body never stops by itself: the room's kernel knows neither its parent
//! nor its group. A thread that takes a signal which stops by default waits until home's kernel has
//! decided about the deputy; when the deputy is stopped, so is the body, by SIGSTOP. SIGCONT comes
//! from home like any other signal.

use super::Tracer;
use super::dying::tell_fault;
use os::ptrace::{HostTid, Stopped, TraceError};
use room_protocol::ToHome;
use std::collections::{HashMap, HashSet};

/// Threads that wait for home's word, by process.
#[derive(Debug, Default)]
pub struct Stops {
    pausing: HashMap<i32, Vec<Stopped>>,
    /// SIGCONTs that came from home.
    continued: HashMap<i32, u32>,
    /// Processes whose deputies are stopped.
    stopped: HashSet<i32>,
}

impl Stops {
    /// A thread ended.
    pub fn forget_thread(&mut self, host: HostTid) {
        self.pausing.values_mut().for_each(|threads| threads.retain(|t| t.tid() != host));
    }

    /// A process is gone.
    pub fn forget(&mut self, pid: i32) {
        self.pausing.remove(&pid);
        self.continued.remove(&pid);
        self.stopped.remove(&pid);
    }

    /// Its deputy is stopped: what that runs for it does not end before it is continued.
    pub fn is_stopped(&self, pid: i32) -> bool {
        self.stopped.contains(&pid)
    }

    /// A SIGCONT came from home.
    pub fn count(&mut self, pid: i32) {
        self.stopped.remove(&pid);
        let count = self.continued.entry(pid).or_default();
        *count = count.wrapping_add(1);
    }
}

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

/// The program neither handles nor ignores the signal.
pub fn is_default(host: HostTid, signal: i32) -> bool {
    os::process::status(host.0).is_ok_and(|s| (s.caught | s.ignored) & (1 << (signal - 1)) == 0)
}
