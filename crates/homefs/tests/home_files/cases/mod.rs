//! The cases of the test.

mod basic;
mod battery;
mod behind;
mod coherence;
mod directories;
mod equal;
mod fifos;
mod locked;
mod locks;
mod mapped;
mod programs;
mod removed;

use crate::Case;

pub const ALL: &[Case] = &[
    Case { name: "reads", home: basic::reads_home, room: basic::reads_room },
    Case { name: "battery", home: battery::home, room: battery::room },
    Case { name: "behind", home: behind::home, room: behind::room },
    Case { name: "rooms_behind", home: behind::home, room: behind::room },
    Case { name: "directories", home: directories::home, room: directories::room },
    Case { name: "rooms_directories", home: directories::home, room: directories::room },
    Case { name: "coherence", home: coherence::home, room: coherence::room },
    Case { name: "rooms_coherence", home: coherence::home, room: coherence::room },
    Case { name: "rooms_locks", home: locks::home, room: locks::room },
    Case { name: "mapped", home: mapped::home, room: mapped::room },
    Case { name: "fifos", home: fifos::home, room: fifos::room },
    Case { name: "disk_equal", home: equal::home, room: equal::room },
    Case { name: "disk_equal_races", home: equal::races_home, room: equal::races_room },
    Case { name: "locks", home: locks::home, room: locks::room },
    Case { name: "removed", home: removed::home, room: removed::room },
    Case { name: "directories_locked", home: locked::home, room: locked::room },
    Case { name: "root_programs", home: programs::home, room: programs::room },
    Case { name: "root_killed", home: programs::killed_home, room: programs::killed_room },
    Case { name: "root_bench", home: programs::bench_home, room: programs::bench_room },
];
