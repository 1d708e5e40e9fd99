//! Guests as processes: the tracer, what a guest holds, with whom a guest shares files or memory,
//! and how images and pages travel (`transfer`).
//!
//! Imports `state` and `sandbox`; neither `files` nor `calls`. What the tracer wants of the layers
//! above it does through orders' answers, or through a function that it was given.

pub mod describe_guest;
pub mod held_files;
pub mod memory_group;
pub mod room_proc;
pub mod seeks;
pub mod sharers;
pub mod tracer;
pub mod transfer;
