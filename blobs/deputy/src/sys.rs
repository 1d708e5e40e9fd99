//! System calls, and the one point at which a forwarded call can be interrupted exactly.

use core::arch::{asm, naked_asm};

pub const WRITE: u64 = 1;
pub const OPEN: u64 = 2;
pub const CLOSE: u64 = 3;
pub const MMAP: u64 = 9;
pub const MUNMAP: u64 = 11;
pub const RT_SIGACTION: u64 = 13;
pub const RT_SIGPROCMASK: u64 = 14;
pub const NANOSLEEP: u64 = 35;
pub const SENDTO: u64 = 44;
pub const SCHED_YIELD: u64 = 24;
pub const RECVMSG: u64 = 47;
pub const GETSOCKOPT: u64 = 55;
pub const CLONE: u64 = 56;
pub const EXIT: u64 = 60;
pub const CHDIR: u64 = 80;
pub const GETRLIMIT: u64 = 97;
pub const SETRLIMIT: u64 = 160;
pub const PRCTL: u64 = 157;
pub const ARCH_PRCTL: u64 = 158;
pub const GETTID: u64 = 186;
pub const SET_TID_ADDRESS: u64 = 218;
pub const EXIT_GROUP: u64 = 231;
pub const TGKILL: u64 = 234;
pub const GETPID: u64 = 39;
pub const SET_ROBUST_LIST: u64 = 273;

/// Any system call.
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

pub fn exit_group(status: u64) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { call(EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
    }
}

/// A system call that a signal handler can turn back: between `interruptible_first` and
/// `interruptible_last` the call has not been made, and the handler moves the thread to
/// `interruptible_abort` (the technique of cancellation points; see nptl's or musl's
/// `__syscall_cp`).
///
/// # Safety
/// As the call's own rules say.
#[unsafe(naked)]
pub unsafe extern "C" fn interruptible(nr: u64, args: *const [u64; 6]) -> i64 {
    naked_asm!(
        "mov rax, rdi",
        "mov r11, rsi",
        "mov rdi, [r11]",
        "mov rsi, [r11 + 8]",
        "mov rdx, [r11 + 16]",
        "mov r10, [r11 + 24]",
        "mov r8, [r11 + 32]",
        "mov r9, [r11 + 40]",
        "interruptible_first:",
        "nop",
        "syscall",
        "interruptible_last:",
        "ret",
        "interruptible_abort:",
        "mov rax, {not_executed}",
        "ret",
        not_executed = const abi::NOT_EXECUTED,
    )
}

/// Addresses of the interruptible part: first instruction, the one behind the call, and where the
/// handler sends a thread that it turns back.
pub fn interruptible_part() -> (u64, u64, u64) {
    let (first, last, abort);
    // SAFETY: takes three addresses, relative to the instruction pointer (through the linker's
    // table they would need relocation).
    unsafe {
        asm!("lea {}, [rip + interruptible_first]", "lea {}, [rip + interruptible_last]", "lea {}, [rip + interruptible_abort]",
             out(reg) first, out(reg) last, out(reg) abort, options(nomem, nostack, preserves_flags));
    }
    (first, last, abort)
}
