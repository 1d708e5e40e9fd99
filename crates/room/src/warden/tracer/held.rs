//! Calls that were interrupted while home ran them. The thread is held in its signal stop until home says whether the call was made: if it was, its
//! result stands; if not, the kernel restarts it or says EINTR, as the handler's flags want. So it happens exactly once.

use super::Tracer;
use super::departing::LEAVING;
use crate::warden::calls::sysv;
use crate::warden::shared::Interrupted;
use os::ptrace::{Stopped, TraceError};
use std::collections::HashMap;
use wire::ToHome;
use wire::message::CallId;

/// Held threads, with the signal that is to be delivered.
#[derive(Debug, Default)]
pub struct Held {
    threads: HashMap<CallId, (Stopped, i32)>,
}

impl Held {
    /// Keeps a stopped thread until home has ended this call.
    pub fn keep(&mut self, id: CallId, stopped: Stopped, signal: i32) {
        self.threads.insert(id, (stopped, signal));
    }
}

impl Tracer {
    /// Holds a thread whose call home is running; gives it back if there is none.
    pub fn hold(&mut self, stopped: Stopped, signal: i32) -> Option<Stopped> {
        match self.room.hold(stopped.tid()) {
            Interrupted::NotHome => return Some(stopped),
            Interrupted::Running { id, asked } => {
                self.held.threads.insert(id, (stopped, signal));
                if asked {
                    self.room.tell(&ToHome::Cancel { id });
                }
            }
            Interrupted::Done(result) => {
                if let Err(TraceError::Failed(e)) = self.release(stopped, signal, result) {
                    tracing::error!("{e}");
                }
            }
        }
        None
    }

    /// Home has ended the call of a held thread.
    pub fn held_ended(&mut self, id: CallId, result: i64) {
        if self.described(id, result) {
            return;
        }
        let Some((stopped, signal)) = self.held.threads.remove(&id) else { return };
        let leaves = signal == LEAVING;
        let done = if leaves { self.leave_with(stopped, result) } else { self.release(stopped, signal, result) };
        if let Err(TraceError::Failed(e)) = done {
            tracing::error!("{e}");
        }
    }

    /// The call of a thread that waited at a listener was not made. One that never waits natively is made again whatever handler runs: no program expects EINTR
    /// of it.
    pub fn not_made(stopped: &mut Stopped) -> Result<(), TraceError> {
        const ERESTARTNOINTR: i64 = -513;
        const ERESTARTNOHAND: i64 = -514;
        let mut registers = stopped.registers()?;
        if sysv::never_restarts(registers.orig_rax as i64) {
            registers.rax = ERESTARTNOHAND as u64;
            stopped.set_registers(&registers)?;
        } else if !may_wait(registers.orig_rax) {
            registers.rax = ERESTARTNOINTR as u64;
            stopped.set_registers(&registers)?;
        }
        Ok(())
    }

    fn release(&mut self, stopped: Stopped, signal: i32, result: i64) -> Result<(), TraceError> {
        let mut stopped = self.pay(stopped, signal)?;
        let mut registers = stopped.registers()?;
        let done = result != -i64::from(libc::EINTR);
        let is_socket = || {
            systable::row(registers.orig_rax as u32)
                .is_some_and(|row| row.class == systable::Class::Special(systable::Special::Socket))
        };
        if done || (signal != 0 && is_socket() && self.room.ends_by_signal(stopped.tid(), registers.rdi as i32)) {
            registers.rax = result as u64;
            stopped.set_registers(&registers)?;
        } else {
            Tracer::not_made(&mut stopped)?;
        }
        let stopped = if signal == 0 { self.do_injected(stopped)? } else { stopped };
        self.deliver(stopped, signal)
    }
}

/// A call that may be interrupted: the hosting kernel's own, and those of home that wait for something.
fn may_wait(call: u64) -> bool {
    use systable::{Class, Special};
    let Some(row) = systable::row(call as u32) else { return true };
    match row.class {
        Class::Home => false,
        Class::Special(Special::Ipc) => sysv::never_restarts(call as i64),
        Class::Special(Special::Socket) => !matches!(
            call as i64,
            libc::SYS_socket
                | libc::SYS_bind
                | libc::SYS_listen
                | libc::SYS_getsockname
                | libc::SYS_getpeername
                | libc::SYS_getsockopt
                | libc::SYS_setsockopt
                | libc::SYS_shutdown
                | libc::SYS_inotify_init
                | libc::SYS_inotify_init1
                | libc::SYS_inotify_add_watch
                | libc::SYS_inotify_rm_watch
        ),
        Class::Special(special) => !matches!(
            special,
            Special::Signal
                | Special::Credentials
                | Special::Stat
                | Special::Seek
                | Special::Disposition
                | Special::Prctl
                | Special::Limits
                | Special::Usage
                | Special::SignalFd
                | Special::Nice
                | Special::Owner
                | Special::Watch
                | Special::SharedMapping
                | Special::Fcntl
                | Special::Semaphore
        ),
        Class::Local | Class::GoHome(_) | Class::Refused(_) | Class::Unused => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_waits_is_never_interrupted() {
        let table = [
            ("getsockname", false),
            ("kill", false),
            ("rt_sigaction", false),
            ("inotify_add_watch", false),
            ("mmap", false),
            ("fcntl", false),
            ("semget", false),
            ("semop", true),
            ("recvfrom", true),
            ("wait4", true),
            ("read", true),
        ];
        for (name, waits) in table {
            assert_eq!(systable::number(name).map(|nr| may_wait(nr.into())), Some(waits), "{name}");
        }
    }
}
