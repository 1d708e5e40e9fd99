//! What a body that leaves has stored in files of home's that it has mapped.

use crate::supervisor::held_files as held;
use crate::supervisor::tracer::injected::with_inside;
use checkpoint::{BodyError, Slept};
use os::ptrace::{HostTid, Stopped};

/// Has the first of these threads, all of which stand still, write it back: home's processes see it
/// from now on.
pub fn write_back(host: HostTid, threads: &mut Vec<Stopped>, slept: &Slept) -> Result<(), BodyError> {
    let areas = held::mapped(host)?;
    let at = threads.iter().position(|t| t.tid() == host).filter(|_| !areas.is_empty());
    let Some(at) = at else { return Ok(()) };
    let slept = slept.get(&host.0).copied().unwrap_or_default();
    let (stopped, written) = with_inside(threads.remove(at), slept, |inside, _| {
        areas.iter().try_for_each(|(start, end)| {
            let args = [*start, end - start, libc::MS_SYNC as u64, 0, 0, 0];
            inside.must("writing back what it has stored in a file (msync)", libc::SYS_msync, args).map(drop)
        })
    })?;
    threads.insert(at, stopped);
    Ok(written?)
}
