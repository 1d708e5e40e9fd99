//! Signals from home to bodies, with exactly what they carried.
//!
//! A process may not send another a siginfo that claims to come from the kernel or kill(2), and
//! whatever it sends into a PID namespace below its own loses si_pid and si_uid (send_signal_locked
//! in kernel/signal.c). So the signal travels with a ticket in its value, and the tracer puts the
//! true siginfo in place when it is about to be delivered.

use crate::sandbox::guest_memory;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::state::signals::{AT_SENDER, number};
use os::ptrace::{HostTid, Stopped, TraceError};

impl Tracer {
    pub fn signal_from_home(&mut self, pid: i32, tid: Option<i32>, info: [u8; 128]) {
        let info = self.understood(pid, info);
        if self.is_coming(pid) {
            self.signals.early.entry(pid).or_default().add((tid, info));
            return;
        }
        let signal = number(&info, 0);
        if signal == libc::SIGCONT {
            self.continue_unseen(pid);
            self.stops.count(pid);
        }
        if !(1..=64).contains(&signal) {
            return;
        }
        if self.would_ignore(pid, tid, signal) {
            return;
        }
        // One that continues the body must not wait until that runs.
        if signal != libc::SIGCONT && self.inject(pid, tid, &info, signal) {
            return;
        }
        self.send_with_ticket(pid, tid, info);
        if signal == libc::SIGCONT {
            self.go_on(pid);
        }
    }

    /// SIGPIPE for a thread, as its kernel would send it (send_sig(SIGPIPE, current, 0) in
    /// fs/pipe.c).
    pub fn broken_pipe(&mut self, host: HostTid) {
        let Some(who) = self.room.guests().who(host) else { return };
        let uid = crate::supervisor::room_proc::owner(host).map_or(0, |(uid, _)| uid);
        let mut info = [0; 128];
        info[..4].copy_from_slice(&libc::SIGPIPE.to_le_bytes());
        info[AT_SENDER..AT_SENDER + 4].copy_from_slice(&who.pid.to_le_bytes());
        info[AT_SENDER + 4..AT_SENDER + 8].copy_from_slice(&uid.to_le_bytes());
        self.send_with_ticket(who.pid, Some(who.tid), info);
    }

    /// Sends a signal that the tracer sees before the program does.
    pub fn send_with_ticket(&mut self, pid: i32, tid: Option<i32>, info: [u8; 128]) {
        let (host, group) = {
            let guests = self.room.guests();
            let group = guests.host(pid);
            (tid.and_then(|tid| guests.host(tid)).or(group), group)
        };
        let (Some(host), Some(group)) = (host, group) else { return };
        let signal = number(&info, 0);
        // As its kernel would: one that waits is not queued again. (What home has seen of it before
        // stays its siginfo.)
        if self.signals.may_wait((pid, tid, signal)) && os::process::is_pending(host.0, tid.is_some(), signal) {
            return;
        }
        let sent = self.signals.ticket(pid, tid, info);
        // SAFETY: passes a live siginfo of 128 bytes; the number is a tracee's that has not been
        // waited for.
        let done = unsafe {
            match tid {
                Some(_) => libc::syscall(libc::SYS_rt_tgsigqueueinfo, group.0, host.0, signal, sent.as_ptr()),
                None => libc::syscall(libc::SYS_rt_sigqueueinfo, host.0, signal, sent.as_ptr()),
            }
        };
        if done < 0 {
            self.signals.take_back(&sent);
            tracing::debug!("signal {signal} to {pid}: {}", std::io::Error::last_os_error());
        }
    }

    /// A thread has taken a signal, unless `result` says otherwise: it shall see what that carried
    /// at home. (A guest that has unmapped the memory meanwhile sees nothing.)
    pub fn signal_taken(&mut self, host: HostTid, result: i64) {
        let Some(to) = self.signals.takers.remove(&host).filter(|_| result > 0) else { return };
        let Some(who) = self.room.guests().who(host) else { return };
        let mut sent = [0; 128];
        if guest_memory::read(host.0, to, &mut sent).is_ok()
            && let Some(true_info) = self.signals.redeem(who.pid, &sent)
        {
            let _ = guest_memory::write(host.0, to, &true_info);
        }
    }

