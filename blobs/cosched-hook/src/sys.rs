//! System calls. The memory functions that the compiler calls are those of the C library.

use core::arch::asm;

pub const READ: u64 = 0;
pub const OPEN: u64 = 2;
pub const CLOSE: u64 = 3;
pub const MMAP: u64 = 9;
pub const MADVISE: u64 = 28;
pub const RECVFROM: u64 = 45;
pub const GETSOCKOPT: u64 = 55;
pub const GETRUSAGE: u64 = 98;
pub const EXIT_GROUP: u64 = 231;

/// Makes a system call. Gives its result, or a negative error number.
///
/// # Safety
/// As the call's own rules say.
pub unsafe fn call(nr: u64, a: [u64; 6]) -> i64 {
    let ret: i64;
    // SAFETY: the kernel changes rax, rcx and r11 only; what the call does to memory is the
    // caller's promise.
    unsafe {
        asm!("syscall", inlateout("rax") nr as i64 => ret, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
             in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    ret
}

/// Ends the process.
pub fn exit_group(status: u64) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { call(EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
    }
}
