//! A stop at an instruction, by the processor's debug registers: no byte of the program changes,
//! and no page of it is touched. An exec and a fork forget it.

use super::{Stopped, Traced, request};

/// `offsetof(struct user, u_debugreg)` (sys/user.h).
const DEBUG_REGISTERS_AT: usize = 848;
/// Bytes of one.
const REGISTER_BYTES: usize = 8;
/// The register that says which addresses count, and for what.
const CONTROL: usize = 7;
/// The first address counts, for execution, in this thread alone (Intel SDM 3B, 18.2.4).
const FIRST_EXECUTES: usize = 1;

impl Stopped {
    /// Has the thread stop with SIGTRAP when it is about to execute the instruction at `address`.
    ///
    /// # Errors
    /// The address is none of a program's, or this machine has no such registers.
    pub fn set_breakpoint(&self, address: u64) -> Traced<()> {
        self.set_debug_register(0, address as usize)?;
        self.set_debug_register(CONTROL, FIRST_EXECUTES)
    }

    /// Undoes [`Stopped::set_breakpoint`].
    ///
    /// # Errors
    /// The thread is gone.
    pub fn clear_breakpoint(&self) -> Traced<()> {
        self.set_debug_register(CONTROL, 0)
    }

    fn set_debug_register(&self, number: usize, value: usize) -> Traced<()> {
        request(libc::PTRACE_POKEUSER, self.tid, DEBUG_REGISTERS_AT + REGISTER_BYTES * number, value).map(drop)
    }
}
