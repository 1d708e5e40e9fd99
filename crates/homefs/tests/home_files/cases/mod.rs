//! The cases.

mod basic;

use crate::Case;

pub const ALL: &[Case] = &[
    Case { name: "reads", home: basic::reads_home, room: basic::reads_room },
    Case { name: "battery", home: basic::battery_home, room: basic::battery_room },
];
