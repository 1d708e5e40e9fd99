//! The requests of a room's kernel, each run with the rights of the process that made it.
//!
//! `dispatch` finds the method for a request; the other files have these methods, by subject.
//! Imports `base` and `state`, and tells `caching` of opens and closes.

pub(super) mod access;
mod attr;
mod create;
mod dirs;
pub(super) mod dispatch;
mod fifos;
mod files;
mod locks;
mod names;
mod open_mode;
mod removed;
mod xattr;
