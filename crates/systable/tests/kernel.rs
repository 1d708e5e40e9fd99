//! The filter in the real kernel: it is accepted, refuses what it should, and costs next to nothing
//! for local calls.

use std::time::Instant;

use systable::filter::{self, Insn};

/// Filters without a listener: user notification without one fails with ENOSYS, as does RET_TRACE
/// without a tracer.
fn install(insns: &[Insn]) {
    let program = libc::sock_fprog { len: insns.len() as u16, filter: insns.as_ptr() as *mut libc::sock_filter };
    // SAFETY: the program lives until the call returns; `Insn` has the layout of `sock_filter`.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(done, "{}", std::io::Error::last_os_error());
}

fn raw(nr: libc::c_long, args: [u64; 3]) -> Result<i64, i32> {
    // SAFETY: only calls that read no memory are made with these numbers.
    let result = unsafe { libc::syscall(nr, args[0], args[1], args[2]) };
    if result < 0 { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(result) }
}

/// Least nanoseconds of one getpid, over some rounds.
fn getpid_ns() -> f64 {
    const CALLS: u32 = 20_000;
    let round = |_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            let _ = raw(libc::SYS_getpid, [0; 3]);
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..20).map(round).fold(f64::MAX, f64::min)
}

fn in_the_child(program: &[Insn]) {
    let before_ns = getpid_ns();
    install(program);
    let after_ns = getpid_ns();
    eprintln!("getpid: {before_ns:.0} ns without the filter, {after_ns:.0} ns with it");
    assert_eq!(raw(libc::SYS_getpid, [0; 3]), Ok(i64::from(std::process::id())));
    // The kernel's own answer would be a descriptor, ESPIPE, EINVAL or a position: 38 says that the
    // filter sent it to a tracer or listener that is not there.
    assert_eq!(raw(libc::SYS_dup, [1, 0, 0]), Err(libc::ENOSYS));
    assert_eq!(raw(libc::SYS_dup, [77, 0, 0]), Err(libc::EBADF));
    assert_eq!(raw(libc::SYS_lseek, [0, 0, 1]), Err(libc::ENOSYS));
    assert_eq!(raw(libc::SYS_lseek, [77, 0, 1]), Err(libc::EBADF));
    for refused in
        [libc::SYS_getppid, libc::SYS_socket, libc::SYS_unshare, libc::SYS_io_uring_setup, libc::SYS_fork, 471, 400]
    {
        assert_eq!(raw(refused, [0; 3]), Err(libc::ENOSYS), "{refused}");
    }
    // A filter that the kernel must run for each call costs 50 ns and more; the bound allows for a
    // machine under load.
    assert!(after_ns < before_ns + 150.0, "{before_ns} -> {after_ns}");
}

#[test]
fn the_kernel_takes_it_and_local_calls_stay_cheap() {
    let program = filter::program();
    // SAFETY: the child makes plain calls only, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = std::panic::catch_unwind(|| in_the_child(program.insns())).is_ok();
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "wait status {status:#x}; see above");
}
