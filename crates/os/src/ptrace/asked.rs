//! Calls of programs by which a process holds another, or looks into its memory (ptrace(2),
//! process_vm_readv(2)); and how one asks to be held just before it executes a program.

use libc::user_regs_struct;

/// Requests that begin it (linux/ptrace.h).
const TRACEME: u64 = 0;
const ATTACH: u64 = 16;
const SEIZE: u64 = 0x4206;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// That its parent holds it.
    ToBeHeld,
    /// To hold this one.
    ToHold(i32),
    /// Something of one that is held.
    OfHeld,
    /// To read or write the memory of this one.
    Memory(i32),
}

impl Asked {
    /// Of one of these calls.
    pub fn of(nr: u32, args: &[u64; 6]) -> Asked {
        match (i64::from(nr), args[0]) {
            (libc::SYS_ptrace, TRACEME) => Asked::ToBeHeld,
            (libc::SYS_ptrace, ATTACH | SEIZE) => Asked::ToHold(args[1] as i32),
            (libc::SYS_ptrace, _) => Asked::OfHeld,
            (_, pid) => Asked::Memory(pid as i32),
        }
    }
}

/// The call that these registers are at the end of asked to be held, and was refused: it is by
/// somebody already.
pub fn is_refused_to_be_held(registers: &user_regs_struct) -> bool {
    let asked = (registers.orig_rax as i64, registers.rdi) == (libc::SYS_ptrace, TRACEME);
    asked && registers.rax as i64 == -i64::from(libc::EPERM)
}

/// Code that asks to be held, and then makes the call with these registers (those behind it, with
/// its number in `orig_rax`); should that fail the program goes on behind it.
pub fn to_be_held_and(registers: &user_regs_struct) -> Vec<u8> {
    let (rdi, nr) = (registers.rdi.to_le_bytes(), (registers.orig_rax as u32).to_le_bytes());
    [
        &[0x31, 0xff][..],                        // xor %edi, %edi
        &[0xb8, libc::SYS_ptrace as u8, 0, 0, 0], // mov $SYS_ptrace, %eax
        &[0x0f, 0x05],                            // syscall
        &[0x48, 0xbf],                            // movabs $..., %rdi
        &rdi,
        &[0xb8], // mov $..., %eax
        &nr,
        &[0x0f, 0x05], // syscall
        &[0x49, 0xbb], // movabs $..., %r11
        &registers.rip.to_le_bytes(),
        &[0x41, 0xff, 0xe3], // jmp *%r11
    ]
    .concat()
}
