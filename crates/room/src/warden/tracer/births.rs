//! New threads, under the numbers that they have at home. One at a time in a room:
//!
//! 1. the filter stops the thread at its clone call, 2. home makes a deputy thread, whose number is reserved, 3. the porter sets the room's next number, 4. the
//!    thread goes on to the end of the call, where the number is checked.
//!
//! A signal may make the kernel restart the call: it is seen again, and the reservation is kept for it.

use super::Tracer;
use super::porters::Then;
use crate::porter::Command;
use os::ptrace::{HostTid, Stopped, TraceError};
use std::collections::{HashMap, VecDeque};
use wire::ToHome;

/// Births under way.
#[derive(Debug, Default)]
pub struct Births {
    /// Stopped at their call, waiting for home.
    waiting: HashMap<HostTid, Stopped>,
    /// Numbers that home made for a thread's next call.
    reserved: HashMap<HostTid, i32>,
    /// Whose call is under way in the kernel, if any.
    labouring: Option<HostTid>,
    /// Have a number, and wait for their turn.
    queue: VecDeque<(Stopped, i32)>,
}

impl Births {
    /// A thread ended: nothing is under way for it.
    pub fn forget(&mut self, host: HostTid) {
        self.waiting.remove(&host);
        self.reserved.remove(&host);
        self.queue.retain(|(s, _)| s.tid() != host);
    }
}

/// What a call wants to make.
enum Wanted {
    Thread,
    Process,
}

impl Tracer {
    pub fn filter_stop(&mut self, mut stopped: Stopped) -> Result<(), TraceError> {
        if self.mark(&mut stopped)? {
            return stopped.resume(0);
        }
        let registers = stopped.registers()?;
        let host = stopped.tid();
        match wanted(host, &registers) {
            Wanted::Thread => {
                if let Some(tid) = self.births.reserved.get(&host).copied() {
                    self.queue_birth(stopped, tid);
                } else if let Some(who) = self.meet(host) {
                    let id = self.expect_thread(host);
                    self.births.waiting.insert(host, stopped);
                    self.room.tell(&ToHome::NewThread { id, pid: who.pid, tid: who.tid });
                } else {
                    self.births.waiting.insert(host, stopped);
                    self.thread_reserved(host, i64::from(-libc::EAGAIN));
                }
                Ok(())
            }
            Wanted::Process => {
                self.refuse_call(host, registers.orig_rax as u32, "a placed program cannot make processes yet");
                skip(stopped, -i64::from(libc::ENOSYS))
            }
        }
    }

    /// Home made the thread (or could not).
    pub fn thread_reserved(&mut self, host: HostTid, result: i64) {
        let Some(stopped) = self.births.waiting.remove(&host) else { return };
        match i32::try_from(result) {
            Ok(tid) if tid > 0 => {
                self.births.reserved.insert(host, tid);
                self.queue_birth(stopped, tid);
            }
            _ => {
                let _ = skip(stopped, result.min(-1));
            }
        }
    }

    fn queue_birth(&mut self, stopped: Stopped, tid: i32) {
        self.births.queue.push_back((stopped, tid));
        self.next_birth();
    }

    fn next_birth(&mut self) {
        if self.births.labouring.is_some() {
            return;
        }
        if let Some((stopped, tid)) = self.births.queue.pop_front() {
            self.births.labouring = Some(stopped.tid());
            self.porter.ask(Command::LastPid(tid - 1), None, Then::Clone(stopped));
        }
    }

    pub fn give_birth(&mut self, stopped: Stopped) {
        let host = stopped.tid();
        if stopped.resume_to_call_end().is_err() {
            self.labour_over(host);
        }
    }

    pub fn birth_failed(&mut self, stopped: Stopped, errno: i32) {
        let host = stopped.tid();
        self.cancel_reservation(host);
        let _ = skip(stopped, i64::from(-errno));
        self.labour_over(host);
    }

    /// The thread exists; the call goes on to its end.
    pub fn resume_after_birth(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        if self.births.labouring == Some(stopped.tid()) { stopped.resume_to_call_end() } else { stopped.resume(0) }
    }

    /// The end of a clone call.
    pub fn clone_done(&mut self, mut stopped: Stopped) -> Result<(), TraceError> {
        let host = stopped.tid();
        if self.births.labouring != Some(host) {
            return stopped.resume(0);
        }
        let registers = stopped.registers()?;
        let result = registers.rax as i64;
        let wanted = self.births.reserved.get(&host).copied();
        // ERESTARTSYS .. ERESTART_RESTARTBLOCK: the call will be made again.
        if (-516..=-512).contains(&result) {
            self.labour_over(host);
            return stopped.resume(0);
        }
        if result < 0 {
            self.cancel_reservation(host);
        } else if wanted == Some(result as i32) {
            self.births.reserved.remove(&host);
        } else {
            return self.wrong_number(&mut stopped, result as i32).and_then(|()| stopped.resume(0));
        }
        self.labour_over(host);
        stopped.resume(0)
    }

    /// Somebody else took the number first. Only the porter makes processes in the room, so this means that the number was not free: the process cannot go
    /// on with a number that is not home's.
    fn wrong_number(&mut self, stopped: &mut Stopped, got: i32) -> Result<(), TraceError> {
        let host = stopped.tid();
        tracing::error!("a thread of the room got number {got} instead of home's: its process is ended");
        self.cancel_reservation(host);
        self.labour_over(host);
        let who = self.room.guests().who(host);
        if let Some(who) = who {
            self.kill(who.pid);
        }
        Ok(())
    }

    fn cancel_reservation(&mut self, host: HostTid) {
        let who = self.room.guests().who(host);
        if let (Some(tid), Some(who)) = (self.births.reserved.remove(&host), who) {
            self.room.tell(&ToHome::ThreadGone { pid: who.pid, tid });
        }
    }

    /// The turn of the next one, if this one's was under way.
    pub fn labour_over(&mut self, host: HostTid) {
        if self.births.labouring == Some(host) {
            self.births.labouring = None;
            self.next_birth();
        }
    }
}

/// The call is not made, and returns `value`.
fn skip(mut stopped: Stopped, value: i64) -> Result<(), TraceError> {
    let mut registers = stopped.registers()?;
    registers.orig_rax = u64::MAX;
    registers.rax = value as u64;
    stopped.set_registers(&registers)?;
    stopped.resume(0)
}

fn wanted(host: HostTid, registers: &libc::user_regs_struct) -> Wanted {
    let flags = match registers.orig_rax as i64 {
        libc::SYS_clone => registers.rdi,
        libc::SYS_clone3 => {
            let mut word = [0; 8];
            // An unreadable struct is EFAULT in the kernel, whichever way it goes there.
            os::vm::read(host.0, registers.rdi, &mut word)
                .map_or(libc::CLONE_THREAD as u64, |()| u64::from_le_bytes(word))
        }
        _ => 0,
    };
    if flags & libc::CLONE_THREAD as u64 != 0 { Wanted::Thread } else { Wanted::Process }
}
