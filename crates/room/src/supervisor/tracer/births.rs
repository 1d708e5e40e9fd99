//! New threads and processes, under the numbers that they have at home. One at a time in a room:
//!
//! 1. the filter stops the thread at its call, 2. home makes the deputy (or deputy thread), whose
//!    number is reserved, 3. the porter sets the room's next number, 4. the thread goes on to the
//!    end of the call; the number is checked as soon as the new one exists.
//!
//! A signal may make the kernel restart the call: it is seen again, and the reservation is kept for
//! it. A process is made as a sibling without exit signal ([`crate::supervisor::tracer::family`]),
//! for home alone sends SIGCHLD and keeps the zombie; the porter reaps the body.

use crate::sandbox::guest_memory;
use crate::sandbox::porter::Command;
use crate::state::calls::after::After;
use crate::state::guests::Who;
use crate::state::orders::Which;
use crate::state::pending::Pending;
use crate::supervisor::tracer::family::{Shape, Unable};
use crate::supervisor::tracer::state::porter::Then;
use crate::supervisor::tracer::{Tracer, family};
use checkpoint::BodyError;
use os::process::Status;
use os::ptrace::{HostTid, Stopped, TraceError};
use room_protocol::ToHome;
use room_protocol::message::{Birth, Call, CallId};

impl Tracer {
    pub fn filter_stop(&mut self, mut stopped: Stopped) -> Result<(), TraceError> {
        if self.mark(&mut stopped)? {
            return stopped.resume(0);
        }
        let registers = stopped.registers()?;
        let host = stopped.tid();
        let args = [registers.rdi, registers.rsi, registers.rdx, 0, 0, 0];
        if let Some(number) = systable::filter::duplicate(registers.orig_rax as u32, &args) {
            return self.duplicate(stopped, number);
        }
        if crate::supervisor::tracer::fstat_filters::is_about_descriptor(registers.orig_rax) {
            return self.mark_descriptor(stopped);
        }
        if systable::filter::tells_devices(registers.orig_rax as u32) {
            return stopped.resume_to_call_end();
        }
        if crate::supervisor::tracer::cpu_times::is_reading(registers.orig_rax) {
            return stopped.resume_to_call_end();
        }
        if crate::supervisor::tracer::deadlines::is_deadline(registers.orig_rax) {
            return self.translate_deadline(stopped);
        }
        if registers.orig_rax as i64 == libc::SYS_rt_sigtimedwait {
            self.signals.takes(host, registers.rsi);
            return stopped.resume_to_call_end();
        }
        let shape = match family::shape(host, &registers) {
            Ok(shape) => shape,
            Err(Unable { why, tried: false }) => return self.make_at_home(stopped, why),
            Err(Unable { why, tried: true }) => {
                self.refuse_call(host, registers.orig_rax as u32, why);
                return skip(stopped, -i64::from(libc::ENOSYS));
            }
        };
        if let Some(number) = self.births.reserved.get(&host).copied() {
            self.queue_birth(stopped, number);
        } else if let Some(who) = self.meet(host) {
            let id = self.expect_birth(host);
            self.births.waiting.insert(host, stopped);
            let birth = if shape == Shape::Thread { Birth::Thread } else { Birth::Process };
            self.room.tell(&ToHome::Birth { id, pid: who.pid, tid: who.tid, birth });
        } else {
            return skip(stopped, -i64::from(libc::EAGAIN));
        }
        Ok(())
    }

    /// Home made the deputy (or could not).
    pub fn reserved(&mut self, host: HostTid, result: i64) {
        let Some(stopped) = self.births.waiting.remove(&host) else { return };
        match i32::try_from(result) {
            Ok(number) if number > 0 => {
                self.births.reserved.insert(host, number);
                self.queue_birth(stopped, number);
            }
            _ => {
                let _ = skip(stopped, result.min(-1));
            }
        }
    }

    fn queue_birth(&mut self, stopped: Stopped, number: i32) {
        self.births.queue.push_back((stopped, number));
        self.next_birth();
    }

