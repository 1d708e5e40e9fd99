//! A thread in which calls are made while it is stopped inside a restartable sequence begins that
//! anew, as it does after any other stop: it never goes on as if it had had its processor all the
//! time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use os::inject::{Inside, Memory, gate};
use os::ptrace::{self, Event, HostTid, Stopped};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

unsafe extern "C" {
    /// Where glibc has registered a thread's `struct rseq`, from its thread pointer.
    static __rseq_offset: isize;
    static __rseq_size: u32;
}

/// Where `struct rseq` has the descriptor of the sequence.
const CURRENT_AT: isize = 8;

/// Waits in a sequence for ever, and counts how often it was aborted.
fn wait_in_sequence(aborted: &AtomicU64) -> ! {
    // SAFETY: the thread's own area; the sequence writes nothing, and where it is aborted a counter
    // of ours is told.
    unsafe {
        std::arch::asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "20: .long 0, 0",
            ".quad 30f, 40f - 30f, 50f",
            ".popsection",
            "60: lea {descriptor}, [rip + 20b]",
            "mov [{current}], {descriptor}",
            "30: pause",
            "jmp 30b",
            "40: ud2",
            // An instruction that nobody runs, with the signature (sys/rseq.h).
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "50: lock inc qword ptr [{aborted}]",
            "jmp 60b",
            descriptor = in(reg) 0usize,
            current = in(reg) thread_pointer() + __rseq_offset + CURRENT_AT,
            aborted = in(reg) aborted.as_ptr(),
            options(noreturn),
        )
    }
}

fn thread_pointer() -> isize {
    let at: isize;
    // SAFETY: the first word of a thread's own block is its address.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) at) };
    at
}

fn stop(tid: HostTid) -> Stopped {
    ptrace::interrupt(tid).unwrap();
    match ptrace::wait_for(tid).unwrap() {
        Event::Halt(stopped, _) => stopped,
        other => panic!("{other:?}"),
    }
}

fn until(holds: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !holds() && begun.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    holds()
}

#[test]
fn it_begins_anew() {
    // SAFETY: a number that glibc has set.
    if unsafe { __rseq_size } == 0 {
        return println!("this libc, or kernel, has no restartable sequences");
    }
    // SAFETY: a fresh page that both have, which holds a counter at zero.
    let aborted = unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        &*page.cast::<AtomicU64>()
    };
    // SAFETY: the child makes no call but the one that ends it with its parent.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: numbers only.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
        wait_in_sequence(aborted);
    }
    let tid = HostTid(child);
    ptrace::seize_gently(tid).unwrap();
    let seen = || aborted.load(Ordering::SeqCst);
    for _ in 0..3 {
        let mut stopped = stop(tid);
        let before = seen();
        let memory = Memory::of(child).unwrap();
        let gate = gate(&memory, &os::areas::read(child).unwrap()).unwrap();
        stopped.abort_sequence(&memory).unwrap();
        let (registers, mask) = (stopped.registers().unwrap(), stopped.mask().unwrap());
        let mut inside = Inside::enter(stopped, memory, gate).unwrap();
        assert_eq!(inside.call(libc::SYS_getpid, [0; 6]).unwrap(), i64::from(child));
        inside.leave(&registers, mask).unwrap().resume(0).unwrap();
        assert!(until(|| seen() > before), "it went on in its sequence");
    }
    // SAFETY: our own child.
    unsafe { libc::kill(child, libc::SIGKILL) };
    while !matches!(ptrace::wait_for(tid), Ok(Event::Exited(_) | Event::Killed(_)) | Err(_)) {}
}
