//! Signals from home to bodies, with exactly what they carried.
//!
//! A process may not send another a siginfo that claims to come from the kernel or kill(2), and whatever it sends into a PID namespace below its own
//! loses si_pid and si_uid (send_signal_locked in kernel/signal.c). So the signal travels with a ticket in its value, and the tracer puts the true siginfo
//! in place when it is about to be delivered.

use super::Tracer;
use crate::guest_memory;
use os::ptrace::{HostTid, Stopped, TraceError};
use std::collections::HashMap;

/// Siginfos that wait for their signal.
#[derive(Debug, Default)]
pub struct Signals {
    /// By ticket: for which process, and what. A guest that forges a ticket gets no more than its own process' siginfo.
    tickets: HashMap<u64, (i32, [u8; 128])>,
    last_ticket: u32,
    /// What came for processes before their programs ran.
    early: HashMap<i32, Vec<Early>>,
    /// Threads that wait for a signal, and where what it carries is to be put.
    takers: HashMap<HostTid, u64>,
}

/// For which thread, if it is for one, and what.
type Early = (Option<i32>, [u8; 128]);

/// The most signals that are kept for one process whose program does not run yet.
const EARLY_MAX: usize = 4096;

/// Marks a siginfo of ours: si_code SI_QUEUE, and this in the upper half of the value. The lower one numbers the ticket.
const TICKET_MARK: u64 = 0x7465_726e << 32;
const SI_QUEUE: i32 = -1;

/// Offsets in siginfo_t on x86-64: si_signo 0, si_errno 4, si_code 8, then the union at 16 (pid and uid, then value at 24).
const AT_CODE: usize = 8;
const AT_SENDER: usize = 16;
const AT_VALUE: usize = 24;

