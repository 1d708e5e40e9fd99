//! A process becomes the deputy of the program that it places: it loads the blob into its own
//! memory and jumps there.

use crate::blob::Blob;
use abi::{Start, THREAD_AREA_BYTES};
use control_protocol::steward::Program;
use std::arch::asm;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;
/// Room for the arguments of later programs (exec), beside those of the first.
const ARG_ROOM_BYTES: usize = 64 << 10;

/// Signals that were ignored when this process started: the runtime changes SIGPIPE before `main`.
static IGNORED_AT_START: AtomicU64 = AtomicU64::new(0);
/// Standard descriptors that were closed when this process started, a bit each: the runtime opens
/// /dev/null in their place before `main`.
static CLOSED_AT_START: AtomicU64 = AtomicU64::new(0);

extern "C" fn note_start() {
    for fd in 0..3 {
        // SAFETY: numbers only.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED_AT_START.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
    IGNORED_AT_START.store(ignored(), Ordering::Relaxed);
}

// SAFETY: a constructor that makes system calls only; it needs nothing of the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_START: extern "C" fn() = note_start;

/// Takes the signals that are ignored now for those that the program is to ignore, as exec does:
/// for programs that have changed that since they started.
pub fn ignore_as_now() {
    IGNORED_AT_START.store(ignored(), Ordering::Relaxed);
}

fn ignored() -> u64 {
    let mut ignored = 0;
    for signal in 1..=64 {
        let mut action = [0u64; 4];
        // SAFETY: the kernel writes one sigaction of 32 bytes.
        let done = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, 0, action.as_mut_ptr(), 8) };
        if done == 0 && action[0] == libc::SIG_IGN as u64 {
            ignored |= 1 << (signal - 1);
        }
    }
    ignored
}

/// Gives SIGPIPE back the action that it had when this process started: what the body ignores is
/// read from here.
pub fn restore_signals() {
    let ignored = IGNORED_AT_START.load(Ordering::Relaxed) & (1 << (libc::SIGPIPE - 1)) != 0;
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, if ignored { libc::SIG_IGN } else { libc::SIG_DFL }) };
}

