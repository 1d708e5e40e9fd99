//! Load readings that travel by gossip, as in MOSIX: once a second each node sends its own reading and the freshest of the others' to one
//! member, drawn at random, and now and then to one that it has lately heard. Nobody polls; what a node knows of others is a small window of
//! the newest readings, which age out.
//!
//! Pure: time and chance are arguments.
#![forbid(unsafe_code)]

mod draw;
mod partners;
mod window;

pub use draw::Draw;
pub use partners::{Partner, Partners};
pub use window::{Bounds, Reading, Window};
