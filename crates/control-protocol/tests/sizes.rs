//! How large messages are that are sent all the time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use control_protocol::facts::{Availability, Load};
use control_protocol::peer::PulseEntry;

/// The simulator counts traffic with this size (`sim`, `READING_BYTES`).
const READING_BYTES: usize = 39;

#[test]
fn a_reading_takes_few_bytes() {
    let load = Load {
        runnable_milli: 64_000,
        cores: 64,
        available_mib: 500_000,
        memory_mib: 512_000,
        rooms: 100,
        rooms_max: 1000,
        capacity_milli: 64_000,
        speed_milli: 1500,
        pressure_milli: 1000,
        lag_ms: -5000,
        availability: Availability::Idle,
        // A year.
        unused_s: 31_536_000,
    };
    let entry = PulseEntry { id: u64::MAX, age_ms: 5000, load };
    let bytes = postcard::to_stdvec(&entry).unwrap().len();
    assert!(bytes <= READING_BYTES, "{bytes} bytes");
}
