//! Home's clocks, as a room is told them.

use room_protocol::ToRoom;

/// Answers a room that asks for the clocks.
pub fn told_clocks() -> ToRoom {
    let realtime_ns = os::namespace::clock_ns(libc::CLOCK_REALTIME);
    let (monotonic_ns, boottime_ns) = clocks();
    ToRoom::Clock { monotonic_ns, boottime_ns, realtime_ns }
}

/// Reads the monotonic clock and that of the time since boot, nanoseconds.
pub fn clocks() -> (i64, i64) {
    (os::namespace::clock_ns(libc::CLOCK_MONOTONIC), os::namespace::clock_ns(libc::CLOCK_BOOTTIME))
}
