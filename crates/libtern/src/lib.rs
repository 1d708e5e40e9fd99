//! libtern: the functions of `tern.h`, on the control protocol and tern(1) alone.
//!
//! `tern_execmove` and its like start programs in node-local mode; `tern_move` and `tern_rfork`
//! move the calling process as `tern move` does. Each function returns -1 and sets errno on
//! failure; the numbers are in the table of libtern(3).
//!
//! A program is placed in two steps. The process asks the daemon itself, so that a refusal changes
//! nothing in it. Once a steward has taken it over, it becomes the deputy as `tern run` does.

mod daemon;
mod dumping;
mod errors;
mod ffi;
mod list;
mod moving;
mod placing;
mod spawn;
mod tree;
mod vrfork;

pub use errors::{Errno, Outcome};
