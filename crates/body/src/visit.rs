//! A short stop of a running process, to make a few calls inside it. It notices a gap, nothing else.

use crate::error::BodyError;
use crate::freeze::stop_one;
use crate::rewind::{Rewound, may_time_out, rewind};
use os::inject::{Inside, Memory, gate};
use os::ptrace::HostTid;

/// Stops the first thread of process `pid`, has `work` done through it, and lets it go on where it was. Its other threads run on.
pub fn visit<T>(pid: i32, work: impl FnOnce(&mut Inside) -> Result<T, BodyError>) -> Result<T, BodyError> {
    let areas = os::areas::read(pid)?;
    let memory = Memory::of(pid)?;
    let gate = gate(&memory, &areas)?;
    let slept = os::process::slept(pid, may_time_out).unwrap_or_default();
    let stopped = stop_one(HostTid(pid))?;
    let (registers, mask) = (stopped.registers()?, stopped.mask()?);
    // Of what restarts by itself the kernel keeps what it needs; the rest would say EINTR.
    let rewound = match registers.rax as i64 == -i64::from(libc::EINTR) && registers.orig_rax as i64 >= 0 {
        true => rewind(&registers, slept, |at| memory.word(at).ok()),
        false => Rewound { registers, put: None },
    };
    let mut inside = Inside::enter(stopped, memory.clone(), gate)?;
    let done = work(&mut inside);
    match rewound.put {
        Some((at, bytes)) => {
            memory.write(at, &bytes)?;
            let stopped = inside.leave(&rewound.registers, u64::MAX)?;
            let mut stopped = stopped.make_call_again()?;
            stopped.set_mask(mask)?;
            stopped.detach(0)?;
        }
        None => inside.leave(&rewound.registers, mask)?.detach(0)?,
    }
    done
}
