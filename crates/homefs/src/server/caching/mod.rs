//! Caches of a room: contents under leases, offers of equal files, and files that are held for
//! the room. Each file adds its methods to the server, and the thread that hears of changes.
//!
//! Imports `base` and `state`.

pub(crate) mod arriving;
mod content;
mod held;
mod offers;