    fn next_birth(&mut self) {
        if self.births.labouring.is_some() {
            return;
        }
        if let Some((stopped, number)) = self.births.queue.pop_front() {
            self.births.labouring = Some(stopped.tid());
            self.porter.ask(Command::LastPid(number - 1), None, Then::Clone(stopped));
        }
    }

    /// The next number is set: the call goes on, as a sibling's if it makes a process.
    pub fn give_birth(&mut self, stopped: Stopped) {
        let host = stopped.tid();
        if self.labour(stopped).is_err() {
            self.labour_over(host);
        }
    }

    fn labour(&mut self, mut stopped: Stopped) -> Result<(), TraceError> {
        let registers = stopped.registers()?;
        if let Ok(Shape::Process(rewritten)) = family::shape(stopped.tid(), &registers) {
            stopped.set_registers(&rewritten.registers)?;
            self.births.rewritten.insert(stopped.tid(), registers);
        }
        stopped.resume_to_call_end()
    }

    pub fn birth_failed(&mut self, stopped: Stopped, errno: i32) {
        let host = stopped.tid();
        self.cancel_reservation(host);
        let _ = skip(stopped, i64::from(-errno));
        self.labour_over(host);
    }

    /// The new one exists; the parent's call goes on to its end (of a vfork: when the child has its
    /// own program).
    pub fn born(&mut self, stopped: Stopped, child: HostTid) -> Result<(), TraceError> {
        let host = stopped.tid();
        if host == self.porter.host {
            return stopped.resume(0);
        }
        let Some(original) = self.births.rewritten.get(&host).copied() else {
            // Known from here on: its parent may be seen to stop for a move before it is, and who
            // is not known is not waited for.
            if self.room.guests().who(child).is_none() && self.meet(child).is_some() {
                self.births.unseen.insert(child);
            }
            return stopped.resume_to_call_end();
        };
        let wanted = self.births.reserved.remove(&host);
        let mut described = None;
        let parent = self.room.guests().who(host);
        match (os::process::inner_tid(child.0).ok(), wanted, parent) {
            (Some(number), Some(wanted), Some(parent)) if number == wanted => {
                self.adopt(child, number, parent);
                described = pidfd_at(host, &original).map(|at| (parent, number, at));
                self.births.newborn.insert(child, original);
                if let Some(early) = self.births.early.remove(&child) {
                    self.first_steps(early)?;
                }
            }
            (number, ..) => self.wrong_number(host, number.unwrap_or(0)),
        }
        self.labour_over(host);
        match described {
            Some((parent, child, number_at)) => {
                self.describe(stopped, parent, child, number_at);
                Ok(())
            }
            None => stopped.resume_to_call_end(),
        }
    }

    /// Has home open a descriptor of a child for its parent, before that goes on: nobody can have
    /// waited for the child yet.
    fn describe(&mut self, parent: Stopped, who: Who, child: i32, number_at: u64) {
        let after = After::Owed { who, number_at };
        let id = self.room.home.expect(Pending::Held { host: parent.tid(), after, asked: true });
        self.births.described.insert(id, (parent, number_at));
        self.room.home.ask(id, who, Call::new(libc::SYS_pidfd_open, [child as u64, 0, 0, 0, 0, 0]));
    }

    /// Home has answered: the parent goes on, and takes the descriptor at its call's end. `false`:
    /// that was another call.
    pub fn described(&mut self, id: CallId, result: i64) -> bool {
        let Some((parent, number_at)) = self.births.described.remove(&id) else { return false };
        self.births.owed.insert(parent.tid());
        if result < 0 {
            tracing::warn!("a new process has no descriptor: error {}", -result);
            // Whose memory is gone is gone.
            drop(guest_memory::write(parent.tid().0, number_at, &(-1i32).to_le_bytes()));
        }
        // One that is gone goes nowhere.
        drop(parent.resume_to_call_end());
        true
    }

    /// A new process before its first instruction: `None` if it goes on, else it waits until its
    /// birth is told.
    pub fn first_stop(&mut self, stopped: Stopped) -> Result<Option<Stopped>, TraceError> {
        let host = stopped.tid();
        if self.births.newborn.contains_key(&host) {
            self.first_steps(stopped)?;
            return Ok(None);
        }
        if host != self.porter.host && self.is_unknown_process(host) {
            self.births.early.insert(host, stopped);
            return Ok(None);
        }
        Ok(Some(stopped))
    }

