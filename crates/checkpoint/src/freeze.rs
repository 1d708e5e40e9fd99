//! Stopping all threads of a running process, wherever they are.

use crate::again;
use crate::error::{BodyError, stays};
use crate::rewind::{RESTART_BLOCK, may_time_out};
use os::inject::Memory;
use os::ptrace::{self, Event, HostTid, Stopped, TraceError};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The time that a thread may take to stop. A thread that waits for a disk or for its vfork child
/// does not stop.
const STOPS_WITHIN: Duration = Duration::from_secs(2);
/// The most times that all threads are listed until no new ones appear.
const ROUNDS_MAX: usize = 100;

/// A process whose threads are all stopped, the leader first.
#[derive(Debug)]
pub struct Frozen {
    /// The stopped threads.
    pub threads: Vec<Stopped>,
    /// The time for which each thread had been asleep.
    pub slept: Slept,
    /// Whether job control had stopped the process. It stops again when it is released.
    pub stopped: bool,
    /// Time at which the first thread was asked to stop.
    pub since: Instant,
}

/// The time for which each thread had been asleep when it was stopped.
pub type Slept = HashMap<i32, Duration>;

/// Stops all threads of process `pid` and becomes their tracer. If the calling thread ends, the
/// kernel releases them.
pub fn freeze(pid: i32) -> Result<Frozen, BodyError> {
    let mut frozen = Frozen { threads: Vec::new(), slept: Slept::new(), stopped: false, since: Instant::now() };
    match seize_all(pid, &mut frozen) {
        Ok(()) => Ok(frozen),
        Err(e) => {
            frozen.thaw();
            Err(e)
        }
    }
}

fn seize_all(pid: i32, frozen: &mut Frozen) -> Result<(), BodyError> {
    for _ in 0..ROUNDS_MAX {
        let seen = |tid: &i32| frozen.threads.iter().any(|t| t.tid().0 == *tid);
        let new: Vec<HostTid> = os::process::threads(pid)?.into_iter().filter(|t| !seen(t)).map(HostTid).collect();
        if new.is_empty() {
            frozen.threads.sort_by_key(|t| (t.tid().0 != pid, t.tid().0));
            return if frozen.threads.first().is_some_and(|t| t.tid().0 == pid) {
                Ok(())
            } else {
                stays("its main thread has ended while other threads run")
            };
        }
        frozen.slept.extend(new.iter().filter_map(|tid| Some((tid.0, os::process::slept(tid.0, may_time_out)?))));
        if frozen.threads.is_empty() {
            frozen.since = Instant::now();
        }
        let seized = new.iter().map(|tid| seize(*tid)).collect::<Result<Vec<_>, _>>()?;
        for (tid, _) in new.into_iter().zip(seized).filter(|(_, seized)| *seized) {
            let (thread, with_group) = stop(tid)?.unzip();
            frozen.threads.extend(thread);
            if with_group == Some(true) {
                frozen.stopped = true;
                frozen.threads.last_mut().map_or(Ok(()), end_its_call)?;
            }
        }
    }
    stays("it makes threads faster than they can be stopped")
}

/// Asks a thread to stop; `false` if it has ended.
fn seize(tid: HostTid) -> Result<bool, BodyError> {
    match ptrace::seize_gently(tid).and_then(|()| ptrace::interrupt(tid)) {
        Ok(()) => Ok(true),
        Err(TraceError::Gone) => Ok(false),
        Err(TraceError::Failed(e)) if e.errno() == libc::EPERM => match os::process::tracer(tid.0) {
            Some(tracer) if os::process::is_own(tracer) => {
                Err(BodyError::Retryable("it is stopped for a move, of its own or of another process".into()))
            }
            Some(_) => stays("another process (a debugger) traces it"),
            None => Err(e.into()),
        },
        Err(e) => Err(e.into()),
    }
}

/// Stops a thread, and tells whether it was stopped with its group.
fn stop(tid: HostTid) -> Result<Option<(Stopped, bool)>, BodyError> {
    let begun = Instant::now();
    loop {
        let event = ptrace::wait_within(tid, STOPS_WITHIN.saturating_sub(begun.elapsed()))?;
        // Any other stop makes the kernel forget the request (ptrace_stop in kernel/signal.c), so
        // the thread is asked again before it continues. Otherwise its program could see an EINTR
        // that only the request caused.
        let is_another = !matches!(event, None | Some(Event::Halt(..) | Event::Exited(_) | Event::Killed(_)));
        if is_another && let Err(TraceError::Failed(e)) = ptrace::interrupt(tid) {
            return Err(e.into());
        }
        match event {
            None => return stays(format!("thread {} does not stop: it waits for its vfork child or a device", tid.0)),
            Some(Event::Halt(stopped, signal)) => return Ok(Some((stopped, signal != libc::SIGTRAP))),
            // The signal is delivered first. The stop follows before the first instruction of the
            // handler.
            Some(Event::Signal(stopped, signal)) => stopped.resume(signal)?,
            Some(Event::Exited(_) | Event::Killed(_)) => return Ok(None),
            Some(
                Event::Made(stopped, _)
                | Event::Exec(stopped, _)
                | Event::SystemCall(stopped)
                | Event::Filter(stopped)
                | Event::Other(stopped),
            ) => stopped.resume(0)?,
        }
    }
}

/// Stops one thread of a process, and becomes its tracer.
pub fn stop_one(tid: HostTid) -> Result<Stopped, BodyError> {
    if !seize(tid)? {
        return Err(BodyError::Exited);
    }
    // If the thread does not stop, the kernel releases it when this thread ends.
    let (mut stopped, with_group) = stop(tid)?.ok_or(BodyError::Exited)?;
    if with_group && let Err(e) = end_its_call(&mut stopped) {
        let _ = stopped.detach(0);
        return Err(e);
    }
    Ok(stopped)
}

/// Lets the call of a thread end that job control has stopped. The effect of that stop on the call
/// has already happened.
pub fn end_its_call(stopped: &mut Stopped) -> Result<(), BodyError> {
    const EINTR: i64 = -4;
    let mut registers = stopped.registers()?;
    let r = &registers;
    if r.rax as i64 == RESTART_BLOCK && may_time_out(r.orig_rax as i64, &[r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]) {
        return stays(
            "it was stopped while it waited, and this kernel alone knows for how long it still does: continue it first",
        );
    }
    // Calls that are never restarted after a stop (signal(7)) return EINTR. Calls that only the
    // tracer's stop interrupted are restarted.
    if r.rax as i64 == EINTR {
        registers.orig_rax = u64::MAX;
        stopped.set_registers(&registers)?;
    }
    Ok(())
}

impl Frozen {
    /// Releases all threads, without a tracer.
    pub fn thaw(self) {
        let memory = self.threads.first().and_then(|first| Memory::of(first.tid().0).ok());
        for thread in self.threads {
            let slept = self.slept.get(&thread.tid().0).copied().unwrap_or_default();
            let thread = match &memory {
                // For a thread that job control stopped, the kernel has already finished with its
                // call.
                Some(memory) if !self.stopped => again::as_it_was(thread, slept, memory),
                _ => Ok(thread),
            };
            // A thread that was killed needs nothing.
            let _ = thread.map(|thread| thread.detach(0));
        }
    }
}
