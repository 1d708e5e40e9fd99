//! Times until which a guest wants to wait, by a wall clock that is home's: the kernel here waits
//! by its own. The time is put into the call translated, below what the thread uses of its stack;
//! its registers come back at the call's end.

use crate::sandbox::guest_memory;
use crate::state::wall::{from_timespec, timespec};
use crate::supervisor::tracer::Tracer;
use libc::user_regs_struct as Registers;
use os::ptrace::{HostTid, Stopped, TraceError};

/// Where a call says until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deadline {
    /// Address of the structure.
    at: u64,
    /// The size of the message.
    bytes: usize,
    /// Offset of the time in it.
    time_at: usize,
    /// Which argument of the call the address is.
    argument: usize,
}

const TIMESPEC_BYTES: usize = 16;
/// interval, then value
const ITIMERSPEC_BYTES: usize = 32;
/// The ABI lets functions use so much below their stack pointer.
const RED_ZONE_BYTES: u64 = 128;

/// The filter has looked at the flags.
fn deadline(registers: &Registers) -> Option<Deadline> {
    let plain = |argument, at| Deadline { at, bytes: TIMESPEC_BYTES, time_at: 0, argument };
    let timer = |argument, at| Deadline { at, bytes: ITIMERSPEC_BYTES, time_at: TIMESPEC_BYTES, argument };
    let found = match registers.orig_rax as i64 {
        libc::SYS_futex | libc::SYS_futex_waitv => plain(3, registers.r10),
        libc::SYS_clock_nanosleep => plain(2, registers.rdx),
        FUTEX_WAIT => plain(4, registers.r8),
        libc::SYS_timer_settime | libc::SYS_timerfd_settime => timer(2, registers.rdx),
        _ => return None,
    };
    (found.at != 0).then_some(found)
}

const FUTEX_WAIT: i64 = 455;

fn set_argument(registers: &mut Registers, argument: usize, value: u64) {
    match argument {
        2 => registers.rdx = value,
        3 => registers.r10 = value,
        _ => registers.r8 = value,
    }
}

/// The clock of a call that may be one of CPU time.
fn clock(host: HostTid, registers: &Registers) -> Option<i32> {
    match registers.orig_rax as i64 {
        libc::SYS_clock_nanosleep => Some(registers.rdi as i32),
        libc::SYS_timer_settime => os::process::timer_clock(host.0, registers.rdi as i32),
        _ => None,
    }
}

/// Whether the timer that the call sets goes by the wall clock.
fn by_wall_clock(host: HostTid, registers: &Registers) -> bool {
    let clock = match registers.orig_rax as i64 {
        libc::SYS_timer_settime => os::process::timer_clock(host.0, registers.rdi as i32),
        libc::SYS_timerfd_settime => os::process::timerfd_clock(host.0, registers.rdi as i32),
        _ => return true,
    };
    clock.is_some_and(|clock| systable::filter::WALL_CLOCKS.contains(&(clock as u32)) || clock == CLOCK_REALTIME_ALARM)
}

const CLOCK_REALTIME_ALARM: i32 = 8;

/// The call is one that [`systable::filter::clocks`] stops.
pub fn is_deadline(call: u64) -> bool {
    matches!(
        call as i64,
        libc::SYS_futex
            | libc::SYS_futex_waitv
            | libc::SYS_clock_nanosleep
            | FUTEX_WAIT
            | libc::SYS_timer_settime
            | libc::SYS_timerfd_settime
    )
}

impl Tracer {
    /// Lets the call go on, with the time translated if there is one.
    pub fn translate_deadline(&mut self, mut stopped: Stopped) -> Result<(), TraceError> {
        let registers = stopped.registers()?;
        let host = stopped.tid();
        let Some((argument, structure)) = self.translated(host, &registers) else { return stopped.resume(0) };
        let place = (registers.rsp - RED_ZONE_BYTES - structure.len() as u64) & !15;
        if let Err(e) = guest_memory::write(host.0, place, &structure) {
            tracing::warn!("a time until which {} waits is this machine's, not home's: {e}", host.0);
            return stopped.resume(0);
        }
        let mut changed = registers;
        set_argument(&mut changed, argument, place);
        self.births.rewritten(host, registers);
        stopped.set_registers(&changed)?;
        stopped.resume_to_call_end()
    }

    fn translated(&self, host: HostTid, registers: &Registers) -> Option<(usize, Vec<u8>)> {
        let deadline = deadline(registers)?;
        let here_ns: &dyn Fn(i64) -> i64 = match self.cpu_time_before(host, clock(host, registers).unwrap_or(0)) {
            Some(before_ns) => &move |ns: i64| ns.saturating_sub_unsigned(before_ns),
            None => {
                let wall = self.room.wall.get().filter(|_| by_wall_clock(host, registers))?;
                &move |ns: i64| wall.here_ns(ns)
            }
        };
        let mut structure = vec![0; deadline.bytes];
        guest_memory::read(host.0, deadline.at, &mut structure).ok()?;
        let time = structure.get_mut(deadline.time_at..)?;
        // Zero stops a timer; what is no time is refused by the kernel.
        let at_home_ns = from_timespec(time).filter(|ns| *ns != 0)?;
        time.copy_from_slice(&timespec(here_ns(at_home_ns).max(1)));
        Some((deadline.argument, structure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_calls_say_until_when() {
        // SAFETY: all zero is a valid register set.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        (registers.rdx, registers.r10, registers.r8) = (2, 3, 4);
        let mut argument = |call: i64| {
            registers.orig_rax = call as u64;
            deadline(&registers).map(|d| (d.argument, d.at, d.bytes))
        };
        assert_eq!(argument(libc::SYS_futex), Some((3, 3, 16)));
        assert_eq!(argument(libc::SYS_clock_nanosleep), Some((2, 2, 16)));
        assert_eq!(argument(libc::SYS_timerfd_settime), Some((2, 2, 32)));
        assert_eq!(argument(FUTEX_WAIT), Some((4, 4, 16)));
        assert_eq!(argument(libc::SYS_read), None);
        registers.r10 = 0;
        registers.orig_rax = libc::SYS_futex as u64;
        assert_eq!(deadline(&registers), None);
    }
}
