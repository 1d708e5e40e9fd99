//! What a process must do itself: a stopped thread is made to, then it goes on as if nothing had
//! been.
//!
//! Signals for processes that read them from a descriptor (signalfd(2)): nobody else may send them
//! what came from the kernel or from kill(2) at home. The filter for descriptors that are to look
//! as at home ([`crate::supervisor::tracer::fstat_filters`]). And the descriptor by which its
//! writes are watched ([`crate::supervisor::transfer::precopy`]).

use crate::state::orders::Which;
use crate::state::shared::Shared;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::fstat_filters::{ToShow, show};
use crate::supervisor::tracer::state::injected::{Task, add_signal};
use checkpoint::rewind;
use os::inject::{Inside, Memory, gate};
use os::pidfd::PidFd;
use os::ptrace::{self, HostTid, Stopped, TraceError};
use os::track::USERFAULTFD_FLAGS;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// So far below a thread's stack pointer nothing lies that is its own, or that rewinding a call
/// puts there.
const BELOW_STACK_BYTES: u64 = 1024;

impl Tracer {
    /// Has a process that reads its signals send this one to itself, if all its threads block it;
    /// `false`: it is to be sent as to any other.
    pub fn inject(&mut self, pid: i32, tid: Option<i32>, info: &[u8; 128], signal: i32) -> bool {
        let (first, threads) = {
            let guests = self.room.guests();
            let Some(first) = guests.get(pid).filter(|g| g.reads_signals).and_then(|_| guests.host(pid)) else {
                return false;
            };
            (first, guests.threads_of(pid))
        };
        let concerned = threads.iter().filter(|(_, who)| tid.is_none_or(|tid| tid == who.tid));
        let bit = 1u64 << (signal - 1);
        let blocks = |host: &HostTid| os::process::status(host.0).is_ok_and(|s| s.blocked & bit != 0);
        if !concerned.into_iter().all(|(host, _)| blocks(host)) {
            return false;
        }
        let slept = os::process::slept(first.0, checkpoint::may_time_out).unwrap_or_default();
        let waiting = self.injected.waiting.entry(first).or_insert_with(|| (slept, Vec::new()));
        add_signal(&mut waiting.1, (tid, *info));
        ptrace::interrupt(first).is_ok()
    }

    /// Has a thread see to it that descriptors look as at home, before it goes on. If its call
    /// waits at its listener, that is made again.
    pub fn show(&mut self, host: HostTid, which: Which) {
        self.injected.waiting.entry(host).or_default().1.push(Task::Show(which));
        // One that is gone makes no call again either.
        drop(ptrace::interrupt(host));
    }

    /// Has the first thread of a process make a userfaultfd, which is given there.
    pub fn track(&mut self, pid: i32, answer: Sender<Result<OwnedFd, String>>) {
        let Some(first) = self.room.guests().host(pid) else { return };
        let slept = os::process::slept(first.0, checkpoint::may_time_out).unwrap_or_default();
        let waiting = self.injected.waiting.entry(first).or_insert_with(|| (slept, Vec::new()));
        waiting.1.push(Task::Track(answer));
        // Of one that is gone nobody answers.
        drop(ptrace::interrupt(first));
    }

    /// The thread has stopped for something else: what it is to send it must not keep.
    pub fn interrupt_to_send(&self, host: HostTid) {
        if self.injected.waiting.contains_key(&host) {
            // One that is gone sends nothing.
            drop(ptrace::interrupt(host));
        }
    }

    /// The thread has stopped, in no call that home runs: it does what it is to.
    pub fn do_injected(&mut self, stopped: Stopped) -> Result<Stopped, TraceError> {
        let Some((slept, tasks)) = self.injected.waiting.remove(&stopped.tid()) else { return Ok(stopped) };
        let Some(who) = self.room.guests().who(stopped.tid()) else { return Ok(stopped) };
        self.room.filtering.begin(stopped.tid());
        let host = stopped.tid();
        let done = perform(&self.room, stopped, who.pid, slept, &tasks);
        self.room.filtering.end(host);
        let marks = tasks.iter().any(|task| matches!(task, Task::Show(Which::Devices)));
        if marks { self.mark_own_call(done?) } else { done }
    }

