//! Signals that nobody would notice at home: ignored, also by default, and not blocked. Home's
//! kernel throws them away (sig_ignored in kernel/signal.c); a deputy does not know what its
//! program blocks, and tells of them; and here the kernel would show them to the tracer first, and
//! they would end calls by EINTR that are not made again: sigtimedwait(2), epoll_wait(2).

use crate::sandbox::guest_memory;
use crate::supervisor::tracer::Tracer;
use os::process::Status;
use os::ptrace::HostTid;

/// Signals that are ignored by default (signal(7)).
const IGNORED_BY_DEFAULT: [i32; 3] = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH];

impl Tracer {
    /// This signal need not be sent to a process, or to thread `tid` of it.
    pub fn would_ignore(&self, pid: i32, tid: Option<i32>, signal: i32) -> bool {
        // That does something before it is ignored.
        if signal == libc::SIGCONT {
            return false;
        }
        // Of a whole process the first thread decides.
        let host = self.room.guests().host(tid.unwrap_or(pid));
        let bit = 1 << (signal - 1);
        let by_default = IGNORED_BY_DEFAULT.contains(&signal);
        let ignores = |s: &Status| s.ignored & bit != 0 || (by_default && s.caught & bit == 0);
        let passes = |host: HostTid| os::process::status(host.0).is_ok_and(|s| s.blocked & bit == 0 && ignores(&s));
        // Who waits for it does not block it meanwhile, but does again as soon as the call is over.
        host.is_some_and(|host| passes(host) && awaited(host) & bit == 0 && passes(host))
    }
}

/// For which signals a thread waits (bit n-1 for signal n).
fn awaited(host: HostTid) -> u64 {
    let waits = os::waiting::call(host.0).filter(|call| call.number == libc::SYS_rt_sigtimedwait);
    let mut set = [0; 8];
    waits
        .filter(|call| guest_memory::read(host.0, call.args[0], &mut set).is_ok())
        .map_or(0, |_| u64::from_le_bytes(set))
}