    /// The child of a rewritten call sees the registers of the call that its parent made.
    fn first_steps(&mut self, mut stopped: Stopped) -> Result<(), TraceError> {
        if let Some(original) = self.births.newborn.remove(&stopped.tid()) {
            let mut registers = stopped.registers()?;
            family::put_back(&mut registers, &original);
            stopped.set_registers(&registers)?;
        }
        stopped.resume(0)
    }

    /// The end of a call that makes something.
    pub fn call_done(&mut self, mut stopped: Stopped) -> Result<(), TraceError> {
        let host = stopped.tid();
        let mut registers = stopped.registers()?;
        let result = registers.rax as i64;
        self.signal_taken(host, result);
        self.is_duplicated(host, result);
        if result == 0 {
            self.complete_cpu_time(host, &registers);
            self.put_devices(host, &registers);
        }
        let process = self.births.rewritten.remove(&host);
        if let Some(original) = &process {
            family::put_back(&mut registers, original);
            stopped.set_registers(&registers)?;
            if self.births.owed.remove(&host) {
                stopped = self.pay(stopped, 0)?;
                // Also, what it was made to do took the stop that it was asked for.
                self.show(host, Which::All);
            }
        }
        if self.births.labouring == Some(host) {
            let wanted = self.births.reserved.get(&host).copied();
            // ERESTARTSYS .. ERESTART_RESTARTBLOCK: the call will be made again, and the number is
            // kept for it.
            let again = (-516..=-512).contains(&result);
            if result < 0 && !again {
                self.cancel_reservation(host);
            } else if !again && wanted == Some(result as i32) {
                self.births.reserved.remove(&host);
            } else if !again {
                self.wrong_number(host, result as i32);
            }
            self.labour_over(host);
        }
        stopped.resume(0)
    }

    /// Only the porter and calls one at a time make numbers in the room, so home's was not free
    /// here: the process cannot go on with another.
    fn wrong_number(&mut self, host: HostTid, got: i32) {
        tracing::error!("something new in the room got number {got} instead of home's: its process is ended");
        self.cancel_reservation(host);
        let who = self.room.guests().who(host);
        if let Some(who) = who {
            self.kill(who.pid);
        }
    }

    pub fn cancel_reservation(&mut self, host: HostTid) {
        let who = self.room.guests().who(host);
        if let (Some(number), Some(who)) = (self.births.reserved.remove(&host), who) {
            self.signals.forget(number);
            self.room.tell(&ToHome::Unborn { pid: who.pid, number });
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

/// Where a thread that makes a process wants the number of a descriptor of it.
fn pidfd_at(host: HostTid, call: &libc::user_regs_struct) -> Option<u64> {
    match family::shape(host, call) {
        Ok(Shape::Process(process)) => process.pidfd_at,
        _ => None,
    }
}

/// The thread goes on with this value, without its call.
pub fn skip(mut stopped: Stopped, value: i64) -> Result<(), TraceError> {
    let mut registers = stopped.registers()?;
    registers.orig_rax = u64::MAX;
    registers.rax = value as u64;
    stopped.set_registers(&registers)?;
    stopped.resume(0)
}

/// Whether these are all threads of a process that live: who is left behind is lost.
pub fn are_all(process: &Status, threads: &[Stopped]) -> Result<(), BodyError> {
    if process.threads as usize == threads.len() {
        return Ok(());
    }
    let lives = |tid: i32| os::process::status(tid).is_ok_and(|status| !matches!(status.state, 'Z' | 'X'));
    let is_other = |tid: &i32| threads.iter().all(|t| t.tid().0 != *tid);
    match os::process::threads(process.tgid)?.into_iter().filter(is_other).find(|tid| lives(*tid)) {
        Some(_) => Err(BodyError::Retryable("one of its threads has not been seen yet".into())),
        None => Ok(()),
    }
}
