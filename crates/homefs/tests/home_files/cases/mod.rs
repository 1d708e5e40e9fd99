//! The cases.

mod basic;
mod battery;

use crate::Case;

pub const ALL: &[Case] = &[
    Case { name: "reads", home: basic::reads_home, room: basic::reads_room },
    Case { name: "battery", home: battery::home, room: battery::room },
];
