//! Signals of a deputy: every signal that can be caught is told to the steward, in the same stream
//! as the replies; some stay ignored.

use crate::serve::Thread;
use crate::sys;
use abi::{CANCEL_SIGNAL, FELT_IF_IGNORED, Reply, SIGNAL};
use core::arch::naked_asm;
use core::sync::atomic::Ordering;

const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SIG_SETMASK: u64 = 2;
const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;
const SIGKILL: i32 = 9;
const SIGCHLD: i32 = 17;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
/// Offset of rip in `ucontext_t` (asm/sigcontext.h: uc_mcontext at 40, then r8..r15, rdi, rsi, rbp,
/// rbx, rdx, rax, rcx, rsp, rip).
const UCONTEXT_RIP: usize = 40 + 16 * 8;

/// The kernel's `struct sigaction`.
#[repr(C)]
struct Action {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

#[unsafe(naked)]
unsafe extern "C" fn restorer() {
    naked_asm!("mov eax, 15", "syscall")
}

unsafe extern "C" fn handler(signal: i32, info: *const [u8; 128], context: *mut u8) {
    let (first, last, abort) = sys::interruptible_part();
    // SAFETY: the kernel passes a ucontext; rip lies at a fixed place in it.
    unsafe {
        let rip = context.add(UCONTEXT_RIP) as *mut u64;
        if *rip >= first && *rip < last {
            *rip = abort;
        }
    }
    if signal == CANCEL_SIGNAL {
        return;
    }
    if signal == SIGCONT {
        Thread::current().continued().fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: `info` is the kernel's siginfo of 128 bytes.
    let info = unsafe { &*info };
    let mut packet = [0u8; 16 + 128];
    let head = Reply { kind: SIGNAL, data_bytes: 128, result: i64::from(signal) };
    packet[..4].copy_from_slice(&head.kind.to_le_bytes());
    packet[4..8].copy_from_slice(&head.data_bytes.to_le_bytes());
    packet[8..16].copy_from_slice(&head.result.to_le_bytes());
    packet[16..].copy_from_slice(info);
    Thread::current().send(&packet);
}

fn set(signal: i32, action: &Action) {
    // SAFETY: a whole sigaction is passed.
    unsafe { sys::call(sys::RT_SIGACTION, [signal as u64, action as *const Action as u64, 0, 8, 0, 0]) };
}

/// Catches all signals that can be caught, but ignores those of `ignored` whose being ignored is
/// felt at home. The room throws away all other signals that the program ignores and does not
/// block. A deputy cannot do so: it does not know which signals its program blocks, and the kernel
/// keeps those (sig_ignored in kernel/signal.c).
pub fn catch_all(ignored: u64, child_flags: u64) {
    catch_but(ignored & FELT_IF_IGNORED, child_flags);
}

/// Catches all signals that can be caught, and ignores these. The steward reads from the kernel
/// which signals a new program ignores, so the deputy ignores them until then.
pub fn catch_but(ignored: u64, child_flags: u64) {
    for signal in 1..=64 {
        if signal == SIGKILL || signal == SIGSTOP {
            continue;
        }
        let ignore = signal != CANCEL_SIGNAL && ignored & (1 << (signal - 1)) != 0;
        let handler = if ignore { SIG_IGN } else { handler as *const () as u64 };
        let more = if signal == SIGCHLD { child_flags } else { 0 };
        set(signal, &Action { handler, flags: SA_SIGINFO | SA_RESTORER | more, restorer: restorer as *const () as u64, mask: !0 });
    }
}

/// Has the kernel do what a stop of job control does by default, and returns when the process goes
/// on. Not if it has been continued since `continued`.
pub fn stop(signal: i32, continued: u32) {
    let before = mask(!0);
    if Thread::current().continued().load(Ordering::Relaxed) == continued {
        set(signal, &Action { handler: SIG_DFL, flags: SA_RESTORER, restorer: restorer as *const () as u64, mask: 0 });
        raise(signal);
        mask(!(1 << (signal - 1)));
        mask(!0);
        let again = Action { handler: handler as *const () as u64, flags: SA_SIGINFO | SA_RESTORER, restorer: restorer as *const () as u64, mask: !0 };
        set(signal, &again);
    }
    mask(before);
}

fn raise(signal: i32) {
    // SAFETY: plain calls on the own thread.
    unsafe {
        let pid = sys::call(sys::GETPID, [0; 6]) as u64;
        let tid = sys::call(sys::GETTID, [0; 6]) as u64;
        sys::call(sys::TGKILL, [pid, tid, signal as u64, 0, 0, 0]);
    }
}

/// Sets which signals wait; those that waited before.
pub fn mask(set: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: twice eight bytes of mask.
    unsafe { sys::call(sys::RT_SIGPROCMASK, [SIG_SETMASK, &set as *const u64 as u64, &mut before as *mut u64 as u64, 8, 0, 0]) };
    before
}

/// Ends the process as `signal` does by default, without a core: the core would be the blob's, not
/// the program's.
pub fn die(signal: i32) -> ! {
    die_dumpable(signal, 0)
}

/// Ends the process as `signal` does by default, with a core in `directory`: the program's own core
/// is elsewhere, and the parent shall learn that there is one. Without the directory there is none.
///
/// # Safety
/// `directory` is a path, ended by NUL.
pub unsafe fn die_with_core(signal: i32, directory: *const u8) -> ! {
    // SAFETY: as the caller says.
    let entered = unsafe { sys::call(sys::CHDIR, [directory as u64, 0, 0, 0, 0, 0]) } == 0;
    die_dumpable(signal, u64::from(entered && leave_memory_out() && allow_core()))
}

fn die_dumpable(signal: i32, dumpable: u64) -> ! {
    const PR_SET_DUMPABLE: u64 = 4;
    set(signal, &Action { handler: SIG_DFL, flags: SA_RESTORER, restorer: restorer as *const () as u64, mask: 0 });
    mask(0);
    // SAFETY: a plain call on the own process.
    unsafe { sys::call(sys::PRCTL, [PR_SET_DUMPABLE, dumpable, 0, 0, 0, 0]) };
    raise(signal);
    sys::exit_group(128 + signal as u64)
}

/// Has no memory go into a core (core(5), "Controlling which mappings are written").
fn leave_memory_out() -> bool {
    const PATH: &[u8] = b"/proc/self/coredump_filter\0";
    const O_WRONLY: u64 = 1;
    // SAFETY: live bytes; the path ends with NUL.
    unsafe {
        let fd = sys::call(sys::OPEN, [PATH.as_ptr() as u64, O_WRONLY, 0, 0, 0, 0]);
        fd >= 0 && sys::call(sys::WRITE, [fd as u64, b"0".as_ptr() as u64, 1, 0, 0, 0]) == 1
    }
}

/// Lets the kernel write a core as small as this process' is, if the hard limit allows one. The
/// kernel writes none if the limit is below a page (`min_coredump` of fs/binfmt_elf.c).
fn allow_core() -> bool {
    const RLIMIT_CORE: u64 = 4;
    const BYTES: u64 = 64 << 10;
    let mut limits = [0u64; 2];
    // SAFETY: the kernel reads and writes two words.
    unsafe {
        sys::call(sys::GETRLIMIT, [RLIMIT_CORE, limits.as_mut_ptr() as u64, 0, 0, 0, 0]);
        limits[0] = limits[1].min(BYTES);
        sys::call(sys::SETRLIMIT, [RLIMIT_CORE, limits.as_ptr() as u64, 0, 0, 0, 0]) == 0 && limits[0] > 0
    }
}
