//! Letting a stopped thread continue as if it had not been stopped.

use crate::error::BodyError;
use crate::rewind::{Rewound, rewind};
use os::inject::Memory;
use os::ptrace::Stopped;
use std::time::Duration;

/// Sets the registers of a stopped thread such that it continues as it would have without the stop.
/// The kernel restarts a call that failed with EINTR because of the stop alone, and a call of which
/// only the kernel knows the remaining wait. (The kernel itself would use restart_syscall(2), so
/// that the next stop could not tell which call that was.) `slept` is the time for which the thread
/// had waited.
pub fn as_it_was(stopped: Stopped, slept: Duration, memory: &Memory) -> Result<Stopped, BodyError> {
    let (registers, mask) = (stopped.registers()?, stopped.mask()?);
    let rewound = rewind(&registers, slept, |at| memory.word(at).ok());
    if rewound.put.is_none() && rewound.registers.rax == registers.rax {
        return Ok(stopped);
    }
    set(stopped, &rewound, mask, memory)
}

/// Sets the registers and the blocked signals with which a stopped thread continues.
pub fn set(mut stopped: Stopped, to: &Rewound, mask: u64, memory: &Memory) -> Result<Stopped, BodyError> {
    if let Some((at, bytes)) = to.put {
        memory.write(at, &bytes)?;
    }
    stopped.set_registers(&to.registers)?;
    if to.put.is_some() {
        // No handler may run before the kernel has read what lies below the stack pointer.
        stopped.set_mask(u64::MAX)?;
        stopped = stopped.make_call_again()?;
    }
    stopped.set_mask(mask)?;
    Ok(stopped)
}
