//! Calls that were interrupted while home ran them. The thread is held in its signal stop until home says whether the call was made: if it was, its
//! result stands; if not, the kernel restarts it or says EINTR, as the handler's flags want. So it happens exactly once.

use super::Tracer;
use super::departing::LEAVING;
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
        let Some((stopped, signal)) = self.held.threads.remove(&id) else { return };
        let leaves = signal == LEAVING;
        let done = if leaves { self.leave_with(stopped, result) } else { self.release(stopped, signal, result) };
        if let Err(TraceError::Failed(e)) = done {
            tracing::error!("{e}");
        }
    }

    fn release(&mut self, mut stopped: Stopped, signal: i32, result: i64) -> Result<(), TraceError> {
        let mut registers = stopped.registers()?;
        let done = result != -i64::from(libc::EINTR);
        let is_socket = || {
            systable::row(registers.orig_rax as u32)
                .is_some_and(|row| row.class == systable::Class::Special(systable::Special::Socket))
        };
        if done || (signal != 0 && is_socket() && self.room.ends_by_signal(stopped.tid(), registers.rdi as i32)) {
            registers.rax = result as u64;
            stopped.set_registers(&registers)?;
        }
        self.deliver(stopped, signal)
    }
}
