//! Guests' system calls that the filter hands over: the thread that takes them, the code of each
//! call, and what follows from home's answer.
//!
//! Imports `supervisor`, `state` and `sandbox`; not `files`.

pub mod adoption;
pub mod clock_keeper;
pub mod delivery;
pub mod follow_up;
pub mod notices;
pub mod served;
pub mod streams;
