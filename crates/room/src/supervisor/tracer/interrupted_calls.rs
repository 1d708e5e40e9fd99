//! Calls that were interrupted while home ran them. The thread is held in its signal stop until
//! home says whether the call was made: if it was, its result stands; if not, the kernel restarts
//! it or says EINTR, as the handler's flags want. So it happens exactly once.

use crate::state::pending::Interrupted;
use crate::state::restarting_calls::never_restarts;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::state::departing::LEAVING;
use os::ptrace::{HostTid, Stopped, TraceError};
use room_protocol::ToHome;
use room_protocol::message::CallId;

impl Tracer {
    /// Holds a thread whose call home is running; gives it back if there is none.
    pub fn hold(&mut self, stopped: Stopped, signal: i32) -> Option<Stopped> {
        match self.room.home.hold(stopped.tid()) {
            Interrupted::NotHome => return Some(stopped),
            Interrupted::Running { id, asked } => {
                self.interrupted_calls.threads.insert(id, (stopped, signal));
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
        let Some((stopped, signal)) = self.interrupted_calls.threads.remove(&id) else { return };
        let leaves = signal == LEAVING;
        let done = if leaves { self.leave_with(stopped, result) } else { self.release(stopped, signal, result) };
        if let Err(TraceError::Failed(e)) = done {
            tracing::error!("{e}");
        }
    }

    /// The call of a thread that waited at a listener was not made. One that never waits natively
    /// is made again whatever handler runs: no program expects EINTR of it.
    pub fn not_made(stopped: &mut Stopped) -> Result<(), TraceError> {
        const ERESTARTNOINTR: i64 = -513;
        const ERESTARTNOHAND: i64 = -514;
        let mut registers = stopped.registers()?;
        if never_restarts(registers.orig_rax as i64) {
            registers.rax = ERESTARTNOHAND as u64;
            stopped.set_registers(&registers)?;
        } else if !may_wait(registers.orig_rax) || waits_for_nothing(stopped.tid(), &registers) {
            registers.rax = ERESTARTNOINTR as u64;
            stopped.set_registers(&registers)?;
        }
        Ok(())
    }

    fn release(&mut self, stopped: Stopped, signal: i32, result: i64) -> Result<(), TraceError> {
        let mut stopped = self.pay(stopped, signal)?;
        let mut registers = stopped.registers()?;
        let done = result != -i64::from(libc::EINTR);
        if done
            || (signal != 0
                && of_socket(registers.orig_rax)
                && self.room.ends_by_signal(stopped.tid(), registers.rdi as i32))
        {
            registers.rax = result as u64;
            stopped.set_registers(&registers)?;
        } else {
            Tracer::not_made(&mut stopped)?;
        }
        let stopped = if signal == 0 { self.do_injected(stopped)? } else { stopped };
        self.deliver(stopped, signal)
    }
}

/// This call of a thread is one that may wait, and does not: its flags say so, or its socket's.
fn waits_for_nothing(host: HostTid, registers: &libc::user_regs_struct) -> bool {
    let args = [registers.rdi, registers.rsi, registers.rdx, registers.r10];
    let call = registers.orig_rax;
    let is_nonblocking = || {
        let info = os::process::fd_info(host.0, args[0] as i32);
        of_socket(call) && info.is_ok_and(|info| info.flags & libc::O_NONBLOCK != 0)
    };
    says_not_to_wait(call as i64, args) || is_nonblocking()
}

/// The flags of this call say that it waits for nothing.
fn says_not_to_wait(call: i64, args: [u64; 4]) -> bool {
    let (flags, flag) = match call {
        libc::SYS_wait4 => (args[2], libc::WNOHANG),
        libc::SYS_waitid => (args[3], libc::WNOHANG),
        libc::SYS_recvmsg | libc::SYS_sendmsg => (args[2], libc::MSG_DONTWAIT),
        libc::SYS_recvfrom | libc::SYS_sendto | libc::SYS_recvmmsg | libc::SYS_sendmmsg => {
            (args[3], libc::MSG_DONTWAIT)
        }
        _ => return false,
    };
    flags & flag as u64 != 0
}

fn of_socket(call: u64) -> bool {
    use systable::{Class, Special};
    systable::row(call as u32).is_some_and(|row| row.class == Class::Special(Special::Socket))
}

/// A call that may be interrupted: the hosting kernel's own, and those of home that wait for
/// something.
fn may_wait(call: u64) -> bool {
    use systable::{Class, Special};
    let Some(row) = systable::row(call as u32) else { return true };
    match row.class {
        Class::Home => false,
        Class::Special(Special::Ipc) => never_restarts(call as i64),
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
                | Special::Compare
                | Special::Schedule
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
    fn flags_say_not_to_wait() {
        let (none, wait, socket) = (0, libc::WNOHANG as u64, libc::MSG_DONTWAIT as u64);
        assert!(says_not_to_wait(libc::SYS_wait4, [7, 0, wait, 0]));
        assert!(!says_not_to_wait(libc::SYS_wait4, [7, 0, none, wait]));
        assert!(says_not_to_wait(libc::SYS_waitid, [1, 7, 0, wait]));
        assert!(says_not_to_wait(libc::SYS_recvmsg, [3, 0, socket, 0]));
        assert!(says_not_to_wait(libc::SYS_recvfrom, [3, 0, 9, socket]));
        assert!(!says_not_to_wait(libc::SYS_accept4, [3, 0, 0, socket]));
    }

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
