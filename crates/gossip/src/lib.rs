//! Gossip of load readings, as in MOSIX. Once a second each node sends its own reading and the
//! freshest readings of others to one member, drawn at random, and now and then to a node that it
//! has lately heard from. No node polls. A node knows others by a small window of the newest
//! readings, which age out.
//!
//! The crate is pure: time and randomness are arguments.
#![forbid(unsafe_code)]

mod draw;
mod partners;
mod window;

pub use draw::Draw;
pub use partners::{Partner, Partners};
pub use window::{Bounds, Reading, Window};
