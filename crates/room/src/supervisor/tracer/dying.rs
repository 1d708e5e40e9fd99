//! Deaths that leave a core (core(5)): home's kernel writes it, by home's rules and where the
//! program is there, so the process goes home to die. The signal is sent to its thread again, or
//! comes again by itself, and the thread is held until the process is asked for. One that cannot go
//! dies here, without a core.

use crate::state::guests::Who;
use crate::state::signal_action::is_default;
use crate::supervisor::tracer::Tracer;
use os::ptrace::{HostTid, Stopped, TraceError};
use room_protocol::ToHome;
use room_protocol::message::Errand;

impl Tracer {
    /// Holds a thread that is to die of `signal` with a core; gives back all others.
    pub fn hold_dying(&mut self, stopped: Stopped, signal: i32) -> Result<Option<Stopped>, TraceError> {
        let host = stopped.tid();
        let who = self.room.guests().who(host);
        let Some(who) = who.filter(|who| {
            os::process::dumps_core(signal)
                // That is what calls inside a stopped process end with.
                && signal != libc::SIGTRAP
                && !self.dying.here.contains(&who.pid)
                && is_default(host, signal)
                && may_leave_core(host)
        }) else {
            return Ok(Some(stopped));
        };
        let info = stopped.signal_info()?;
        if !comes_again(signal, &info) {
            self.send_with_ticket(who.pid, Some(who.tid), info);
        }
        let held = self.dying.held.entry(who.pid).or_default();
        held.push(stopped);
        if held.len() == 1 {
            self.room.tell(&ToHome::GoesHome { pid: who.pid, first: None, errand: Errand::Core { signal } });
        }
        Ok(None)
    }

    /// The process cannot go home: the signal comes again, and does what it does.
    pub fn die_here(&mut self, pid: i32) {
        let threads = self.dying.take(pid);
        if threads.is_empty() {
            return;
        }
        self.dying.here.insert(pid);
        for thread in threads {
            if let Err(TraceError::Failed(e)) = thread.resume(0) {
                tracing::error!("{e}");
            }
        }
    }
}

/// Says which fault kills a body, in the node's log: a core need not be left, and a fault may be a
/// move's.
pub fn tell_fault(stopped: &Stopped, signal: i32, who: Who) {
    let (Ok(info), Ok(registers)) = (stopped.signal_info(), stopped.registers()) else { return };
    if !comes_again(signal, &info) || !is_default(stopped.tid(), signal) {
        return;
    }
    let mut address = [0; 8];
    address.copy_from_slice(&info[16..24]);
    let (address, code) = (u64::from_le_bytes(address), info[8]);
    let (at, stack) = (registers.rip, registers.rsp);
    tracing::info!(
        "process {} (thread {}) dies of signal {signal}: a fault at {address:#x} (code {code}), instruction {at:#x}, stack {stack:#x}",
        who.pid,
        who.tid
    );
}

/// The instruction that the thread is at does it again.
fn comes_again(signal: i32, info: &[u8; 128]) -> bool {
    let code = i32::from_le_bytes([info[8], info[9], info[10], info[11]]);
    code > 0 && matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL)
}

fn may_leave_core(host: HostTid) -> bool {
    os::process::limits(host.0)
        .is_ok_and(|limits| limits.get(libc::RLIMIT_CORE as usize).is_some_and(|(soft, _)| *soft > 0))
}