fn word(info: &[u8; 128], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&info[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn number(info: &[u8; 128], at: usize) -> i32 {
    word(info, at & !7).wrapping_shr(8 * (at as u32 & 7)) as i32
}

impl Signals {
    /// The siginfo to send to `pid` for `info`.
    fn ticket(&mut self, pid: i32, info: [u8; 128]) -> [u8; 128] {
        self.last_ticket = self.last_ticket.wrapping_add(1);
        let ticket = TICKET_MARK | u64::from(self.last_ticket);
        self.tickets.insert(ticket, (pid, info));
        let mut sent = [0; 128];
        sent[..4].copy_from_slice(&info[..4]);
        sent[AT_CODE..AT_CODE + 4].copy_from_slice(&SI_QUEUE.to_le_bytes());
        sent[AT_VALUE..AT_VALUE + 8].copy_from_slice(&ticket.to_le_bytes());
        sent
    }

    /// The true siginfo of one that is about to be delivered to `pid`, if it is one of ours.
    fn redeem(&mut self, pid: i32, sent: &[u8; 128]) -> Option<[u8; 128]> {
        let ticket = word(sent, AT_VALUE);
        let ours =
            number(sent, AT_CODE) == SI_QUEUE && self.tickets.get(&ticket).is_some_and(|(owner, _)| *owner == pid);
        ours.then(|| self.tickets.remove(&ticket)).flatten().map(|(_, info)| info)
    }

    /// A thread is about to take a signal; what it carries is written there.
    pub fn takes(&mut self, host: HostTid, to: u64) {
        self.takers.insert(host, to);
    }

    /// A thread ended.
    pub fn forget_thread(&mut self, host: HostTid) {
        self.takers.remove(&host);
    }

    /// Puts the true siginfo in the place of one that waits, which goes elsewhere; should the process stay, it can still be redeemed.
    pub fn fill_in(&self, pid: i32, info: &mut [u8]) {
        let Ok(sent) = <&[u8; 128]>::try_from(&*info) else { return };
        let found = self.tickets.get(&word(sent, AT_VALUE)).filter(|(owner, _)| *owner == pid);
        if let Some((_, original)) = found.filter(|_| number(sent, AT_CODE) == SI_QUEUE) {
            info.copy_from_slice(original);
        }
    }

    /// The process is gone; what was not delivered to it never will be.
    pub fn forget(&mut self, pid: i32) {
        self.tickets.retain(|_, (owner, _)| *owner != pid);
        self.early.remove(&pid);
    }
}

impl Tracer {
    pub fn signal_from_home(&mut self, pid: i32, tid: Option<i32>, info: [u8; 128]) {
        let info = self.understood(pid, info);
        if self.is_coming(pid) {
            let early = self.signals.early.entry(pid).or_default();
            if early.len() < EARLY_MAX {
                early.push((tid, info));
            }
            return;
        }
        let signal = number(&info, 0);
        if signal == libc::SIGCONT {
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

    /// SIGPIPE for a thread, as its kernel would send it (send_sig(SIGPIPE, current, 0) in fs/pipe.c).
    pub fn broken_pipe(&mut self, host: HostTid) {
        let Some(who) = self.room.guests().who(host) else { return };
        let uid = super::super::proc::owner(host).map_or(0, |(uid, _)| uid);
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
        let sent = self.signals.ticket(pid, info);
        // SAFETY: passes a live siginfo of 128 bytes; the number is a tracee's that has not been waited for.
        let done = unsafe {
            match tid {
                Some(_) => libc::syscall(libc::SYS_rt_tgsigqueueinfo, group.0, host.0, signal, sent.as_ptr()),
                None => libc::syscall(libc::SYS_rt_sigqueueinfo, host.0, signal, sent.as_ptr()),
            }
        };
        if done < 0 {
            tracing::debug!("signal {signal} to {pid}: {}", std::io::Error::last_os_error());
        }
    }

    /// A thread has taken a signal, unless `result` says otherwise: it shall see what that carried at home. (A guest that has unmapped the memory meanwhile
    /// sees nothing.)
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
        for (tid, info) in self.signals.early.remove(&pid).unwrap_or_default() {
            self.signal_from_home(pid, tid, info);
        }
    }

    /// A signal is about to be delivered to a thread.
    pub fn signal_stop(&mut self, stopped: Stopped, signal: i32) -> Result<(), TraceError> {
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

    /// A read, write or open of a file that was interrupted says EINTR (FUSE knows nothing else). The kernel shall decide, as it would at home, whether a
    /// handler with SA_RESTART follows. `true`: the thread waited at a listener.
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
                        let stopped = self.undisturbed(stopped)?;
                        self.do_injected(stopped)?.resume(0)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn info(signal: i32, code: i32) -> [u8; 128] {
        let mut info = [7; 128];
        info[..4].copy_from_slice(&signal.to_le_bytes());
        info[8..12].copy_from_slice(&code.to_le_bytes());
        info
    }

    #[test]
    fn tickets_are_redeemed_once_by_their_process() {
        let mut signals = Signals::default();
        for original in [info(15, 0), info(34, SI_QUEUE), info(10, -6)] {
            let mut sent = signals.ticket(7, original);
            assert_eq!((number(&sent, 0), number(&sent, AT_CODE)), (number(&original, 0), SI_QUEUE));
            // What the kernel makes of the sender on the way into the room: PID 0, the overflow user.
            sent[16..24].copy_from_slice(&(65534u64 << 32).to_le_bytes());
            assert_eq!(signals.redeem(8, &sent), None);
            assert_eq!(signals.redeem(7, &sent), Some(original));
            assert_eq!(signals.redeem(7, &sent), None);
        }
    }

    #[test]
    fn tickets_of_the_dead_are_forgotten() {
        let mut signals = Signals::default();
        let sent = signals.ticket(7, info(15, 0));
        signals.forget(7);
        assert_eq!(signals.redeem(7, &sent), None);
        assert_eq!(signals.redeem(7, &info(15, SI_QUEUE)), None);
    }
}
