//! Sessions that move processes: out to a room, home again, and from room to room.
//!
//! ```text
//! run, called_home                       who starts a session
//! outbound    inbound    peer            one directory for each direction
//! sharing, pairs                         open files that a room has in common
//! transfer, idle, leftover, held_memory  what several directions do
//! session                                one process on its way, and who may let it run
//! error, timings, postcopy_results, cpu_time_away, group_try
//! ```
//!
//! A module imports only from lines below its own. Of the crate this imports `restore`, `describe`,
//! `proxy`, `room` and `deputy`.

pub mod awaited;
pub mod called_home;
mod cpu_time_away;
pub mod error;
mod group_try;
mod held_memory;
mod idle;
mod inbound;
mod leftover;
pub mod outbound;
mod pairs;
pub mod peer;
mod postcopy_results;
pub mod run;
mod session;
pub mod sharing;
mod timings;
mod transfer;
