//! The state of a server: nodes, open files, leases, locks, and the queues of the kernel.
//!
//! Each file owns one registry with its methods. Nothing here knows [`super::Server`], sends
//! anything to the room, or calls code of the other directories.

pub(crate) mod content;
pub(crate) mod creds;
pub(crate) mod deadlocks;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod file_id;
pub(crate) mod handles;
pub(crate) mod held;
pub(crate) mod kernel_locks;
pub(crate) mod lease;
pub(crate) mod leases;
pub(crate) mod listing;
pub(crate) mod locks;
pub(crate) mod mutex;
pub(crate) mod nodes;
pub(crate) mod offers;
pub(crate) mod proc_path;
pub(crate) mod removed;
pub(crate) mod space;
mod vault;
pub(crate) mod waiting;
