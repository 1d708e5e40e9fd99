//! The memory functions that the compiler may call.

use core::arch::naked_asm;

#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn memcpy(dst: *mut u8, src: *const u8, n: usize) -> *mut u8 {
    naked_asm!("mov rax, rdi", "mov rcx, rdx", "rep movsb", "ret")
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn memset(dst: *mut u8, c: i32, n: usize) -> *mut u8 {
    naked_asm!("mov r8, rdi", "mov eax, esi", "mov rcx, rdx", "rep stosb", "mov rax, r8", "ret")
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn memmove(dst: *mut u8, src: *const u8, n: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rdi",
        "mov rcx, rdx",
        "cmp rdi, rsi",
        "jbe 2f",
        "lea rdi, [rdi + rdx - 1]",
        "lea rsi, [rsi + rdx - 1]",
        "std",
        "rep movsb",
        "cld",
        "ret",
        "2:",
        "rep movsb",
        "ret"
    )
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    naked_asm!(
        "xor eax, eax",
        "mov rcx, rdx",
        "test rcx, rcx",
        "jz 2f",
        "repe cmpsb",
        "je 2f",
        "movzx eax, byte ptr [rdi - 1]",
        "movzx ecx, byte ptr [rsi - 1]",
        "sub ecx, eax",
        "mov eax, ecx",
        "2:",
        "ret"
    )
}
