//! Home files: the file system of a room, served by its home.
//!
//! The room's kernel has one FUSE mount per home file system. [`client`] (in the warden) carries its requests to the home and the answers
//! back, as the kernel's own bytes; [`server`] (in the steward) runs them on the home's files, with the identity of the deputy whose body
//! asks. The kernel there caches names, attributes and content for long; [`invalidation`] says what it must forget.
//!
//! # What a room sees is never older than what it has learnt
//!
//! - **Names and attributes**: every inode that the room knows has a fanotify mark. The kernel queues the event before the call that made the
//!   change returns, so the server empties the queue before anything leaves for the room ([`server::Server::flush_events`]): whoever
//!   learnt of a change at home learnt it after the event was queued.
//! - **Content** is cached under a read lease of the server's: a writer at home waits until the room has forgotten, and where somebody can write
//!   (or has a writable mapping, of whose stores nothing tells) there is no lease, and what is read is not kept.
//! - **Order**: invalidations are numbered, every message carries the number of the newest before it, and waits in the room until that is applied.
//!   Only replies for which the kernel may hold the applier up overtake (`client::order`).
//! - **Races**: a reply says that it is not to be cached if what it tells changed after it was looked at; and as the kernel may have a reply and
//!   not have looked at it yet, forgetting a node first takes the lock of the directory in which it was named.
//! - **Equal files**: what the home holds a lease on it offers by its hash ([`offer`]); where the hosting node has the same at the same path, reads
//!   are answered from that until the lease ends. Both sides look in the background, and nothing waits for them.
//! - What the room changes itself its kernel knows; events of this process are skipped. Other rooms' stewards are other processes.
//!
//! # Known limits
//!
//! Birth times are not shown: the kernel would ask for them at every stat. POSIX locks do not detect deadlocks
//! (F_OFD_SETLKW does not). A FIFO opened by path looks like a regular file to fstat, and is always ready to poll. fsync and the like are the
//! home's; there is no write-back cache. File systems that fanotify cannot name inodes on are served uncached.

pub mod client;
mod digest;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod invalidation;
pub mod offer;
pub mod programs;
pub mod proto;
pub mod removed;
pub mod server;
mod sys;