/// Makes the program that is to be placed find its standard descriptors closed that were closed
/// when this process started. They stay open here until then, so that nothing of the tool's own
/// gets their numbers.
pub fn restore_descriptors() {
    let closed = CLOSED_AT_START.load(Ordering::Relaxed);
    for fd in (0..3).filter(|fd| closed & (1 << fd) != 0) {
        // SAFETY: numbers only. What an exec would close is not the program's
        // (`describe/place.rs`).
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Turns this process into the deputy of `program`. `channel` is its way to the steward. Everything
/// else that the process has in memory is gone afterwards.
pub fn become_deputy(channel: OwnedFd, program: &Program) -> ! {
    match prepare(channel, program) {
        // SAFETY: `prepare` laid out a region as the blob expects it.
        Ok(region) => unsafe { enter(&region) },
        Err(e) => {
            eprintln!("tern: cannot become the deputy of {}: {e}", String::from_utf8_lossy(&program.path));
            std::process::exit(125)
        }
    }
}

struct Region {
    entry: u64,
    start: u64,
    stack: u64,
}

/// From low to high: the blob, its [`Start`] and the argument strings, the thread's stack and
/// buffer.
fn prepare(channel: OwnedFd, program: &Program) -> std::io::Result<Region> {
    let blob = Blob::deputy();
    let strings = |list: &[Vec<u8>]| list.iter().flat_map(|s| s.iter().copied().chain([0])).collect::<Vec<u8>>();
    let (arguments, environment) = (strings(&program.argv), strings(&program.envp));
    let arg_room = (arguments.len() + environment.len()).max(ARG_ROOM_BYTES);
    let code_bytes = blob.image.len().next_multiple_of(PAGE);
    let bytes = code_bytes + (size_of::<Start>() + arg_room).next_multiple_of(PAGE) + THREAD_AREA_BYTES;
    let base = map(bytes)?;
    let start_at = base + code_bytes as u64;
    let arg_start = start_at + size_of::<Start>() as u64;
    let thread_area = base + (bytes - THREAD_AREA_BYTES) as u64;
    let exe = std::fs::File::open(Path::new(std::ffi::OsStr::from_bytes(&program.path)));
    let start = Start {
        region_start: base,
        region_end: base + bytes as u64,
        arg_start,
        arg_end: arg_start + arguments.len() as u64,
        env_end: arg_start + (arguments.len() + environment.len()) as u64,
        arg_room: arg_room as u64,
        thread_area,
        channel_fd: channel.as_raw_fd(),
        exe_fd: exe.map_or(-1, IntoRawFd::into_raw_fd),
        ignored: IGNORED_AT_START.load(Ordering::Relaxed),
        keeps: 0,
        comm: comm(&program.path),
        continued: std::sync::atomic::AtomicU32::new(0),
        ready: std::sync::atomic::AtomicU32::new(0),
    };
    let arg_end = start.arg_end;
    // SAFETY: all writes lie inside the fresh mapping: code, then Start, then strings.
    unsafe {
        std::ptr::copy_nonoverlapping(blob.image.as_ptr(), base as *mut u8, blob.image.len());
        for (at, address) in blob.relocated(base) {
            (base as *mut u8).add(at).cast::<u64>().write_unaligned(address);
        }
        (start_at as *mut Start).write(start);
        std::ptr::copy_nonoverlapping(arguments.as_ptr(), arg_start as *mut u8, arguments.len());
        std::ptr::copy_nonoverlapping(environment.as_ptr(), arg_end as *mut u8, environment.len());
        if libc::mprotect(base as *mut _, code_bytes, libc::PROT_READ | libc::PROT_EXEC) != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    // From here on the number is the blob's.
    let _ = channel.into_raw_fd();
    Ok(Region { entry: base, start: start_at, stack: thread_area + abi::STACK_BYTES as u64 - 128 })
}

fn map(bytes: usize) -> std::io::Result<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(at as u64) }
}

fn comm(path: &[u8]) -> [u8; 16] {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let mut comm = [0; 16];
    let bytes = name.len().min(15);
    comm[..bytes].copy_from_slice(&name[..bytes]);
    comm
}

/// # Safety
/// The region is laid out as [`abi::Start`] says. No other thread runs.
unsafe fn enter(region: &Region) -> ! {
    unregister_rseq();
    // SAFETY: blocks all signals: the handlers of this program are about to vanish. Then leaves
    // this program for ever.
    unsafe {
        let all = !0u64;
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &all, 0, 8);
        let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        libc::sigaltstack(&none, std::ptr::null_mut());
        asm!("jmp {entry}", entry = in(reg) region.entry, in("rdi") region.start, in("rsi") region.stack, options(noreturn));
    }
}

unsafe extern "C" {
    /// Where glibc registered its rseq area, from the thread pointer; and how large (rseq(2), glibc
    /// 2.35).
    static __rseq_offset: isize;
    static __rseq_size: u32;
}

/// The kernel would write to the area after it is gone, and kill the process.
fn unregister_rseq() {
    const RSEQ_FLAG_UNREGISTER: i32 = 1;
    const RSEQ_SIG: u32 = 0x5305_3053;
    const ORIGINAL_BYTES: u32 = 32;
    // SAFETY: glibc's own words about its own area; the kernel refuses what was not registered.
    unsafe {
        if __rseq_size == 0 {
            return;
        }
        let thread: u64;
        asm!("mov {}, fs:[0]", out(reg) thread, options(nostack, readonly));
        let area = thread.wrapping_add(__rseq_offset as u64);
        libc::syscall(libc::SYS_rseq, area, ORIGINAL_BYTES.max(__rseq_size), RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
    }
}
