//! When a room may cache a file's content: under a lease that the server holds, or while only the room itself writes.
//!
//! A read lease is refused while anybody has the file open or mapped for writing, and when it is held, a writer's open waits until the
//! room has dropped what it cached. Leases are held while the room has the file open; between, nobody there reads the cached pages, and the
//! marks (write, close after write) drop them when somebody at home changes the file.

use super::nodes::Node;
use super::{Change, Server, lock, sys};
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::{Duration, Instant};

/// A file whose lease was broken is not leased again for this long, doubled with every break up to the longest.
const CALM: Duration = Duration::from_millis(20);
const CALM_LONGEST: Duration = Duration::from_secs(2);

#[derive(Default)]
enum Lease {
    #[default]
    None,
    Held(Arc<OwnedFd>),
    /// Somebody at home waits; the room has been told to forget and has not confirmed yet.
    Breaking(Arc<OwnedFd>),
}

/// What is known of a file's content.
#[derive(Default)]
pub(super) struct Content {
    lease: Lease,
    /// The room's read-only opens, by file handle.
    readers: Vec<(u64, Arc<OwnedFd>)>,
    /// The room's opens for writing.
    writers: u32,
    /// When the first of those writers came, somebody at home could write too.
    shared: bool,
    calm_until: Option<Instant>,
    breaks: u32,
}

impl Content {
    fn is_calm(&self) -> bool {
        self.calm_until.is_none_or(|until| Instant::now() >= until)
    }

    /// Content read now may stay in the room's cache.
    fn is_covered(&self, node: &Node) -> bool {
        match self.lease {
            Lease::Held(_) => true,
            Lease::Breaking(_) => false,
            Lease::None => self.writers > 0 && !self.shared && !node.opened_elsewhere.load(Ordering::Relaxed),
        }
    }
}

/// The thread that hears of broken leases, and what it needs to know.
pub(super) struct Leases {
    keeper_tid: AtomicI32,
    closed: AtomicBool,
    by_fd: Mutex<HashMap<RawFd, Weak<Node>>>,
    /// Nodes whose lease is given up when the room has applied this invalidation.
    breaking: Mutex<Vec<(u64, Arc<Node>)>>,
}

fn break_signal() -> i32 {
    libc::SIGRTMIN() + 4
}

impl Leases {
    pub(super) fn new() -> Leases {
        Leases {
            keeper_tid: AtomicI32::new(0),
            closed: AtomicBool::new(false),
            by_fd: Mutex::default(),
            breaking: Mutex::default(),
        }
    }

    /// No lease is taken or heard of any more; those that are held go.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let held: Vec<_> = lock(&self.by_fd).values().filter_map(Weak::upgrade).collect();
        held.iter().for_each(|node| self.give_up(&mut lock(&node.content)));
        sys::signal_thread(self.keeper_tid.load(Ordering::Relaxed), break_signal());
    }

    /// Starts the keeper; leases may be taken when this returns.
    pub(super) fn start(server: &Arc<Server>) -> std::io::Result<()> {
        let (ready, is_ready) = mpsc::channel();
        let weak = Arc::downgrade(server);
        std::thread::Builder::new().name("leases".into()).spawn(move || {
            let signals = block_signals();
            if ready.send(sys::gettid()).is_ok() {
                keep_leases(&weak, &signals);
            }
        })?;
        let tid = is_ready.recv().map_err(std::io::Error::other)?;
        server.leases.keeper_tid.store(tid, Ordering::Relaxed);
        Ok(())
    }

    fn take(&self, node: &Arc<Node>, content: &mut Content, file: &Arc<OwnedFd>) -> bool {
        if self.closed.load(Ordering::Acquire) {
            return false;
        }
        lock(&self.by_fd).insert(file.as_raw_fd(), Arc::downgrade(node));
        if sys::take_lease(file.as_fd(), self.keeper_tid.load(Ordering::Relaxed), break_signal()).is_err() {
            lock(&self.by_fd).remove(&file.as_raw_fd());
            return false;
        }
        content.lease = Lease::Held(file.clone());
        true
    }

    fn give_up(&self, content: &mut Content) {
        if let Lease::Held(file) | Lease::Breaking(file) = std::mem::take(&mut content.lease) {
            lock(&self.by_fd).remove(&file.as_raw_fd());
            sys::drop_lease(file.as_fd());
        }
    }
}

/// The keeper's signals are for it alone (F_OWNER_TID) and are only ever waited for. SIGIO comes when the queue was full.
fn block_signals() -> libc::sigset_t {
    // SAFETY: an all-zero sigset_t is a valid one to initialise; the calls only write to it and to this thread's mask.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, break_signal());
        libc::sigaddset(&raw mut set, libc::SIGIO);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    }
}

fn keep_leases(server: &Weak<Server>, signals: &libc::sigset_t) {
    loop {
        // SAFETY: both structs are valid for the call; all-zero siginfo is a valid value.
        let (signal, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            (libc::sigwaitinfo(signals, &raw mut info), info)
        };
        let Some(server) = server.upgrade() else { return };
        if server.leases.closed.load(Ordering::Acquire) {
            return;
        }
        if signal == libc::SIGIO {
            let all: Vec<_> = lock(&server.leases.by_fd).values().filter_map(Weak::upgrade).collect();
            all.iter().for_each(|node| server.look_at_lease(node));
        } else if signal > 0 {
            // `_sigpoll`: si_band (long) and si_fd (int) lie behind the three ints and their padding.
            // SAFETY: siginfo_t is 128 bytes; offset 24 is si_fd for signals sent by F_SETSIG (`asm-generic/siginfo.h`).
            let fd = unsafe { (&raw const info).cast::<u8>().add(24).cast::<i32>().read_unaligned() };
            let node = lock(&server.leases.by_fd).get(&fd).and_then(Weak::upgrade);
            node.iter().for_each(|node| server.look_at_lease(node));
        }
    }
}

