//! Registers and signal stacks of threads, as images hold them.

use image::Stack;
use libc::user_regs_struct;

/// Encodes a `stack_t`.
pub fn stack_bytes(stack: Stack) -> [u8; 24] {
    let mut out = [0; 24];
    out[..8].copy_from_slice(&stack.at.to_le_bytes());
    out[8..12].copy_from_slice(&stack.flags.to_le_bytes());
    out[16..].copy_from_slice(&stack.bytes.to_le_bytes());
    out
}

/// Converts registers, given their names in the order of `user_regs_struct`.
macro_rules! registers_in_order {
    ($($name:ident)*) => {
        /// Orders registers as in `user_regs_struct`.
        pub(crate) fn words(registers: &user_regs_struct) -> image::Registers {
            [$(registers.$name),*]
        }

        /// Reads registers in the order of `user_regs_struct`.
        pub fn registers(words: &image::Registers) -> user_regs_struct {
            let [$($name),*] = *words;
            user_regs_struct { $($name),* }
        }
    };
}

registers_in_order! {
    r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi
    orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs
}
