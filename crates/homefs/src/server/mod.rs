//! Home's side of home files: runs the requests of a room's kernel on home's files, with the rights
//! of the requesting process.
//!
//! Threads of the caller run the requests. A request that may wait for others (for a lock or a
//! lease) is continued on a thread of its own. Every reply tells the number of the newest
//! invalidation before it, and no reply is sent before the invalidations of all changes known at
//! home.

mod access;
mod attr;
mod content;
mod create;
mod creds;
mod deadlocks;
mod dirs;
mod dispatch;
mod events;
mod export;
mod fifos;
mod files;
mod handles;
mod held;
mod leases;
mod locks;
mod names;
mod nodes;
mod offers;
mod removed;
mod vault;
mod waiting;
mod xattr;

pub use access::barred;
pub use creds::{Callers, Credentials};
pub use dispatch::reads;
pub use export::Export as ExportPath;
pub use files::FileId;
pub use held::YIELDS_WITHIN;
pub use leases::GIVE_UP_AFTER;
pub use locks::{HeldLocks, LockedRange};

use crate::invalidation::{Invalidation, What};
use crate::offer::Offer;
use crate::sys;
use creds::Authority;
use events::{Event, Events, InodeMarks};
use export::OpenExport as Export;
use handles::Handles;
use held::HeldFiles;
use leases::Leases;
use locks::Locks;
use nodes::{Node, Nodes};
use offers::Offers;
use removed::Removed;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use waiting::Waiting;

/// The connection to the room. Messages must arrive in the order of the calls.
pub trait Outlet: Send + Sync {
    /// Sends a reply to the room's kernel; `seq` is the number of the newest invalidation sent
    /// before it.
    fn reply(&self, mount: u16, bytes: &[u8], seq: u64);
    /// Sends invalidation number `seq` (from 1, without gaps).
    fn invalidate(&self, seq: u64, invalidation: &Invalidation);
    /// Sends an offer; `seq` is the number of the newest invalidation when it was made.
    fn offer(&self, seq: u64, offer: &Offer);
    /// Tells that a process at home waits for a file with this inode number that is held for the
    /// room ([`Server::hold`]).
    fn wanted(&self, inode: u64);
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A file system cannot be opened for export.
    #[error("cannot export {path}: {what}: {source}")]
    Export {
        /// Mount point of the file system.
        path: std::path::PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Something else that the server needs failed.
    #[error("cannot serve home files: {what}: {source}")]
    Setup {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// A change at home of which the room may have an old state.
enum Change {
    Attr,
    Content,
    Name(Vec<u8>),
    AllNames,
}

/// Serves the files of home to one room.
pub struct Server {
    exports: Vec<Export>,
    nodes: Nodes,
    handles: Handles,
    held: HeldFiles,
    callers: Arc<dyn Callers>,
    outlet: Arc<dyn Outlet>,
    authority: Authority,
    watch: InodeMarks,
    leases: Leases,
    /// Nodes whose lease is given up at the latest when the room has applied the invalidation of
    /// this number.
    breaking: Mutex<Vec<(u64, Arc<Node>)>>,
    offers: Arc<Offers>,
    waiting: Waiting,
    locks: Locks,
    removed: Removed,
    seq: AtomicU64,
    /// Locked while events are turned into invalidations, and while messages that must keep their
    /// place among them are sent.
    order: Mutex<Vec<u8>>,
    stop: OwnedFd,
    own_pid: i32,
}

/// Raises this process' limit of open descriptors as far as possible, and gives it. All programs of
/// a room have their files open in this process, and each may have as many as its own limit allows.
fn most_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.map(|maximum| maximum.max(MANY_DESCRIPTORS));
    let raised = Rlimit { current: maximum, maximum };
    // Only a privileged process may exceed the hard limit.
    let done = setrlimit(Resource::Nofile, raised)
        .or_else(|_| setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }));
    if let Err(errno) = done {
        tracing::warn!(%errno, "cannot raise the limit of open files");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(MANY_DESCRIPTORS).min(MANY_DESCRIPTORS)
}

/// The most descriptors that are used in one table, even where there is no limit.
const MANY_DESCRIPTORS: u64 = 1 << 18;

/// Locks a mutex, even if a holder panicked: critical sections are plain assignments, so the data
/// is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const EVENT_BUFFER_BYTES: usize = 32 << 10;

impl Server {
    /// Opens the exports (mount `n` of the room is `exports[n]`), and starts the threads that
    /// listen for changes. Needs root's capabilities.
    pub fn start(
        exports: &[ExportPath],
        callers: Arc<dyn Callers>,
        outlet: Arc<dyn Outlet>,
    ) -> Result<Arc<Server>, ServeError> {
        let setup = |what| move |source: rustix::io::Errno| ServeError::Setup { what, source: source.into() };
        let authority = Authority::of_this_thread().map_err(setup("reading capabilities"))?;
        // A third of the descriptors each is for names, for open files in use, and for the rest:
        // locks and the steward's own. Further open files are in vaults.
        let table = usize::try_from(most_descriptors()).unwrap_or(usize::MAX);
        let part = table / 3;
        let nodes = Nodes::new(authority, part);
        let events = Events::new();
        if let Err(errno) = &events {
            tracing::warn!(%errno, "this kernel has no fanotify with names; rooms cannot cache this home's files");
        }
        let watch = InodeMarks::new(events.ok());
        let exports = export::open_all(exports, &nodes)?;
        exports.iter().for_each(|export| watch.begin(&export.root, &export.tree));
        let stop = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).map_err(setup("eventfd"))?;
        let server = Arc::new(Server {
            exports,
            nodes,
            handles: Handles::new(part, table),
            held: HeldFiles::new(),
            callers,
            outlet,
            authority,
            watch,
            leases: Leases::new(authority, part / 2),
            breaking: Mutex::default(),
            offers: Arc::default(),
            waiting: Waiting::default(),
            locks: Locks::default(),
            removed: Removed::default(),
            seq: AtomicU64::new(0),
            order: Mutex::new(vec![0; EVENT_BUFFER_BYTES]),
            stop,
            own_pid: std::process::id() as i32,
        });
        waiting::install_signal();
        let thread = |what| move |source| ServeError::Setup { what, source };
        Leases::start(&server).map_err(thread("starting the lease keeper"))?;
        Offers::start(&server).map_err(thread("starting the thread that makes offers"))?;
        Server::start_listener(&server).map_err(thread("starting the event listener"))?;
        Server::start_held(&server).map_err(thread("starting the listener for held files"))?;
        Ok(server)
    }

