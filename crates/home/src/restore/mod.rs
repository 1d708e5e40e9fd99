//! A deputy that takes its program's state back.
//!
//! [`deputy_restore`] lays memory and [`descriptors`] of an image beside what the deputy needs
//! itself, until the commit point; then the deputy becomes the program. The files of the image are
//! opened again ([`reopen`], [`reopened`]) with the deputy's rights, unless the deputy has kept
//! them ([`kept_files`]); [`locks`] that the process took while it was away, what it has
//! [`written`] to, and [`edges`] that its epoll instances have not told yet come along.
//!
//! Imports `proxy`, `room` and `deputy`.

pub mod deputy_restore;
mod descriptors;
pub mod edges;
pub mod error;
pub mod kept_files;
pub mod locks;
pub mod reopen;
pub mod reopened;
mod signals;
pub mod written;
