//! Letting a stopped thread go on as if nothing had been.

use crate::error::BodyError;
use crate::rewind::{Rewound, rewind};
use os::inject::Memory;
use os::ptrace::Stopped;
use std::time::Duration;

/// Sets a stopped thread such that it goes on as it would have: a call that says EINTR when it is merely stopped is made again, and so is one of which the kernel alone
/// knows for how long it still waits. (Were that left to the kernel, it would be restart_syscall(2), and nobody could tell at the next stop which call that was.)
/// `slept`: for how long the thread had waited.
pub fn as_it_was(stopped: Stopped, slept: Duration, memory: &Memory) -> Result<Stopped, BodyError> {
    let (registers, mask) = (stopped.registers()?, stopped.mask()?);
    let rewound = rewind(&registers, slept, |at| memory.word(at).ok());
    if rewound.put.is_none() && rewound.registers.rax == registers.rax {
        return Ok(stopped);
    }
    set(stopped, &rewound, mask, memory)
}

/// Sets where a stopped thread goes on, and with which signals blocked.
pub fn set(mut stopped: Stopped, to: &Rewound, mask: u64, memory: &Memory) -> Result<Stopped, BodyError> {
    if let Some((at, bytes)) = to.put {
        memory.write(at, &bytes)?;
    }
    stopped.set_registers(&to.registers)?;
    if to.put.is_some() {
        // No handler may run before the kernel has read what lies below the stack.
        stopped.set_mask(u64::MAX)?;
        stopped = stopped.make_call_again()?;
    }
    stopped.set_mask(mask)?;
    Ok(stopped)
}
