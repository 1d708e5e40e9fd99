//! Signals that wait for a process outside of its kernel's queues, bounded as those are
//! (signal(7)).

use crate::process;
use std::collections::HashMap;

/// A siginfo, and for which thread if it is for one.
pub type Signal = (Option<i32>, [u8; 128]);

/// First real-time signal of the kernel's.
pub const REAL_TIME_FIRST: i32 = 32;
/// The number of the last signal.
const LAST: i32 = 64;
/// Number of RLIMIT_SIGPENDING (getrlimit(2)).
const PENDING_LIMIT: usize = libc::RLIMIT_SIGPENDING as usize;
/// Most real-time signals that wait for one process, whatever its limit.
pub const REAL_TIME_MAX: usize = 4096;

/// Returns the number of the signal that a siginfo is of; it may be none.
pub fn number(info: &[u8; 128]) -> i32 {
    i32::from_le_bytes([info[0], info[1], info[2], info[3]])
}

/// Tells whether a signal is queued each time that it is sent. A standard one that waits already is
/// not queued again.
///
/// Those that stop and continue count as queued, though the kernel does not queue them: what comes
/// last of them counts, and home and the room number the continuations that they have seen.
pub fn is_queued(signal: i32) -> bool {
    signal >= REAL_TIME_FIRST || matches!(signal, libc::SIGCONT | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}

/// Signals that wait for one process, in the order in which they came.
#[derive(Debug)]
pub struct Waiting {
    all: Vec<Signal>,
    /// Standard signals among them, by whom they are for (bit n-1 for signal n).
    standard: HashMap<Option<i32>, u64>,
    queued: usize,
    queued_max: usize,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting { all: Vec::new(), standard: HashMap::new(), queued: 0, queued_max: REAL_TIME_MAX }
    }
}

impl Waiting {
    /// Returns an empty queue that takes so many real-time signals as the process may have pending.
    pub fn of(pid: i32) -> Waiting {
        let limit = process::limits(pid).ok().and_then(|limits| limits.get(PENDING_LIMIT).copied());
        let limit = limit.map_or(REAL_TIME_MAX, |(soft, _)| usize::try_from(soft).unwrap_or(REAL_TIME_MAX));
        Waiting { queued_max: limit.min(REAL_TIME_MAX), ..Waiting::default() }
    }

    /// Adds a signal; `false`: it was dropped, as the kernel would.
    pub fn add(&mut self, signal: Signal) -> bool {
        let number = number(&signal.1);
        if !(1..=LAST).contains(&number) {
            return false;
        }
        if is_queued(number) {
            if self.queued >= self.queued_max {
                return false;
            }
            self.queued += 1;
        } else {
            let waiting = self.standard.entry(signal.0).or_default();
            let bit = 1 << (number - 1);
            if *waiting & bit != 0 {
                return false;
            }
            *waiting |= bit;
        }
        self.all.push(signal);
        true
    }

    /// Puts signals that came earlier in front.
    pub fn put_back(&mut self, earlier: Vec<Signal>) {
        for signal in earlier.into_iter().chain(self.take()) {
            self.add(signal);
        }
    }

    /// Takes all signals that wait.
    pub fn take(&mut self) -> Vec<Signal> {
        self.standard.clear();
        self.queued = 0;
        std::mem::take(&mut self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(signal: i32, mark: u8) -> [u8; 128] {
        let mut info = [mark; 128];
        info[..4].copy_from_slice(&signal.to_le_bytes());
        info
    }

    #[test]
    fn standard_signals_wait_once_for_each_target() {
        let mut waiting = Waiting::default();
        assert!(
            waiting.add((None, info(10, 1))) && waiting.add((Some(7), info(10, 2))) && waiting.add((None, info(12, 3)))
        );
        assert!(!waiting.add((None, info(10, 4))) && !waiting.add((Some(7), info(10, 5))));
        let taken = waiting.take();
        assert_eq!(
            taken,
            [(None, info(10, 1)), (Some(7), info(10, 2)), (None, info(12, 3))],
            "the first ones are kept"
        );
        assert!(waiting.add((None, info(10, 6))), "it does not wait any more");
        waiting.put_back(taken);
        assert_eq!(waiting.take()[0], (None, info(10, 1)));
    }

    #[test]
    fn real_time_signals_are_all_kept_up_to_the_limit() {
        let mut waiting = Waiting::of(std::process::id() as i32);
        let most = waiting.queued_max;
        assert!(most > 0 && most <= REAL_TIME_MAX);
        assert!((0..most).all(|_| waiting.add((None, info(34, 0)))));
        assert!(!waiting.add((None, info(34, 0))) && waiting.add((None, info(15, 0))));
        assert_eq!(waiting.take().len(), most + 1);
    }

    #[test]
    fn what_is_no_signal_is_dropped() {
        let mut waiting = Waiting::default();
        for number in [i32::MIN, -1, 0, 65, i32::MAX] {
            assert!(!waiting.add((None, info(number, 0))));
        }
    }
}