impl Server {
    /// Has somebody broken this lease? Then the room must forget the content, and the lease goes when it has.
    fn look_at_lease(&self, node: &Arc<Node>) {
        let mut content = lock(&node.content);
        let Lease::Held(file) = &content.lease else { return };
        if sys::lease_is_whole(file.as_fd()) {
            return;
        }
        content.lease = Lease::Breaking(file.clone());
        let calm = CALM.saturating_mul(1 << content.breaks.min(8)).min(CALM_LONGEST);
        content.calm_until = Some(Instant::now() + calm);
        content.breaks += 1;
        // The list's lock is held across the sending, so that the room's answer finds the entry.
        let mut breaking = lock(&self.leases.breaking);
        let seq = self.emit(node, Change::Content);
        breaking.push((seq, node.clone()));
    }

    /// The room has applied all invalidations up to `seq`.
    pub fn applied(&self, seq: u64) {
        let ready: Vec<_> = lock(&self.leases.breaking).extract_if(.., |(s, _)| *s <= seq).collect();
        for (_, node) in ready {
            let mut content = lock(&node.content);
            if matches!(content.lease, Lease::Breaking(_)) {
                self.leases.give_up(&mut content);
            }
        }
    }

    /// The room opened the file read-only; false if its content must not be cached through this open.
    pub(super) fn reader_opened(&self, node: &Arc<Node>, fh: u64, file: &Arc<OwnedFd>) -> bool {
        let mut content = lock(&node.content);
        let covered = content.is_covered(node) || (node.is_watched() && self.try_lease(node, &mut content, Some(file)));
        content.readers.push((fh, file.clone()));
        covered
    }

    /// The room is about to open the file for writing (or truncate it): its own lease must not be in the way.
    /// False if the file must not be cached through that open, because somebody at home writes as well.
    pub(super) fn writer_comes(&self, node: &Arc<Node>, path_fd: &OwnedFd) -> bool {
        let mut content = lock(&node.content);
        if content.writers == 0 {
            let heard = self.hear_of_opens(node, path_fd);
            content.shared = match content.lease {
                Lease::Held(_) => !heard,
                Lease::Breaking(_) => true,
                Lease::None => !heard || !self.nobody_writes(path_fd),
            };
        }
        if matches!(content.lease, Lease::Held(_)) {
            self.leases.give_up(&mut content);
        }
        content.writers += 1;
        content.is_covered(node)
    }

    /// The room begins to write: from here on it is heard when somebody else opens the file.
    fn hear_of_opens(&self, node: &Node, path_fd: &OwnedFd) -> bool {
        node.opened_elsewhere.store(false, Ordering::Relaxed);
        node.is_watched() && self.authority.resume().is_ok() && self.watch.opens(path_fd, true)
    }

    /// A file that the room has just made is open for writing; nobody else can have it yet.
    /// False if it must not be cached all the same.
    pub(super) fn writer_made_it(&self, node: &Arc<Node>, path_fd: &OwnedFd) -> bool {
        let mut content = lock(&node.content);
        if content.writers == 0 {
            // No probe: it would break the open that made it. Somebody who opened the file in the moment since is not noticed.
            content.shared = !self.hear_of_opens(node, path_fd);
        }
        content.writers += 1;
        content.is_covered(node)
    }

    /// An open for writing ended, or came to nothing.
    pub(super) fn writer_gone(&self, node: &Arc<Node>) {
        let mut content = lock(&node.content);
        content.writers = content.writers.saturating_sub(1);
        if content.writers == 0
            && let Ok(path) = self.path(node)
            && self.authority.resume().is_ok()
        {
            self.watch.opens(&path, false);
        }
        if content.writers == 0 && !content.readers.is_empty() && !self.try_lease(node, &mut content, None) {
            self.emit(node, Change::Content);
        }
    }

    /// A read-only open ended.
    pub(super) fn reader_gone(&self, node: &Arc<Node>, fh: u64) {
        let mut content = lock(&node.content);
        content.readers.retain(|(id, _)| *id != fh);
        if content.readers.is_empty() && matches!(content.lease, Lease::Held(_)) {
            self.leases.give_up(&mut content);
        }
    }

    /// The room reads through its cache: false if what is read now must be forgotten after the reply.
    pub(super) fn may_cache_read(&self, node: &Arc<Node>) -> bool {
        let mut content = lock(&node.content);
        content.is_covered(node) || self.try_lease(node, &mut content, None)
    }

    fn try_lease(&self, node: &Arc<Node>, content: &mut Content, file: Option<&Arc<OwnedFd>>) -> bool {
        let free = matches!(content.lease, Lease::None) && content.writers == 0;
        if !free || !content.is_calm() || self.authority.resume().is_err() {
            return false;
        }
        let Some(file) = file.or(content.readers.first().map(|(_, file)| file)).cloned() else { return false };
        self.leases.take(node, content, &file)
    }

    /// A lease would be granted: nobody has the file open or mapped for writing.
    fn nobody_writes(&self, path_fd: &OwnedFd) -> bool {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOATIME;
        let probe = self.authority.resume().and_then(|()| super::nodes::reopen(path_fd, flags));
        probe.is_ok_and(|file| sys::take_lease(file.as_fd(), self.leases.keeper_tid.load(Ordering::Relaxed), 0).is_ok())
    }
}
