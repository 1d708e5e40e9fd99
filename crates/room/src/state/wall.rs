//! The wall clock, where this machine's is wrong. CLOCK_REALTIME has no namespace: guests see the
//! kernel's. So in a room whose home's clock differs by more than [`BOUND_NS`], every reading of it
//! is made a call (`foreign_vdso.rs`), which the filter hands over and the warden answers; and a
//! time until which a guest wants to wait is translated by the tracer (`tracer/deadlines.rs`). Home
//! is asked for its clock all the time, and guests are led to what it says without ever going back
//! (`wall/steering.rs`).

pub mod steering;

use crate::sandbox::guest_memory;
use crate::state::wall::steering::Steering;
use os::namespace::clock_ns;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Clocks that differ by less are left alone, nanoseconds.
pub const BOUND_NS: i64 = 10_000_000;
/// Home is asked so often.
pub const PERIOD: Duration = Duration::from_millis(500);
/// Readings at a time, of which the quickest counts.
const READINGS: usize = 4;
/// A home that does not answer is asked again later.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Home's wall clock as it is shown here.
#[derive(Debug)]
pub struct Wall {
    steering: Mutex<Steering>,
    answers: (Mutex<Sender<Reading>>, Mutex<Receiver<Reading>>),
}

/// An answer of home's.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// CLOCK_MONOTONIC here, when it came.
    heard_ns: i64,
    /// CLOCK_REALTIME at home.
    realtime_ns: i64,
}

fn monotonic_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

impl Wall {
    /// Home's clock is so far ahead of this machine's monotonic one, nanoseconds, give or take
    /// `doubt_ns`. `None` if this machine's own wall clock will do, or may: that home answered late
    /// is no reason to show guests another.
    pub fn needed(ahead_ns: i64, doubt_ns: i64) -> Option<Wall> {
        let own_ns = clock_ns(libc::CLOCK_REALTIME) - monotonic_ns();
        if ahead_ns.saturating_sub(own_ns).saturating_abs() <= BOUND_NS.saturating_add(doubt_ns) {
            return None;
        }
        let (to, from) = channel();
        let steering = Mutex::new(Steering::new(monotonic_ns(), ahead_ns));
        Some(Wall { steering, answers: (Mutex::new(to), Mutex::new(from)) })
    }

    /// Home's CLOCK_REALTIME now, nanoseconds.
    pub fn now_ns(&self) -> i64 {
        let steering = self.steering.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = monotonic_ns();
        now_ns.saturating_add(steering.ahead_ns(now_ns))
    }

    /// A moment of home's clock, by this machine's, nanoseconds.
    pub fn here_ns(&self, at_home_ns: i64) -> i64 {
        let own_ns = clock_ns(libc::CLOCK_REALTIME);
        at_home_ns.saturating_add(own_ns.saturating_sub(self.now_ns())).max(0)
    }

    /// Home says what its clock shows.
    pub fn heard(&self, realtime_ns: i64) {
        let reading = Reading { heard_ns: monotonic_ns(), realtime_ns };
        let _ = self.answers.0.lock().unwrap_or_else(PoisonError::into_inner).send(reading);
    }

    /// Leads guests' clock to home's, for which `ask_home` asks.
    pub fn follow(&self, ask_home: impl Fn()) {
        if let Some(ahead_ns) = self.ask(ask_home) {
            self.steering.lock().unwrap_or_else(PoisonError::into_inner).aim(monotonic_ns(), ahead_ns);
        }
    }

    /// Asks some times; how far home's clock is ahead, by the quickest answer.
    fn ask(&self, ask_home: impl Fn()) -> Option<i64> {
        let answers = self.answers.1.lock().unwrap_or_else(PoisonError::into_inner);
        while answers.try_recv().is_ok() {}
        let mut best: Option<(i64, i64)> = None;
        for _ in 0..READINGS {
            let asked_ns = monotonic_ns();
            ask_home();
            let reading = answers.recv_timeout(ANSWER_WITHIN).ok()?;
            let round_trip_ns = reading.heard_ns - asked_ns;
            let ahead_ns = reading.realtime_ns.saturating_sub(asked_ns + round_trip_ns / 2);
            if best.is_none_or(|(quickest_ns, _)| round_trip_ns < quickest_ns) {
                best = Some((round_trip_ns, ahead_ns));
            }
        }
        best.map(|(_, ahead_ns)| ahead_ns)
    }
}

const SECOND_NS: i64 = 1_000_000_000;

/// `struct timespec` of a time.
pub fn timespec(ns: i64) -> [u8; 16] {
    pair(ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS))
}

/// The time of a `struct timespec`; `None` if it is none, as the kernel will say.
pub fn from_timespec(bytes: &[u8]) -> Option<i64> {
    let word = |at: usize| Some(i64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (seconds, ns) = (word(0)?, word(8)?);
    ((0..SECOND_NS).contains(&ns) && seconds >= 0).then(|| seconds.saturating_mul(SECOND_NS).saturating_add(ns))
}

fn pair(a: i64, b: i64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&a.to_ne_bytes());
    bytes[8..].copy_from_slice(&b.to_ne_bytes());
    bytes
}

/// Answers a reading of the wall clock: the call's result.
pub fn read(wall: &Wall, host: i32, nr: u32, args: &[u64; 6]) -> i64 {
    let ns = wall.now_ns();
    let put = |at: u64, bytes: &[u8]| at == 0 || guest_memory::write(host, at, bytes).is_ok();
    let seconds = ns.div_euclid(SECOND_NS);
    let (done, result) = match i64::from(nr) {
        libc::SYS_time => (put(args[0], &seconds.to_ne_bytes()), seconds),
        libc::SYS_gettimeofday => {
            // The time zone of the kernel is long obsolete, and zero.
            let zone = put(args[1], &[0; 8]);
            (put(args[0], &pair(seconds, ns.rem_euclid(SECOND_NS) / 1000)) && zone, 0)
        }
        _ => (args[1] != 0 && put(args[1], &timespec(ns)), 0),
    };
    if done { result } else { -i64::from(libc::EFAULT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_does_not_make_the_clock_wrong() {
        let own_ns = clock_ns(libc::CLOCK_REALTIME) - monotonic_ns();
        assert!(Wall::needed(own_ns + 3 * BOUND_NS, 0).is_some());
        assert!(Wall::needed(own_ns - 300 * BOUND_NS, 3 * BOUND_NS).is_some());
        assert!(Wall::needed(own_ns + 3 * BOUND_NS, 3 * BOUND_NS).is_none());
        assert!(Wall::needed(own_ns - BOUND_NS / 2, 0).is_none());
    }

    #[test]
    fn times_are_what_they_were() {
        for ns in [0, 1, 999_999_999, 1_000_000_000, 1_763_000_000_123_456_789] {
            assert_eq!(from_timespec(&timespec(ns)), Some(ns));
        }
        assert_eq!(from_timespec(&pair(1, SECOND_NS)), None);
        assert_eq!(from_timespec(&pair(-1, 0)), None);
        assert_eq!(from_timespec(&pair(i64::MAX, 0)), Some(i64::MAX));
        assert_eq!(from_timespec(&[0; 15]), None);
    }
}
