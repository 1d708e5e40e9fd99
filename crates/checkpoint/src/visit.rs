//! A short stop of a running process for a few calls in it. The process only notices a pause.

use crate::again;
use crate::error::BodyError;
use crate::freeze::stop_one;
use crate::rare_state;
use crate::rebuild::free_place;
use crate::rewind::{may_time_out, rewind};
use os::inject::{Inside, Memory, gate};
use os::ptrace::HostTid;

/// Stops the first thread of process `pid`, calls `work` with access to it, and lets the thread
/// continue. The other threads keep running.
pub fn visit<T>(pid: i32, work: impl FnOnce(&mut Inside) -> Result<T, BodyError>) -> Result<T, BodyError> {
    let areas = os::areas::read(pid)?;
    let memory = Memory::of(pid)?;
    let gate = gate(&memory, &areas)?;
    let slept = os::process::slept(pid, may_time_out).unwrap_or_default();
    let mut stopped = stop_one(HostTid(pid))?;
    if let Err(e) = rare_state::undisturbed(&stopped) {
        stopped.detach(0)?;
        return Err(e);
    }
    stopped.abort_sequence(&memory)?;
    let (registers, mask) = (stopped.registers()?, stopped.mask()?);
    let rewound = rewind(&registers, slept, |at| memory.word(at).ok());
    let mut inside = Inside::enter(stopped, memory.clone(), gate)?;
    let done = work(&mut inside);
    let stopped = inside.leave(&rewound.registers, u64::MAX)?;
    again::set(stopped, &rewound, mask, &memory)?.detach(0)?;
    done
}

/// Visits the process as [`visit`] does, with memory for batches of calls.
pub fn visit_at_length<T>(pid: i32, work: impl FnOnce(&mut Inside) -> Result<T, BodyError>) -> Result<T, BodyError> {
    visit(pid, |inside| {
        let areas = os::areas::read(pid)?;
        inside.map_region(free_place(areas.iter().map(|a| (a.start, a.end)))?)?;
        let done = work(inside);
        inside.unmap_region()?;
        done
    })
}
