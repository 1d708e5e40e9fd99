//! Tracing with typestates (ptrace(2), PTRACE_SEIZE only): a stopped thread is another type than a
//! running one, and neither can be copied.

mod asked;
mod breakpoint;
mod outside;
mod sequence;
mod state;
mod xstate;

use crate::error::check;
use crate::{Error, Result};
use std::cell::RefCell;
use std::collections::VecDeque;

pub use asked::{Asked, is_refused_to_be_held, to_be_held_and};
pub use state::{Rseq, wait_within};
pub use xstate::lacks;

/// Number of a thread in the tracer's own PID namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostTid(pub i32);

/// A thread that is stopped for its tracer, and why.
#[derive(Debug)]
pub struct Stopped {
    tid: HostTid,
    /// Filters do not see its calls.
    pub(crate) unfiltered: bool,
}

/// A thread vanished (SIGKILL) or the request failed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The thread was killed meanwhile: its end will be waited for.
    #[error("the thread was killed")]
    Gone,
    /// The call failed for another reason.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// What a wait told of a thread.
#[derive(Debug)]
pub enum Event {
    /// A signal is about to be delivered.
    Signal(Stopped, i32),
    /// The thread made another (clone, fork, vfork): its number.
    Made(Stopped, HostTid),
    /// A new program runs; the number that the thread had before.
    Exec(Stopped, HostTid),
    /// The end of a system call, after [`Stopped::resume_to_call_end`].
    SystemCall(Stopped),
    /// The filter said RET_TRACE.
    Filter(Stopped),
    /// The thread stops for the tracer's interruption, at its birth, or with its group by this stop
    /// signal.
    Halt(Stopped, i32),
    /// Another stop, to be resumed.
    Other(Stopped),
    /// exit status (0..=255).
    Exited(u8),
    /// Killed by a signal.
    Killed(Death),
}

/// How a signal has ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// Number of the signal.
    pub signal: u8,
    /// The kernel has written a core (WCOREDUMP of wait(2)).
    pub has_core: bool,
}

/// Options of every tracee; children inherit them. A tracer that dies takes its tracees with it.
const OPTIONS: i32 = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACESYSGOOD;

fn request(what: u32, tid: HostTid, addr: usize, data: usize) -> std::result::Result<i64, TraceError> {
    // SAFETY: callers pass addresses of live memory where the request wants them.
    match check(unsafe { libc::ptrace(what, tid.0, addr, data) }, || format!("tracing {} (request {what:#x})", tid.0)) {
        Err(e) if e.errno() == libc::ESRCH => Err(TraceError::Gone),
        other => Ok(other?),
    }
}

/// Becomes the tracer of a running thread, which does not stop.
pub fn seize(tid: HostTid) -> std::result::Result<(), TraceError> {
    request(libc::PTRACE_SEIZE, tid, 0, OPTIONS as usize).map(drop)
}

/// As [`seize`], of a process that goes on as if nothing had been when its tracer dies; what it
/// makes is not traced.
pub fn seize_gently(tid: HostTid) -> std::result::Result<(), TraceError> {
    request(libc::PTRACE_SEIZE, tid, 0, 0).map(drop)
}

/// Stops a running tracee: an [`Event::Halt`] follows.
pub fn interrupt(tid: HostTid) -> std::result::Result<(), TraceError> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0).map(drop)
}

/// `struct rusage`, as the kernel wrote it (getrusage(2)).
pub type UsageBytes = [u8; size_of::<libc::rusage>()];

thread_local! {
    /// Ends of tracees of this thread that [`wait_for`] has seen: the kernel tells them once, and
    /// [`poll`] owes them to its caller.
    static ENDS: RefCell<VecDeque<(HostTid, i32, UsageBytes)>> = const { RefCell::new(VecDeque::new()) };
}

/// The next event of any tracee or child of this thread, and what it has used; `None` if nothing is
/// there now.
pub fn poll() -> Result<Option<(HostTid, Event, UsageBytes)>> {
    if let Some((tid, status, usage)) = ENDS.with_borrow_mut(VecDeque::pop_front) {
        return Ok(Some((tid, decode(tid, status), usage)));
    }
    let (tid, status, usage) = match wait4(-1, libc::WNOHANG) {
        Err(e) if e.errno() == libc::ECHILD => return Ok(None),
        other => other?,
    };
    Ok((tid > 0).then(|| (HostTid(tid), decode(HostTid(tid), status), usage)))
}

/// Waits for the next event of one tracee.
pub fn wait_for(tid: HostTid) -> Result<Event> {
    loop {
        match wait4(tid.0, 0) {
            Err(e) if e.errno() == libc::EINTR => {}
            other => {
                let (_, status, usage) = other?;
                if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                    ENDS.with_borrow_mut(|ends| ends.push_back((tid, status, usage)));
                }
                return Ok(decode(tid, status));
            }
        }
    }
}

