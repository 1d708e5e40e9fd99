//! The cases.

mod basic;
mod battery;
mod coherence;
mod fifos;
mod locks;
mod mapped;
mod programs;

use crate::Case;

pub const ALL: &[Case] = &[
    Case { name: "reads", home: basic::reads_home, room: basic::reads_room },
    Case { name: "battery", home: battery::home, room: battery::room },
    Case { name: "coherence", home: coherence::home, room: coherence::room },
    Case { name: "rooms_coherence", home: coherence::home, room: coherence::room },
    Case { name: "rooms_locks", home: locks::home, room: locks::room },
    Case { name: "mapped", home: mapped::home, room: mapped::room },
    Case { name: "fifos", home: fifos::home, room: fifos::room },
    Case { name: "locks", home: locks::home, room: locks::room },
    Case { name: "root_programs", home: programs::home, room: programs::room },
    Case { name: "root_killed", home: programs::killed_home, room: programs::killed_room },
    Case { name: "root_bench", home: programs::bench_home, room: programs::bench_room },
];
