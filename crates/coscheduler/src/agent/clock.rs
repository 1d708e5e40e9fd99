//! The clocks of the agent.

use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the wall clock, which nodes agree on, microseconds since 1970.
pub fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