    /// The thread waits for home, and is held until that has answered: what is to be sent goes as
    /// to any other process. Being watched can wait.
    pub fn send_otherwise(&mut self, host: HostTid) {
        let Some((_, tasks)) = self.injected.waiting.remove(&host) else { return };
        let Some(who) = self.room.guests().who(host) else { return };
        for task in tasks {
            match task {
                Task::Signal(tid, info) => self.send_with_ticket(who.pid, tid, info),
                // Asked for again at the next call that makes one.
                Task::Show(_) => {}
                track @ Task::Track(_) => {
                    self.injected.waiting.entry(host).or_insert_with(|| (Duration::ZERO, Vec::new())).1.push(track);
                }
            }
        }
    }
}

fn perform(room: &Shared, stopped: Stopped, pid: i32, slept: Duration, tasks: &[Task]) -> Result<Stopped, TraceError> {
    let returned = i32::try_from(stopped.registers()?.rax as i64).ok().filter(|fd| *fd >= 0);
    let (stopped, done) = with_inside(stopped, slept, |inside, at| {
        for task in tasks {
            let done = match task {
                Task::Signal(tid, info) => send(inside, at, pid, *tid, info)?,
                Task::Show(Which::One(fd)) => show(room, inside, at, ToShow { pid, fd: Some(*fd), has_offset: false })?,
                Task::Show(Which::Returned { has_offset }) => {
                    show(room, inside, at, ToShow { pid, fd: returned, has_offset: *has_offset })?
                }
                // When the thread has left, its call is marked.
                Task::Show(Which::Devices) => 0,
                Task::Show(Which::All) => show(room, inside, at, ToShow::all(pid))?,
                Task::Track(answer) => {
                    // Who has given up does not wait for it.
                    let _ = answer.send(watched(inside).map_err(|e| e.to_string()));
                    0
                }
            };
            if done < 0 {
                tracing::debug!("{task:?} in {pid}: error {}", -done);
            }
        }
        Ok(())
    })?;
    done.map(|()| stopped)
}

/// Has a stopped thread do `work`, which is told where nothing of the thread's own lies; then the
/// thread is as it was.
pub fn with_inside(
    mut stopped: Stopped,
    slept: Duration,
    work: impl FnOnce(&mut Inside, u64) -> Result<(), TraceError>,
) -> Result<(Stopped, Result<(), TraceError>), TraceError> {
    let host = stopped.tid().0;
    let memory = Memory::of(host)?;
    let gate = gate(&memory, &os::areas::read(host)?)?;
    stopped.abort_sequence(&memory)?;
    let (registers, mask) = (stopped.registers()?, stopped.mask()?);
    let rewound = rewind(&registers, slept, |at| memory.word(at).ok());
    // What is left of a sleep this kernel knows itself.
    let after = if rewound.put.is_some() { registers } else { rewound.registers };
    let at = registers.rsp.wrapping_sub(BELOW_STACK_BYTES) & !15;
    let mut inside = Inside::enter(stopped, memory, gate)?;
    let done = work(&mut inside, at);
    Ok((inside.leave(&after, mask)?, done))
}

/// The process makes a userfaultfd, of which only we keep a descriptor.
fn watched(inside: &mut Inside) -> Result<OwnedFd, TraceError> {
    let number =
        inside.must("watching its writes (userfaultfd)", libc::SYS_userfaultfd, [USERFAULTFD_FLAGS, 0, 0, 0, 0, 0])?;
    let uffd = PidFd::open(inside.tid().0).and_then(|pidfd| pidfd.get_fd(number as i32));
    inside.must("closing its userfaultfd", libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
    Ok(uffd?)
}

fn send(inside: &mut Inside, at: u64, pid: i32, tid: Option<i32>, info: &[u8; 128]) -> Result<i64, TraceError> {
    inside.memory().write(at, info)?;
    let signal = u64::from(info[0]);
    match tid {
        Some(tid) => inside.call(libc::SYS_rt_tgsigqueueinfo, [pid as u64, tid as u64, signal, at, 0, 0]),
        None => inside.call(libc::SYS_rt_sigqueueinfo, [pid as u64, signal, at, 0, 0, 0]),
    }
}
