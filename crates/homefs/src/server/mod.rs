//! Home's side of home files: runs the requests of a room's kernel on home's files, with the rights
//! of the requesting process.
//!
//! Threads of the caller run the requests. A request that may wait for others (for a lock or a
//! lease) is continued on a thread of its own. Every reply tells the number of the newest
//! invalidation before it, and no reply is sent before the invalidations of all changes known at
//! home.
//!
//! | directory | holds | imports |
//! | --- | --- | --- |
//! | `state` | registries: nodes, open files, leases, locks, events | nothing of the others |
//! | `base` | the server's parts, replies, invalidations | `state` |
//! | `caching` | leases, offers and held files in use | `base`, `state` |
//! | `requests` | the requests of the room's kernel | `base`, `state` |
//!
//! `start` puts all together.

mod base;
mod caching;
mod error;
mod outlet;
mod requests;
mod start;
mod state;

pub use base::server::Server;
pub use caching::arriving::{ReserveError, Reserved};
pub use error::ServeError;
pub use outlet::Outlet;
pub use requests::access::barred;
pub use requests::dispatch::reads;
pub use state::creds::{Callers, Credentials};
pub use state::export::Export as ExportPath;
pub use state::file_id::FileId;
pub use state::held::YIELDS_WITHIN;
pub use state::kernel_locks::LockedRange;
pub use state::leases::GIVE_UP_AFTER;
pub use state::locks::HeldLocks;
