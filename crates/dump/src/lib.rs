//! Whole processes as streams, as vmadump had them: `tern dump` and `tern undump`, without a
//! daemon.
//!
//! [`dump`] stops a process, takes it apart ([`checkpoint`]), writes it to any descriptor
//! ([`image::dump`]), and lets it go on. [`Undump`] makes a process from such a stream, which may
//! be a pipe and may be hostile. [`list`] tells what a dump needs.
//!
//! # Numbers
//! C libraries keep the numbers of threads in memory: a mutex knows its owner by it, and
//! pthread_kill(3) its target. So an undumped process has the PID and TIDs of the dumped one. If
//! all of them are free, and the undumper may choose numbers (CAP_CHECKPOINT_RESTORE), the process
//! gets them in the undumper's PID namespace. Else it gets a PID namespace of its own, in which
//! every number is free, and an ordinary user also gets a user namespace to make that in. Another
//! way would be to rewrite the numbers in memory; but no debugger knows all places where programs
//! keep them.
#![forbid(unsafe_code)]

mod build_id;
mod capture;
mod describe;
mod descriptors;
mod error;
mod files;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod list;
mod opened;
mod pages;
mod rebuild;
mod spool;

pub use capture::{After, DumpWish, Dumped, dump};
pub use error::DumpFailed;
pub use list::{Listing, list};
pub use rebuild::{Standing, Undump, UndumpWish};
