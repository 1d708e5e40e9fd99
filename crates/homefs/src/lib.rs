//! Home files: the file system of a room, served by its home.
//!
//! The room's kernel has one FUSE mount per home file system. [`client`] (in the warden) carries
//! its requests to home and the replies back, as the kernel's own bytes. [`server`] (in the
//! steward) runs them on home's files, with the identity of the deputy of the requesting process.
//! The room's kernel caches names, attributes and content for long; [`invalidation`] tells what it
//! must forget.
//!
//! # A room never sees state older than what it has learnt
//!
//! - **Names and attributes**: every inode that the room knows has a fanotify mark. The kernel
//!   queues an event before the call that made the change returns, so the server empties the queue
//!   before it sends anything to the room ([`server::Server::flush_events`]). Whatever a process at
//!   home has learnt of a change, it learnt after the event was queued.
//! - **Content** is cached under a read lease of the server: a writer at home waits until the room
//!   has forgotten the content. Where a process can write (or has a writable mapping, whose stores
//!   cause no events) there is no lease, and data that is read is not kept.
//! - **Order**: invalidations are numbered. Every message carries the number of the newest
//!   invalidation before it, and waits in the room until that one is applied. Only replies for
//!   which the kernel may block the applying thread overtake (`client::order`).
//! - **Races**: a reply is marked as not to be cached if its subject changed after the server
//!   looked at it. As the kernel may have received a reply without processing it, forgetting a node
//!   first takes the lock of the directory in which the node was named.
//! - **Equal files**: home offers files under a lease by their hash ([`offer`]). If the hosting
//!   node has the same file at the same path, reads are answered from it until the lease ends. Both
//!   sides compare in the background, and nothing waits for them.
//! - **Writes** may be answered before home has made them. Home makes them in their place among all
//!   that the room sends (`client::behind`).
//! - The room's kernel knows the changes that the room makes itself; events of this process are
//!   skipped. The stewards of other rooms are other processes.
//!
//! # Known limits
//!
//! Birth times are not shown: the kernel would ask for them at every stat. POSIX locks do not
//! detect deadlocks (F_OFD_SETLKW does not either). A FIFO opened by path looks like a regular file
//! to fstat, and is always ready to poll. File systems on which fanotify cannot identify inodes are
//! served uncached.

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
