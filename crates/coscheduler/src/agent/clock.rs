//! The clocks of the agent.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::ClockId;

/// Reads the wall clock, which nodes agree on, microseconds since 1970.
pub fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Reads the monotonic clock, microseconds.
pub fn monotonic_us() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}
