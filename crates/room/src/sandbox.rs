//! The room itself, as the hosting kernel sees it: the porter that makes it and starts bodies, open
//! stand-ins in stock, what processes used, and guests' memory and ids.
//!
//! Imports nothing else of this crate.

pub mod guest_memory;
pub mod ids;
pub mod porter;
pub mod spares;
pub mod usage;
