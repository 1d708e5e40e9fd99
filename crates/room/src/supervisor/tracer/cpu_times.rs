//! Readings of CPU time by processes that had used some before they came:
//! [`systable::filter::cpu_times`] stops these calls, and what they say is completed at their ends.

use crate::sandbox::guest_memory;
use crate::state::guests::Who;
use crate::supervisor::tracer::Tracer;
use libc::user_regs_struct as Registers;
use os::ptrace::HostTid;

const NS_PER_US: u64 = 1000;
const NS_PER_S: u64 = 1_000_000_000;
/// `struct timespec`, `struct timeval`.
const PAIR_BYTES: usize = 16;

/// Whose CPU time a clock tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Process(i32),
    Thread(i32),
}

/// A clock of CPU time, as `who` names it (include/linux/posix-timers_types.h): negative ones hold
/// a number, inverted, and what is counted.
fn whose(clock: i32, who: Who) -> Option<(Whose, bool)> {
    const OF_THREAD: i32 = 4;
    const KIND: i32 = 3;
    const USER: i32 = 1;
    const NO_CPU_CLOCK: i32 = 3;
    let numbered = |own: i32| if clock >> 3 == -1 { own } else { !(clock >> 3) };
    match clock {
        libc::CLOCK_PROCESS_CPUTIME_ID => Some((Whose::Process(who.pid), false)),
        libc::CLOCK_THREAD_CPUTIME_ID => Some((Whose::Thread(who.tid), false)),
        0.. => None,
        _ if clock & KIND == NO_CPU_CLOCK => None,
        _ if clock & OF_THREAD != 0 => Some((Whose::Thread(numbered(who.tid)), clock & KIND == USER)),
        _ => Some((Whose::Process(numbered(who.pid)), clock & KIND == USER)),
    }
}

/// The call tells CPU time.
pub fn is_reading(call: u64) -> bool {
    matches!(call as i64, libc::SYS_clock_gettime | libc::SYS_getrusage)
}

impl Tracer {
    /// What the kernel here did not count of what this clock tells, nanoseconds; `None` if it is no
    /// clock of CPU time.
    pub fn cpu_time_before(&self, host: HostTid, clock: i32) -> Option<u64> {
        let guests = self.room.guests();
        let (whose, user) = whose(clock, guests.who(host)?)?;
        let pid = match whose {
            Whose::Process(pid) => pid,
            Whose::Thread(tid) => guests.host(tid).and_then(|host| guests.who(host)).map_or(tid, |who| who.pid),
        };
        let before = guests.get(pid).and_then(|guest| guest.before.clone());
        Some(before.map_or(0, |before| match (whose, user) {
            (Whose::Process(_), true) => before.used.user_ns,
            (Whose::Process(_), false) => before.used.total_ns(),
            (Whose::Thread(tid), _) => before.thread_ns(tid),
        }))
    }

    /// A call has ended well: if it told CPU time, that is completed.
    pub fn complete_cpu_time(&self, host: HostTid, registers: &Registers) {
        let to = registers.rsi;
        let (unit_ns, more) = match registers.orig_rax as i64 {
            libc::SYS_clock_gettime => (1, self.cpu_time_before(host, registers.rdi as i32).map(|ns| vec![ns])),
            libc::SYS_getrusage => (NS_PER_US, self.usage_before(host, registers.rdi as i32)),
            _ => return,
        };
        for (at, ns) in (0..).zip(more.unwrap_or_default()) {
            let at = to + PAIR_BYTES as u64 * at;
            let mut pair = [0; PAIR_BYTES];
            if guest_memory::read(host.0, at, &mut pair).is_ok() {
                // What the kernel could write, this can.
                let _ = guest_memory::write(host.0, at, &sum(pair, ns, unit_ns));
            }
        }
    }

    /// The same of getrusage(2): user and system time.
    fn usage_before(&self, host: HostTid, whose: i32) -> Option<Vec<u64>> {
        let guests = self.room.guests();
        let who = guests.who(host)?;
        let before = guests.get(who.pid)?.before.as_ref()?;
        match whose {
            libc::RUSAGE_SELF => Some(vec![before.used.user_ns, before.used.system_ns]),
            libc::RUSAGE_THREAD => Some(vec![before.thread_ns(who.tid), 0]),
            _ => None,
        }
    }
}

/// A `struct timespec` (`unit_ns` 1) or `struct timeval` (1000) with so much more.
fn sum(pair: [u8; PAIR_BYTES], ns: u64, unit_ns: u64) -> [u8; PAIR_BYTES] {
    let half = |at: usize| pair[at..at + 8].iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let per_second = NS_PER_S / unit_ns;
    let rest = half(8).saturating_add(ns % NS_PER_S / unit_ns);
    let seconds = half(0).saturating_add(ns / NS_PER_S).saturating_add(rest / per_second);
    let mut sum = [0; PAIR_BYTES];
    sum[..8].copy_from_slice(&seconds.to_le_bytes());
    sum[8..].copy_from_slice(&(rest % per_second).to_le_bytes());
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Who = Who { pid: 50, tid: 51 };

    #[test]
    fn clocks_have_owners() {
        let named = |number: i32, kind: i32| !number << 3 | kind;
        assert_eq!(whose(libc::CLOCK_PROCESS_CPUTIME_ID, WHO), Some((Whose::Process(50), false)));
        assert_eq!(whose(libc::CLOCK_THREAD_CPUTIME_ID, WHO), Some((Whose::Thread(51), false)));
        assert_eq!(whose(named(7, 2), WHO), Some((Whose::Process(7), false)));
        assert_eq!(whose(named(0, 6), WHO), Some((Whose::Thread(51), false)));
        assert_eq!(whose(named(9, 5), WHO), Some((Whose::Thread(9), true)));
        assert_eq!((whose(libc::CLOCK_MONOTONIC, WHO), whose(named(3, 3), WHO)), (None, None));
    }

    #[test]
    fn times_add() {
        let pair = |a: u64, b: u64| -> [u8; PAIR_BYTES] {
            let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
            bytes.try_into().unwrap()
        };
        assert_eq!(sum(pair(1, 999_999_999), 2_000_000_002, 1), pair(4, 1));
        assert_eq!(sum(pair(1, 999_999), 1_500_000, 1000), pair(2, 1499));
    }
}
