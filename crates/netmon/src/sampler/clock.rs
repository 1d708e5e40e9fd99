//! The clock of samplers, and waiting for the time of a sample.

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::ClockId;
use rustix::time::{Timespec, clock_gettime};

/// A point in time from which records count.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_ns: u64,
}

impl Clock {
    /// Begins to count.
    pub fn start() -> Clock {
        Clock { start_ns: monotonic_ns() }
    }

    /// Gives the time since the start, nanoseconds.
    pub fn now_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.start_ns)
    }

    /// Gives the time since the start, microseconds.
    pub fn now_us(&self) -> u64 {
        self.now_ns() / 1000
    }

    /// Waits until a time since the start.
    pub fn wait_until(&self, at_ns: u64) {
        let until = Duration::from_nanos(self.start_ns.saturating_add(at_ns));
        let until = Timespec { tv_sec: until.as_secs() as i64, tv_nsec: i64::from(until.subsec_nanos()) };
        // A signal that comes meanwhile makes a sample early: nothing is lost.
        let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// Has the calling thread woken when it asked for that, and not up to 50 us later (prctl(2),
/// PR_SET_TIMERSLACK).
pub fn wake_exactly() {
    // Where that fails, samples come later, which is counted.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Gives the CPU time of this process, microseconds.
pub fn cpu_us() -> u64 {
    let used = clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    (used.tv_sec as u64).saturating_mul(1_000_000).saturating_add(used.tv_nsec as u64 / 1000)
}
