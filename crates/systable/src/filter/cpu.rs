//! A filter beside the guests' own, for processes that have used CPU time elsewhere: readings of
//! their clocks of it, and times of these clocks until which to wait, stop for the tracer. The
//! kernel counts what they use where it runs, from nothing.

use super::emit::{AT_ARGS, AT_NR, IF_EQ, IF_SET, LOAD, RETURN};
use super::{Action, Insn};

/// CLOCK_PROCESS_CPUTIME_ID and CLOCK_THREAD_CPUTIME_ID; others' are negative
/// (clock_getcpuclockid(3)).
const OWN: [u32; 2] = [2, 3];
const NEGATIVE: u32 = 1 << 31;
/// RUSAGE_SELF and RUSAGE_THREAD.
const USAGE_OF: [u32; 2] = [0, 1];
/// The flag TIMER_ABSTIME.
const ABSOLUTE: u32 = 1;

/// Places in the program.
const CLOCK: usize = 5;
const WHO: usize = 9;
const SLEEP: usize = 12;
const FLAGS: usize = 16;
const TRACE: usize = 18;
const ALLOW: usize = 19;

/// Gives the instructions of the filter.
pub fn cpu_times() -> [Insn; ALLOW + 1] {
    let mut all = [Insn { code: 0, jt: 0, jf: 0, k: 0 }; ALLOW + 1];
    let mut next = 0;
    let mut put = |code: u16, k: u32, yes: Option<usize>, no: Option<usize>| {
        let skip = |to: Option<usize>| to.map_or(0, |to| (to - next - 1) as u8);
        all[next] = Insn { code, jt: skip(yes), jf: skip(no), k };
        next += 1;
    };
    put(LOAD, AT_NR, None, None);
    // clock_gettime, getrusage, clock_nanosleep, timer_settime
    put(IF_EQ, 228, Some(CLOCK), None);
    put(IF_EQ, 98, Some(WHO), None);
    put(IF_EQ, 230, Some(SLEEP), None);
    put(IF_EQ, 223, Some(FLAGS), Some(ALLOW));
    put(LOAD, AT_ARGS, None, None);
    put(IF_EQ, OWN[0], Some(TRACE), None);
    put(IF_EQ, OWN[1], Some(TRACE), None);
    put(IF_SET, NEGATIVE, Some(TRACE), Some(ALLOW));
    put(LOAD, AT_ARGS, None, None);
    put(IF_EQ, USAGE_OF[0], Some(TRACE), None);
    put(IF_EQ, USAGE_OF[1], Some(TRACE), Some(ALLOW));
    put(LOAD, AT_ARGS, None, None);
    put(IF_EQ, OWN[0], Some(FLAGS), None);
    put(IF_EQ, OWN[1], Some(FLAGS), None);
    put(IF_SET, NEGATIVE, Some(FLAGS), Some(ALLOW));
    put(LOAD, AT_ARGS + 8, None, None);
    put(IF_SET, ABSOLUTE, Some(TRACE), Some(ALLOW));
    put(RETURN, Action::Trace.code(), None, None);
    put(RETURN, Action::Allow.code(), None, None);
    all
}
