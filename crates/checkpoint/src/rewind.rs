//! Restarting the system call in which a thread was stopped, with the remaining time to wait.
//!
//! The registers stay as they are at the end of an interrupted call. The kernel at the destination
//! decides as the kernel here would have: a handler may run first, and then the call fails with
//! EINTR (arch_do_signal_or_restart in arch/x86/kernel/signal.c). If the thread were set back to
//! its `syscall` instruction, a signal that arrives before the instruction would not interrupt the
//! call.

use libc::user_regs_struct;
use std::time::Duration;

/// The state with which a thread continues.
#[derive(Clone, Copy, Debug)]
pub struct Rewound {
    /// Registers of the thread.
    pub registers: user_regs_struct,
    /// Bytes to write into its memory first: an address and a `timespec`.
    pub put: Option<(u64, [u8; 16])>,
}

/// The distance below the stack pointer beyond which a thread keeps nothing (the red zone has 128
/// bytes). The frame of a handler would lie there ([`image::Thread::enters_call`]).
const BELOW_STACK_BYTES: u64 = 256;
/// The number of io_pgetevents(2), which the C library's headers do not have.
const SYS_IO_PGETEVENTS: i64 = 333;
const EINTR: i64 = -4;
/// ERESTARTSYS, ERESTARTNOINTR and ERESTARTNOHAND (linux/errno.h).
const RESTART: std::ops::RangeInclusive<i64> = -514..=-512;
/// The call is restarted in any case.
const ERESTARTNOINTR: i64 = -513;
/// The call is restarted unless a handler runs, whatever its flags.
const ERESTARTNOHAND: i64 = -514;
/// ERESTART_RESTARTBLOCK: the kernel keeps the remaining time to wait.
pub const RESTART_BLOCK: i64 = -516;

/// Does what the kernel would do for a call that the tracer's stop interrupted. `slept` is the time
/// for which the thread had waited; `word` reads its memory.
pub fn rewind(stopped: &user_regs_struct, slept: Duration, word: impl Fn(u64) -> Option<u64>) -> Rewound {
    let mut rewound = Rewound { registers: *stopped, put: None };
    let (call, result) = (stopped.orig_rax as i64, stopped.rax as i64);
    // The request came between the tracer's attach and its stop.
    if os::ptrace::is_refused_to_be_held(stopped) {
        rewound.registers.rax = ERESTARTNOINTR as u64;
        return rewound;
    }
    let interrupted = RESTART.contains(&result) || result == RESTART_BLOCK || (result == EINTR && only_by_us(call));
    let registers = &mut rewound.registers;
    if call < 0 || !interrupted || RESTART.contains(&result) {
        return rewound;
    }
    registers.rax = ERESTARTNOHAND as u64;
    match timeout(call, registers) {
        Some(Timeout::Milliseconds(left)) if (*left as i32) > 0 => {
            let waited = i32::try_from(slept.as_millis()).unwrap_or(i32::MAX);
            *left = u64::from((*left as i32).saturating_sub(waited).max(0) as u32);
        }
        // The kernel has written the rest of a sleep where the program wants it (nanosleep_copyout
        // in kernel/time/hrtimer.c).
        Some(Timeout::Time(at, rest)) if rest != 0 => *at = rest,
        Some(Timeout::Time(at, _)) if *at != 0 => {
            if let (Some(seconds), Some(ns)) = (word(*at), word(at.wrapping_add(8))) {
                let left = Duration::new(seconds, (ns as u32).min(999_999_999)).saturating_sub(slept);
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&left.as_secs().to_le_bytes());
                bytes[8..].copy_from_slice(&u64::from(left.subsec_nanos()).to_le_bytes());
                *at = stopped.rsp.wrapping_sub(BELOW_STACK_BYTES) & !15;
                rewound.put = Some((*at, bytes));
            }
        }
        _ => {}
    }
    rewound
}

/// Tells whether a call waits for a time of which only the kernel knows the rest.
pub fn may_time_out(call: i64, args: &[u64; 6]) -> bool {
    // SAFETY: all zero is a valid register set.
    let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
    (registers.rdi, registers.rsi, registers.rdx) = (args[0], args[1], args[2]);
    (registers.r10, registers.r8, registers.r9) = (args[3], args[4], args[5]);
    match timeout(call, &mut registers) {
        Some(Timeout::Milliseconds(left)) => *left as i32 > 0,
        Some(Timeout::Time(at, rest)) => *at != 0 && rest == 0,
        None => false,
    }
}

/// The bits of a futex operation that are not flags.
const FUTEX_COMMAND: i32 = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);