/// Who (0: nobody now), its status, and what it has used.
fn wait4(which: i32, options: i32) -> Result<(i32, i32, UsageBytes)> {
    let (mut status, mut usage) = (0, [0; size_of::<libc::rusage>()]);
    // SAFETY: writes one int and one rusage.
    let waited = unsafe {
        let options = libc::__WALL | options;
        libc::syscall(libc::SYS_wait4, which, &raw mut status, options, usage.as_mut_ptr())
    };
    Ok((check(waited, || format!("waiting for {which}"))? as i32, status, usage))
}

fn decode(tid: HostTid, status: i32) -> Event {
    if libc::WIFEXITED(status) {
        return Event::Exited(libc::WEXITSTATUS(status) as u8);
    }
    if libc::WIFSIGNALED(status) {
        return Event::Killed(Death { signal: libc::WTERMSIG(status) as u8, has_core: libc::WCOREDUMP(status) });
    }
    let stopped = Stopped { tid, unfiltered: false };
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Event::SystemCall(stopped),
        0 => Event::Signal(stopped, signal),
        libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => match stopped.message() {
            Ok(child) => Event::Made(stopped, HostTid(child as i32)),
            Err(_) => Event::Other(stopped),
        },
        libc::PTRACE_EVENT_EXEC => match stopped.message() {
            Ok(former) => Event::Exec(stopped, HostTid(former as i32)),
            Err(_) => Event::Other(stopped),
        },
        libc::PTRACE_EVENT_SECCOMP => Event::Filter(stopped),
        libc::PTRACE_EVENT_STOP => Event::Halt(stopped, signal),
        _ => Event::Other(stopped),
    }
}

type Traced<T> = std::result::Result<T, TraceError>;

impl Stopped {
    /// Gives the thread that stands still.
    pub fn tid(&self) -> HostTid {
        self.tid
    }

    fn message(&self) -> Traced<u64> {
        let mut message = 0u64;
        request(libc::PTRACE_GETEVENTMSG, self.tid, 0, &raw mut message as usize)?;
        Ok(message)
    }

    /// Reads the registers of the thread.
    pub fn registers(&self) -> Traced<libc::user_regs_struct> {
        // SAFETY: all zero is a valid register set.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, self.tid, 0, &raw mut registers as usize)?;
        Ok(registers)
    }

    /// Sets the registers.
    pub fn set_registers(&mut self, registers: &libc::user_regs_struct) -> Traced<()> {
        request(libc::PTRACE_SETREGS, self.tid, 0, &raw const *registers as usize).map(drop)
    }

    /// Tells what the signal about to be delivered carries (128 bytes).
    pub fn signal_info(&self) -> Traced<[u8; 128]> {
        let mut info = [0u64; 16];
        request(libc::PTRACE_GETSIGINFO, self.tid, 0, info.as_mut_ptr() as usize)?;
        let mut bytes = [0; 128];
        for (to, word) in bytes.chunks_exact_mut(8).zip(info) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(bytes)
    }

    /// Replaces what the signal about to be delivered carries.
    pub fn set_signal_info(&mut self, info: &[u8; 128]) -> Traced<()> {
        let mut words = [0u64; 16];
        for (word, from) in words.iter_mut().zip(info.chunks_exact(8)) {
            *word = from.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
        }
        request(libc::PTRACE_SETSIGINFO, self.tid, 0, words.as_ptr() as usize).map(drop)
    }

    /// From here on filters (seccomp(2)) do not see what calls are made in it, nor those of threads
    /// that are made in it, until it is let run. False: the tracer may not, who must have
    /// CAP_SYS_ADMIN, and no filter itself (PTRACE_O_SUSPEND_SECCOMP of ptrace(2)).
    pub fn suspend_filters(&mut self) -> Traced<bool> {
        if crate::fault::at("suspend filters").is_err() {
            return Ok(false);
        }
        let options = OPTIONS | libc::PTRACE_O_SUSPEND_SECCOMP;
        match request(libc::PTRACE_SETOPTIONS, self.tid, 0, options as usize) {
            Ok(_) => self.unfiltered = true,
            Err(TraceError::Failed(e)) if [libc::EPERM, libc::EINVAL].contains(&e.errno()) => {}
            Err(e) => return Err(e),
        }
        Ok(self.unfiltered)
    }

    /// Filters see its calls again.
    pub(crate) fn restore_filters(&mut self) -> Traced<()> {
        if std::mem::take(&mut self.unfiltered) {
            request(libc::PTRACE_SETOPTIONS, self.tid, 0, OPTIONS as usize)?;
        }
        Ok(())
    }

    /// Lets it run, with this signal delivered (0: none).
    pub fn resume(mut self, signal: i32) -> Traced<()> {
        self.restore_filters()?;
        request(libc::PTRACE_CONT, self.tid, 0, signal as usize).map(drop)
    }

    /// Lets it run to the end of the system call that it is in: an [`Event::SystemCall`] follows.
    pub fn resume_to_call_end(mut self) -> Traced<()> {
        self.restore_filters()?;
        request(libc::PTRACE_SYSCALL, self.tid, 0, 0).map(drop)
    }

    /// Leaves it in the stop of its group until SIGCONT.
    pub fn listen(mut self) -> Traced<()> {
        self.restore_filters()?;
        request(libc::PTRACE_LISTEN, self.tid, 0, 0).map(drop)
    }
}