    /// Ends the server's own threads and gives up all leases. Requests that wait for a lock are
    /// interrupted.
    pub fn close(&self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        self.offers.close();
        self.leases.close();
        self.waiting.interrupt_all();
        self.applied(u64::MAX);
    }

    /// Sends the invalidations of all changes at home up to now, and gives the number of the newest
    /// one. Call it before any other message to the room: the room must have applied that
    /// invalidation before a guest sees the message.
    pub fn flush_events(&self) -> u64 {
        self.drain(&mut lock(&self.order))
    }

    fn drain(&self, buf: &mut [u8]) -> u64 {
        if let Some(events) = self.watch.events() {
            loop {
                let len = events.read(buf);
                if len == 0 {
                    break;
                }
                self.send_events(&buf[..len]);
            }
        }
        self.seq.load(Ordering::Relaxed)
    }

    fn send_events(&self, mut bytes: &[u8]) {
        while let Some((event, rest)) = Event::split(bytes) {
            for (node, change) in event.changes(&self.exports, &self.nodes, self.own_pid) {
                self.emit_in_order(&node, change);
            }
            bytes = rest;
        }
    }

    /// Tells the room to forget something, and gives the number of the invalidation.
    fn emit(&self, node: &Node, change: Change) -> u64 {
        let _order = lock(&self.order);
        self.emit_in_order(node, change)
    }

    /// Tells the room to forget something; the caller holds `order`.
    fn emit_in_order(&self, node: &Node, change: Change) -> u64 {
        match change {
            Change::Name(name) => self.send_invalidation(node, What::Entry(name)),
            Change::AllNames => self.send_invalidation(node, What::AllNames),
            Change::Attr | Change::Content => {
                let named_in = std::mem::take(&mut *lock(&node.named_in));
                // Apart from hard links there is at most one directory.
                let (last, others) = named_in.split_last().map_or((0, &[][..]), |(last, others)| (*last, others));
                for &within in others {
                    self.send_invalidation(node, What::Attr { within });
                }
                let content = matches!(change, Change::Content);
                self.send_invalidation(
                    node,
                    if content { What::Content { within: last } } else { What::Attr { within: last } },
                )
            }
        }
    }

    fn send_invalidation(&self, node: &Node, what: What) -> u64 {
        let seq = self.seq.load(Ordering::Relaxed) + 1;
        node.changed.store(seq, Ordering::Relaxed);
        if matches!(what, What::Entry(_) | What::AllNames) {
            node.names_changed.store(seq, Ordering::Relaxed);
        }
        self.seq.store(seq, Ordering::Release);
        self.outlet.invalidate(seq, &Invalidation { mount: node.export, node: self.room_id(node), what });
        seq
    }

    /// Gives the id by which the room's kernel knows a node.
    fn room_id(&self, node: &Node) -> u64 {
        let is_root = std::ptr::eq(node, &*self.exports[usize::from(node.export)].root);
        if is_root { crate::proto::ROOT_ID } else { node.id }
    }

    /// Notes that the room is about to be told of a node in a directory; the caller holds `order`.
    fn note_naming(&self, dir: &Node, node: &Node) {
        let dir = self.room_id(dir);
        let mut named_in = lock(&node.named_in);
        if !named_in.contains(&dir) {
            named_in.push(dir);
        }
    }

    fn start_listener(server: &Arc<Server>) -> io::Result<()> {
        let stop = server.stop.try_clone()?;
        let weak = Arc::downgrade(server);
        let Some(events) = server.watch.events().map(Events::listener).transpose()? else { return Ok(()) };
        std::thread::Builder::new().name("home-events".into()).spawn(move || {
            while !events::wait(&events, &stop) {
                let Some(server) = weak.upgrade() else { return };
                server.flush_events();
            }
        })?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        self.offers.close();
        self.leases.close();
    }
}

/// The path of a descriptor in /proc, which opens or changes the file itself, links included,
/// without an allocation.
struct ProcPath([u8; 32]);

fn proc_path(fd: &OwnedFd) -> ProcPath {
    let mut path = [0; 32];
    // "/proc/self/fd/" and ten digits leave a NUL at the end.
    let _ = io::Write::write_fmt(&mut &mut path[..31], format_args!("/proc/self/fd/{}", fd.as_raw_fd()));
    ProcPath(path)
}

impl std::ops::Deref for ProcPath {
    type Target = CStr;
    fn deref(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}
