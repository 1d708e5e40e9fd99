//! Control messages: `tern` to `ternd` ([`tool`]), `ternd` to `ternd` ([`peer`]), `ternd` to
//! stewards ([`steward`]). No I/O.
#![forbid(unsafe_code)]

pub mod address;
pub mod calls;
pub mod codec;
pub mod coscheduling;
pub mod drain;
pub mod evictions;
pub mod facts;
pub mod guests;
pub mod history;
pub mod hosts;
pub mod jobs;
pub mod moves;
pub mod nodes;
pub mod paths;
pub mod peer;
pub mod power;
pub mod queues;
pub mod rights;
pub mod sampling;
pub mod steward;
pub mod tool;
pub mod usage;
