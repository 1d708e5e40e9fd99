//! A thread that was stopped in a system call makes it again where it goes on.

use libc::user_regs_struct;

/// Bytes of `syscall`.
const INSTRUCTION_BYTES: u64 = 2;
const EINTR: i64 = -4;
/// ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND (linux/errno.h).
const RESTART: std::ops::RangeInclusive<i64> = -514..=-512;
/// ERESTART_RESTARTBLOCK: what is left to wait is in the kernel.
const RESTART_BLOCK: i64 = -516;

/// Registers such that the thread goes on in user code, as the kernel itself would set them for a call that our stop interrupted.
pub fn rewind(stopped: &user_regs_struct) -> user_regs_struct {
    let mut registers = *stopped;
    let call = stopped.orig_rax as i64;
    let result = stopped.rax as i64;
    let interrupted = RESTART.contains(&result) || result == RESTART_BLOCK || (result == EINTR && only_by_us(call));
    if call >= 0 && interrupted {
        registers.rax = stopped.orig_rax;
        registers.rip = stopped.rip.wrapping_sub(INSTRUCTION_BYTES);
        // What is left of a sleep was written where the program wants it (nanosleep_copyout in kernel/time/hrtimer.c): that is what is slept now.
        let rest = match call {
            libc::SYS_nanosleep => Some((stopped.rsi, &mut registers.rdi)),
            libc::SYS_clock_nanosleep => Some((stopped.r10, &mut registers.rdx)),
            _ => None,
        };
        if let Some((rest, request)) = rest
            && result == RESTART_BLOCK
            && rest != 0
        {
            *request = rest;
        }
    }
    registers.orig_rax = u64::MAX;
    registers
}

/// Calls that say EINTR when they are merely stopped by a tracer (they never restart: signal(7)); no signal was delivered, or the thread would be in its handler.
fn only_by_us(call: i64) -> bool {
    matches!(
        call,
        libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_semop
            | libc::SYS_semtimedop
            | libc::SYS_io_getevents
            | libc::SYS_read
            | libc::SYS_write
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_open
            | libc::SYS_openat
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(call: i64, result: i64) -> user_regs_struct {
        // SAFETY: all zero is a valid register set.
        let mut r: user_regs_struct = unsafe { std::mem::zeroed() };
        (r.orig_rax, r.rax, r.rip, r.rdi, r.rsi) = (call as u64, result as u64, 0x1002, 0x70, 0x80);
        r
    }

    #[test]
    fn interrupted_calls_are_made_again() {
        for (call, result) in
            [(libc::SYS_read, -512), (libc::SYS_futex, -513), (libc::SYS_pause, -514), (libc::SYS_epoll_wait, -4)]
        {
            let r = rewind(&registers(call, result));
            assert_eq!((r.rip, r.rax, r.orig_rax), (0x1000, call as u64, u64::MAX));
        }
    }

    #[test]
    fn results_and_user_code_stay() {
        for (call, result) in [(libc::SYS_read, 5), (libc::SYS_wait4, -4), (-1, -512)] {
            let r = rewind(&registers(call, result));
            assert_eq!((r.rip, r.rax), (0x1002, result as u64));
        }
    }

    #[test]
    fn the_rest_of_a_sleep_is_slept() {
        assert_eq!(rewind(&registers(libc::SYS_nanosleep, -516)).rdi, 0x80);
    }
}
