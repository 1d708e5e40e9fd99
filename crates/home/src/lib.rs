//! The home side of a process whose body is away: becoming a deputy, and the steward that speaks
//! for a room's deputies.

mod blob;
pub mod client;
pub mod steward;

pub use steward::{picture, stays};

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use steward::fuzz;
