//! Calls that a room cannot make, and sees only when they are under way: processes that cannot be
//! made there (clone(2) with tables in common, with namespaces, with another signal at the end),
//! and programs that cannot begin there ([`crate::supervisor::tracer::executing`]). Who makes such
//! a call goes home, and makes it there.
//!
//! Its thread is put back to before its call, and held there until the process is asked for. If
//! that cannot go, the call fails.

use crate::supervisor::tracer::births::skip;
use crate::supervisor::tracer::state::unsupported_clone::{UnsupportedCall, UnsupportedCallState};
use crate::supervisor::tracer::{Tracer, executing};
use libc::user_regs_struct;
use os::ptrace::{self, HostTid, Stopped, TraceError};
use room_protocol::ToHome;
use room_protocol::message::Errand;

/// `syscall` and `int 0x80`.
const INSTRUCTION_BYTES: u64 = 2;

/// No call is under way, so the kernel makes none again: the program does.
fn put_before(registers: &mut user_regs_struct) {
    (registers.rax, registers.orig_rax) = (registers.orig_rax, u64::MAX);
    registers.rip = registers.rip.wrapping_sub(INSTRUCTION_BYTES);
}

/// What a thread that stands before such a call has to do at home: it makes a process, or begins a
/// program.
fn errand(host: HostTid, registers: &user_regs_struct) -> Errand {
    let path = match registers.rax as i64 {
        libc::SYS_execve => executing::path(host, registers.rdi),
        libc::SYS_execveat => executing::path(host, registers.rsi),
        _ => None,
    };
    let nr = registers.rax as u32;
    path.map_or_else(|| Errand::call(nr), |path| Errand::call_on(nr, &path))
}

impl Tracer {
    /// A thread is about to make a call that `why` cannot be made here.
    pub fn make_at_home(&mut self, mut stopped: Stopped, why: &'static str) -> Result<(), TraceError> {
        let (host, mut registers) = (stopped.tid(), stopped.registers()?);
        let nr = registers.orig_rax;
        let before = self.unsupported_calls.0.remove(&host);
        let stays = before.is_some_and(|wish| matches!(wish.state, UnsupportedCallState::Stays));
        let Some(who) = self.meet(host).filter(|_| !stays) else {
            self.refuse_call(host, nr as u32, why);
            return skip(stopped, -i64::from(libc::ENOSYS));
        };
        put_before(&mut registers);
        stopped.set_registers(&registers)?;
        self.unsupported_calls
            .0
            .insert(host, UnsupportedCall { pid: who.pid, nr, at: registers.rip, state: UnsupportedCallState::Asked });
        ptrace::interrupt(host)?;
        stopped.resume(0)
    }

    /// The call of a thread fails soon; when it has, [`Tracer::fails_no_more`] puts the thread back
    /// to before it. False: its process cannot go home.
    pub fn will_fail(&mut self, host: HostTid) -> bool {
        let before = self.unsupported_calls.0.remove(&host);
        let stays = before.is_some_and(|wish| matches!(wish.state, UnsupportedCallState::Stays));
        let Some(who) = self.meet(host).filter(|_| !stays) else { return false };
        self.unsupported_calls
            .0
            .insert(host, UnsupportedCall { pid: who.pid, nr: 0, at: 0, state: UnsupportedCallState::Failing });
        true
    }

    /// Whether the call in which this thread has stopped is one that is to be made again.
    pub fn has_failed(&self, host: HostTid) -> bool {
        self.unsupported_calls.0.get(&host).is_some_and(|wish| matches!(wish.state, UnsupportedCallState::Failing))
    }

    /// It makes the call again, with these registers (before it).
    pub fn fails_no_more(&mut self, stopped: Stopped, registers: &mut user_regs_struct) -> Result<Stopped, TraceError> {
        put_before(registers);
        self.held_at(stopped, registers)
    }

    /// The thread goes on with these registers, at home.
    pub fn held_at(&mut self, mut stopped: Stopped, registers: &mut user_regs_struct) -> Result<Stopped, TraceError> {
        registers.orig_rax = u64::MAX;
        stopped.set_registers(registers)?;
        if let Some(wish) = self.unsupported_calls.0.get_mut(&stopped.tid()) {
            (wish.nr, wish.at, wish.state) = (registers.rax, registers.rip, UnsupportedCallState::Asked);
        }
        Ok(stopped)
    }

    /// Holds a thread that has stopped before such a call; gives back all others.
    pub fn hold_unmade(&mut self, stopped: Stopped) -> Result<Option<Stopped>, TraceError> {
        let Some(wish) = self.unsupported_calls.0.get_mut(&stopped.tid()) else { return Ok(Some(stopped)) };
        let registers = stopped.registers()?;
        // A signal's handler may come first.
        let is_before = registers.rip == wish.at && registers.rax == wish.nr && registers.orig_rax == u64::MAX;
        match wish.state {
            UnsupportedCallState::Asked if is_before => {
                let pid = wish.pid;
                let errand = errand(stopped.tid(), &registers);
                wish.state = UnsupportedCallState::Held(stopped);
                self.room.tell(&ToHome::GoesHome { pid, first: None, errand });
                Ok(None)
            }
            _ => Ok(Some(stopped)),
        }
    }

    /// The process cannot go home: the calls fail.
    pub fn fail_unmade(&mut self, pid: i32) {
        for stopped in self.unsupported_calls.change(pid, || UnsupportedCallState::Stays) {
            // The call is made again, and then fails.
            if let Err(TraceError::Failed(e)) = stopped.resume(0) {
                tracing::error!("{e}");
            }
        }
    }
}
