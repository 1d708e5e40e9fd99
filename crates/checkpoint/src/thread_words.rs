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

/// Orders registers as in `user_regs_struct`.
pub(crate) fn words(r: &user_regs_struct) -> image::Registers {
    [
        r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx, r.rdx, r.rsi, r.rdi,
        r.orig_rax, r.rip, r.cs, r.eflags, r.rsp, r.ss, r.fs_base, r.gs_base, r.ds, r.es, r.fs, r.gs,
    ]
}

/// Reads registers in the order of `user_regs_struct`.
pub fn registers(words: &image::Registers) -> user_regs_struct {
    let [
        r15,
        r14,
        r13,
        r12,
        rbp,
        rbx,
        r11,
        r10,
        r9,
        r8,
        rax,
        rcx,
        rdx,
        rsi,
        rdi,
        orig_rax,
        rip,
        cs,
        eflags,
        rsp,
        ss,
        fs_base,
        gs_base,
        ds,
        es,
        fs,
        gs,
    ] = *words;
    user_regs_struct {
        r15,
        r14,
        r13,
        r12,
        rbp,
        rbx,
        r11,
        r10,
        r9,
        r8,
        rax,
        rcx,
        rdx,
        rsi,
        rdi,
        orig_rax,
        rip,
        cs,
        eflags,
        rsp,
        ss,
        fs_base,
        gs_base,
        ds,
        es,
        fs,
        gs,
    }
}