/// The way in which a call takes its longest time to wait.
enum Timeout<'a> {
    /// A number; negative means for ever.
    Milliseconds(&'a mut u64),
    /// The address of a `timespec`, and that of one into which the kernel has put the rest, if not
    /// zero.
    Time(&'a mut u64, u64),
}

fn timeout(call: i64, r: &mut user_regs_struct) -> Option<Timeout<'_>> {
    let (rsi, r10) = (r.rsi, r.r10);
    Some(match call {
        libc::SYS_nanosleep => Timeout::Time(&mut r.rdi, rsi),
        libc::SYS_clock_nanosleep => Timeout::Time(&mut r.rdx, r10),
        // Of all operations that wait for a futex only this one takes a duration; the others take a
        // point in time (futex(2)).
        libc::SYS_futex if rsi as i32 & FUTEX_COMMAND == libc::FUTEX_WAIT => Timeout::Time(&mut r.r10, 0),
        libc::SYS_semtimedop | libc::SYS_epoll_pwait2 => Timeout::Time(&mut r.r10, 0),
        libc::SYS_rt_sigtimedwait => Timeout::Time(&mut r.rdx, 0),
        libc::SYS_io_getevents | SYS_IO_PGETEVENTS => Timeout::Time(&mut r.r8, 0),
        libc::SYS_poll => Timeout::Milliseconds(&mut r.rdx),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => Timeout::Milliseconds(&mut r.r10),
        _ => return None,
    })
}

/// Tells whether a call fails with EINTR when a tracer merely stops it (such calls never restart:
/// signal(7)). No signal was delivered, or the thread would be in its handler.
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
            | SYS_IO_PGETEVENTS
            | libc::SYS_read
            | libc::SYS_write
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_open
            | libc::SYS_openat
    ) || may_wait_for_socket(call)
}

/// Tells whether a call may wait for a socket. On a socket with a time limit the call never
/// restarts, and only this kernel knows the rest of the limit; the limit begins anew.
fn may_wait_for_socket(call: i64) -> bool {
    matches!(
        call,
        libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEPT: Duration = Duration::from_millis(1500);

    fn stopped(call: i64, result: i64) -> user_regs_struct {
        // SAFETY: all zero is a valid register set.
        let mut r: user_regs_struct = unsafe { std::mem::zeroed() };
        (r.orig_rax, r.rax, r.rip, r.rdi, r.rsi, r.rsp) = (call as u64, result as u64, 0x1002, 0x70, 0x80, 0x9000);
        r
    }

    fn five_seconds(at: u64) -> Option<u64> {
        Some(if at == 0x70 { 5 } else { 0 })
    }

    #[test]
    fn programs_refused_a_tracer_because_of_us_ask_again() {
        // A call of ptrace(2), PTRACE_TRACEME.
        let asks = user_regs_struct { rdi: 0, ..stopped(101, -1) };
        assert_eq!(rewind(&asks, SLEPT, |_| None).registers.rax as i64, ERESTARTNOINTR);
        let attaches = user_regs_struct { rdi: u64::from(libc::PTRACE_ATTACH), ..asks };
        assert_eq!(rewind(&attaches, SLEPT, |_| None).registers.rax as i64, -1);
    }

    #[test]
    fn interrupted_calls_are_made_again() {
        let calls = [
            (libc::SYS_read, -512, -512),
            (libc::SYS_futex, -513, -513),
            (libc::SYS_pause, -514, -514),
            (libc::SYS_epoll_wait, -4, -514),
            (SYS_IO_PGETEVENTS, -4, -514),
            (libc::SYS_recvfrom, -4, -514),
            (libc::SYS_nanosleep, -516, -514),
        ];
        for (call, result, after) in calls {
            let r = rewind(&stopped(call, result), SLEPT, |_| None).registers;
            assert_eq!((r.rip, r.rax as i64, r.orig_rax), (0x1002, after, call as u64));
        }
    }

    #[test]
    fn results_and_user_code_stay() {
        for (call, result) in [(libc::SYS_read, 5), (libc::SYS_wait4, -4), (-1, -512)] {
            let r = rewind(&stopped(call, result), SLEPT, |_| None).registers;
            assert_eq!((r.rip, r.rax), (0x1002, result as u64));
        }
    }

    #[test]
    fn the_rest_is_waited_for() {
        assert_eq!(rewind(&stopped(libc::SYS_nanosleep, -516), SLEPT, five_seconds).registers.rdi, 0x80);
        let mut r = stopped(libc::SYS_nanosleep, -516);
        r.rsi = 0;
        let rewound = rewind(&r, SLEPT, five_seconds);
        let left = [&3u64.to_le_bytes()[..], &500_000_000u64.to_le_bytes()].concat();
        assert_eq!((rewound.registers.rdi, rewound.put), (0x8f00, Some((0x8f00, left.try_into().unwrap()))));
        for (operation, rest) in [(libc::FUTEX_WAIT, 3), (libc::FUTEX_WAIT_BITSET, 5)] {
            let mut r = stopped(libc::SYS_futex, -516);
            (r.rsi, r.r10) = ((operation | libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u64, 0x70);
            let rewound = rewind(&r, SLEPT, five_seconds);
            let seconds = rewound.put.map_or(5, |(_, bytes)| bytes[0]);
            assert_eq!((seconds, rewound.registers.rax as i64), (rest, -514));
        }
        for (timeout, left) in [(2000i32, 500i32), (1000, 0), (-1, -1)] {
            let mut r = stopped(libc::SYS_poll, -516);
            r.rdx = u64::from(timeout as u32);
            assert_eq!(rewind(&r, SLEPT, |_| None).registers.rdx as i32, left);
        }
    }
}
