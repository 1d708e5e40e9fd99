//! What a guest's filter asks first where the node's wall clock is wrong: readings of
//! CLOCK_REALTIME go to the warden, and calls with a time of that clock until which to wait stop
//! for the tracer, which puts the node's time in. All else falls through to the guests' filter
//! behind it.

use super::emit::{AND, AT_ARCH, AT_ARGS, AT_NR, IF_EQ, IF_SET, LOAD, RETURN};
use super::{ARCH, Action, Insn};

/// Clocks that have no namespace (clock_gettime(2)): CLOCK_REALTIME, CLOCK_REALTIME_COARSE,
/// CLOCK_TAI.
pub const WALL_CLOCKS: [u32; 3] = [0, 5, 11];
/// Of futex(2): `op` without FUTEX_PRIVATE_FLAG; FUTEX_CLOCK_REALTIME is 256. FUTEX_LOCK_PI always
/// waits by that clock.
const FUTEX_OP: u32 = 0x17f;
const FUTEX_COMMAND: u32 = 0x7f;
const WAIT_BITSET: u32 = 9 | 256;
const WAIT_REQUEUE_PI: u32 = 11 | 256;
const LOCK_PI2: u32 = 13 | 256;
const LOCK_PI: u32 = 6;
/// The flags TIMER_ABSTIME and TFD_TIMER_ABSTIME.
const ABSOLUTE: u32 = 1;

/// Places in the program.
const READ: usize = 12;
const FUTEX: usize = 16;
const SLEEP: usize = 23;
const FLAGS: usize = 26;
const WAITV: usize = 28;
const WAIT: usize = 30;
const NOTIFY: usize = 32;
const TRACE: usize = 33;
const REST: usize = 34;

/// Gives the instructions, to be put before [`super::program`]'s.
pub fn clocks() -> [Insn; REST] {
    let mut all = [Insn { code: 0, jt: 0, jf: 0, k: 0 }; REST];
    let mut next = 0;
    let mut put = |code: u16, k: u32, yes: Option<usize>, no: Option<usize>| {
        let skip = |to: Option<usize>| to.map_or(0, |to| (to - next - 1) as u8);
        all[next] = Insn { code, jt: skip(yes), jf: skip(no), k };
        next += 1;
    };
    let argument = |number: u32| AT_ARGS + 8 * number;
    put(LOAD, AT_ARCH, None, None);
    put(IF_EQ, ARCH, None, Some(REST));
    put(LOAD, AT_NR, None, None);
    for (nr, to) in [(228, READ), (96, NOTIFY), (201, NOTIFY), (202, FUTEX), (230, SLEEP), (223, FLAGS), (286, FLAGS)] {
        put(IF_EQ, nr, Some(to), None);
    }
    put(IF_EQ, 449, Some(WAITV), None);
    put(IF_EQ, 455, Some(WAIT), Some(REST));
    // clock_gettime: which clock?
    put(LOAD, argument(0), None, None);
    put(IF_EQ, WALL_CLOCKS[0], Some(NOTIFY), None);
    put(IF_EQ, WALL_CLOCKS[1], Some(NOTIFY), None);
    put(IF_EQ, WALL_CLOCKS[2], Some(NOTIFY), Some(REST));
    // futex
    put(LOAD, argument(1), None, None);
    put(AND, FUTEX_OP, None, None);
    put(IF_EQ, WAIT_BITSET, Some(TRACE), None);
    put(IF_EQ, WAIT_REQUEUE_PI, Some(TRACE), None);
    put(IF_EQ, LOCK_PI2, Some(TRACE), None);
    put(AND, FUTEX_COMMAND, None, None);
    put(IF_EQ, LOCK_PI, Some(TRACE), Some(REST));
    // clock_nanosleep
    put(LOAD, argument(0), None, None);
    put(IF_EQ, WALL_CLOCKS[0], Some(FLAGS), None);
    put(IF_EQ, WALL_CLOCKS[2], Some(FLAGS), Some(REST));
    // and timer_settime, timerfd_settime, whose clock is the timer's
    put(LOAD, argument(1), None, None);
    put(IF_SET, ABSOLUTE, Some(TRACE), Some(REST));
    // futex_waitv
    put(LOAD, argument(4), None, None);
    put(IF_EQ, WALL_CLOCKS[0], Some(TRACE), Some(REST));
    // futex_wait
    put(LOAD, argument(5), None, None);
    put(IF_EQ, WALL_CLOCKS[0], Some(TRACE), Some(REST));
    put(RETURN, Action::Notify.code(), None, None);
    put(RETURN, Action::Trace.code(), None, None);
    all
}