    /// The program of this process runs from now on.
    pub fn early_signals(&mut self, pid: i32) {
        for (tid, info) in self.signals.early.remove(&pid).unwrap_or_default().take() {
            self.signal_from_home(pid, tid, info);
        }
    }

    /// A signal is about to be delivered to a thread.
    pub fn signal_stop(&mut self, stopped: Stopped, signal: i32) -> Result<(), TraceError> {
        let Some(stopped) = self.entry_stop(stopped, signal)? else { return Ok(()) };
        let Some(mut stopped) = self.empty_stop(stopped, signal)? else { return Ok(()) };
        self.labour_over(stopped.tid());
        let sent = stopped.signal_info()?;
        let who = self.room.guests().who(stopped.tid());
        if let Some(true_info) = who.and_then(|who| self.signals.redeem(who.pid, &sent)) {
            stopped.set_signal_info(&true_info)?;
        }
        if self.interrupted(&mut stopped)? {
            return match self.hold(stopped, signal) {
                Some(mut stopped) => {
                    Tracer::not_made(&mut stopped)?;
                    self.deliver(stopped, signal)
                }
                None => Ok(()),
            };
        }
        self.deliver(stopped, signal)
    }

    /// A read, write or open of a file that was interrupted says EINTR (FUSE knows nothing else).
    /// The kernel shall decide, as it would at home, whether a handler with SA_RESTART follows.
    /// `true`: the thread waited at a listener.
    pub fn interrupted(&mut self, stopped: &mut Stopped) -> Result<bool, TraceError> {
        const EINTR: i64 = -4;
        const ERESTARTSYS: i64 = -512;
        let mut registers = stopped.registers()?;
        let call = registers.orig_rax as i64;
        match registers.rax as i64 {
            EINTR if may_wait_for_file(call) && !self.room.ends_by_signal(stopped.tid(), registers.rdi as i32) => {
                registers.rax = ERESTARTSYS as u64;
                stopped.set_registers(&registers)?;
                Ok(false)
            }
            other => Ok(other == ERESTARTSYS),
        }
    }

    /// Birth, interruption, or a stop with the group.
    pub fn halt_stop(&mut self, stopped: Stopped, signal: i32) -> Result<(), TraceError> {
        let Some(stopped) = self.first_stop(stopped)? else { return Ok(()) };
        self.births.seen(stopped.tid());
        self.meet(stopped.tid());
        let stopped = self.execute_again(stopped)?;
        let Some(stopped) = self.leaving_stop(stopped, signal)? else { return Ok(()) };
        match signal {
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => stopped.listen(),
            _ => {
                let Some(mut stopped) = self.hold_unmade(stopped)? else { return Ok(()) };
                let waited = self.interrupted(&mut stopped)?;
                let host = stopped.tid();
                match if waited { self.hold(stopped, 0) } else { Some(stopped) } {
                    Some(stopped) => {
                        // Work for the thread itself is no reason to end its call.
                        let asked = self.injected.slept(host).map(|slept| (host.0, slept));
                        self.stale_stops.add(asked.filter(|(tid, _)| !self.stale_stops.threads.contains_key(tid)));
                        // A thread whose call is made again stands at the beginning of that, where
                        // it can do nothing else.
                        let stopped = self.do_injected(stopped)?;
                        self.undisturbed(stopped)?.resume(0)
                    }
                    None => {
                        self.send_otherwise(host);
                        Ok(())
                    }
                }
            }
        }
    }
}

fn may_wait_for_file(call: i64) -> bool {
    matches!(
        call,
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_preadv2
            | libc::SYS_pwritev2
            | libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_creat
    )
}
