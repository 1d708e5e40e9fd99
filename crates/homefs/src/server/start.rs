//! Starting a server and its threads, and ending them.

use super::base::server::Server;
use super::error::ServeError;
use super::outlet::Outlet;
use super::state::creds::{Authority, Callers};
use super::state::events::{self, Events, InodeMarks};
use super::state::export::{self, Export};
use super::state::handles::Handles;
use super::state::held::HeldFiles;
use super::state::leases::Leases;
use super::state::locks::Locks;
use super::state::nodes::Nodes;
use super::state::removed::Removed;
use super::state::waiting::{self, Waiting};
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, mpsc};

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

/// Bytes of events that are read at once.
const EVENT_BUFFER_BYTES: usize = 32 << 10;

impl Server {
    /// Opens the exports (mount `n` of the room is `exports[n]`), and starts the threads that
    /// listen for changes. Needs root's capabilities.
    pub fn start(
        exports: &[Export],
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
            leases: Arc::new(Leases::new(authority, part / 2)),
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
        Server::start_leases(&server).map_err(thread("starting the lease keeper"))?;
        Server::start_offers(&server).map_err(thread("starting the thread that makes offers"))?;
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

    /// Starts the keeper of the leases, and the thread that tells the room of broken ones.
    fn start_leases(server: &Arc<Server>) -> io::Result<()> {
        let (tell, broken) = mpsc::channel();
        let weak = Arc::downgrade(server);
        std::thread::Builder::new().name("lease-news".into()).spawn(move || {
            for node in broken {
                let Some(server) = weak.upgrade() else { return };
                server.look_at_lease(&node);
            }
        })?;
        server.leases.start(tell)
    }

    /// Starts the thread that sends invalidations while nothing else is sent.
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
