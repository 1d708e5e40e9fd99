//! Stopping all threads of a running process, wherever they are.

use crate::again;
use crate::error::{BodyError, stays};
use crate::rewind::{RESTART_BLOCK, may_time_out};
use os::inject::Memory;
use os::ptrace::{self, Event, HostTid, Stopped, TraceError};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a thread may take to stop: one that waits for a disk or for its vfork child does not.
const STOPS_WITHIN: Duration = Duration::from_secs(2);
/// How often all threads are listed until there are no new ones.
const ROUNDS_MAX: usize = 100;

/// A process whose threads are all stopped, the first one first.
#[derive(Debug)]
pub struct Frozen {
    /// Its threads.
    pub threads: Vec<Stopped>,
    /// For how long each had been asleep.
    pub slept: Slept,
    /// Job control had stopped it: it stops again when it is let go.
    pub stopped: bool,
    /// When the first of them was asked to stop.
    pub since: Instant,
}

/// For how long threads had been asleep when they were stopped.
pub type Slept = HashMap<i32, Duration>;

/// Stops all threads of process `pid` and becomes their tracer. Should the calling thread end, the kernel lets them go on.
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
                stays("its first thread has ended while others go on")
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
                Err(BodyError::Fleeting("it stands still at the moment, for a move of its own or another's".into()))
            }
            Some(_) => stays("another process (a debugger) traces it"),
            None => Err(e.into()),
        },
        Err(e) => Err(e.into()),
    }
}

/// Also whether it was stopped with its group.
fn stop(tid: HostTid) -> Result<Option<(Stopped, bool)>, BodyError> {
    let begun = Instant::now();
    loop {
        let event = ptrace::wait_within(tid, STOPS_WITHIN.saturating_sub(begun.elapsed()))?;
        // Any other stop makes the kernel forget that it was asked to stop (ptrace_stop in kernel/signal.c). It is asked again before it goes on: else it may come to its program first, with an
        // EINTR that is only due to us.
        let is_another = !matches!(event, None | Some(Event::Halt(..) | Event::Exited(_) | Event::Killed(_)));
        if is_another && let Err(TraceError::Failed(e)) = ptrace::interrupt(tid) {
            return Err(e.into());
        }
        match event {
            None => return stays(format!("thread {} does not stop: it waits for its vfork child or a device", tid.0)),
            Some(Event::Halt(stopped, signal)) => return Ok(Some((stopped, signal != libc::SIGTRAP))),
            // It is delivered first; the stop follows before the handler's first instruction.
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
        return Err(BodyError::Gone);
    }
    // Should it not stop, the kernel lets it go when this thread ends.
    let (mut stopped, with_group) = stop(tid)?.ok_or(BodyError::Gone)?;
    if with_group && let Err(e) = end_its_call(&mut stopped) {
        let _ = stopped.detach(0);
        return Err(e);
    }
    Ok(stopped)
}

/// A thread that job control has stopped, and not we alone: what that does to its call, it has done.
pub fn end_its_call(stopped: &mut Stopped) -> Result<(), BodyError> {
    const EINTR: i64 = -4;
    let mut registers = stopped.registers()?;
    let r = &registers;
    if r.rax as i64 == RESTART_BLOCK && may_time_out(r.orig_rax as i64, &[r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]) {
        return stays(
            "it was stopped while it waited, and this kernel alone knows for how long it still does: continue it first",
        );
    }
    // Calls that are never made again after a stop (signal(7)) say so; those that only our stop interrupts are.
    if r.rax as i64 == EINTR {
        registers.orig_rax = u64::MAX;
        stopped.set_registers(&registers)?;
    }
    Ok(())
}

impl Frozen {
    /// Lets all go on without a tracer.
    pub fn thaw(self) {
        let memory = self.threads.first().and_then(|first| Memory::of(first.tid().0).ok());
        for thread in self.threads {
            let slept = self.slept.get(&thread.tid().0).copied().unwrap_or_default();
            let thread = match &memory {
                // When it stopped, the kernel had done with its call what it does.
                Some(memory) if !self.stopped => again::as_it_was(thread, slept, memory),
                _ => Ok(thread),
            };
            // A thread that was killed needs nothing.
            let _ = thread.map(|thread| thread.detach(0));
        }
    }
}
