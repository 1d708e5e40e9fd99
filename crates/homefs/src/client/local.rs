//! Reading home's files from equal files of the hosting node.
//!
//! Home offers the content of files on which it holds a lease. If this node has a file of the same
//! size and hash at the same path, the room's reads are answered from it, until home reports that
//! its file may change, or the node's own file has changed.
//!
//! Home is not trusted. An offer makes this node compare a hash with a file that any of its users
//! may read (the comparing thread has nobody's rights, and opens only regular files). Home can
//! learn from the missing reads whether the two were the same.

use crate::digest::{self, Digests, Version, WORTHWHILE_BYTES};
use crate::offer::{Content, Offer};
use crate::proto::{MAX_IO_BYTES, ReadIn, ReplyBuf, Request};
use crate::sys;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::lock;

/// The most offers that are kept, including marks. Each mark has a descriptor.
const MOST_KEPT: usize = 1024;
/// The user and group that own nothing.
const NOBODY: u32 = 65534;

/// The mount and node of a file.
type Key = (u16, u64);

enum OfferState {
    /// Offered under this number, and not compared yet.
    Offered(u64),
    Equal(Arc<Equal>),
}

/// A file of this node with the same content as home's.
pub(super) struct Equal {
    file: File,
    version: Version,
}

/// An offer to compare.
struct Task {
    key: Key,
    number: u64,
    seq: u64,
    content: Content,
}

#[derive(Default)]
struct Table {
    states: HashMap<Key, OfferState>,
    tasks: VecDeque<Task>,
    last: u64,
    closed: bool,
}

/// The files of one room that are read from this node's own files.
pub(super) struct Locals {
    /// The directory in which home's paths are looked up.
    root: OwnedFd,
    table: Mutex<Table>,
    changed: Condvar,
    bytes: AtomicU64,
}

impl Locals {
    pub(super) fn new(root: OwnedFd) -> Locals {
        Locals { root, table: Mutex::default(), changed: Condvar::new(), bytes: AtomicU64::new(0) }
    }

    /// Gives the number of bytes that did not cross the network.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn offer(&self, seq: u64, offer: Offer) {
        let key = (offer.mount, offer.node);
        let mut table = lock(&self.table);
        table.states.remove(&key);
        let Some(content) = offer.content else { return };
        if table.closed || table.states.len() >= MOST_KEPT || table.tasks.len() >= MOST_KEPT {
            return;
        }
        table.last += 1;
        let number = table.last;
        table.states.insert(key, OfferState::Offered(number));
        table.tasks.push_back(Task { key, number, seq, content });
        self.changed.notify_one();
    }

    /// Forgets the offer for this node. Reads that are being answered from it come before anything
    /// that follows: the kernel forgets no page before the read of it has ended.
    pub(super) fn forget(&self, mount: u16, node: u64) {
        lock(&self.table).states.remove(&(mount, node));
    }

    pub(super) fn close(&self) {
        let mut table = lock(&self.table);
        table.closed = true;
        table.states.clear();
        table.tasks.clear();
        self.changed.notify_all();
    }

    /// Builds the reply to a READ from a file of this node. Returns false if home must be asked.
    pub(super) fn read(&self, mount: u16, request: &Request<'_>, reply: &mut ReplyBuf) -> bool {
        let key = (mount, request.header.nodeid);
        let equal = match lock(&self.table).states.get(&key) {
            Some(OfferState::Equal(equal)) => equal.clone(),
            _ => return false,
        };
        let Ok(read) = request.args().take::<ReadIn>() else { return false };
        let left_bytes = equal.version.size_bytes.saturating_sub(read.offset);
        let len = left_bytes.min(u64::from(read.size)).min(MAX_IO_BYTES as u64) as usize;
        reply.clear();
        let filled = reply.fill(len, |space| equal.file.read_exact_at(space, read.offset).map(|()| len));
        // The version is checked after the read: data that was read before a change is what the
        // file was.
        if filled.is_err() || Version::of(&equal.file) != Ok(equal.version) {
            tracing::debug!(mount, node = key.1, "this node's own file has changed; reads go to home");
            self.forget(key.0, key.1);
            return false;
        }
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        true
    }

    /// Compares offers as they arrive, until [`Locals::close`]. `wait_applied` waits until the room
    /// has forgotten what it had to forget when the offer was made: guests must not see the content
    /// before that.
    pub(super) fn serve(&self, wait_applied: impl Fn(u64)) {
        if let Err(errno) = sys::set_ids(NOBODY, NOBODY, &[]) {
            tracing::warn!(%errno, "cannot start a thread with nobody's rights; all files are read from home");
            return self.close();
        }
        sys::let_others_first();
        sys::block_signal(libc::SIGIO);
        let mut digests = Digests::default();
        while let Some(task) = self.next() {
            let found = self.find(&task, &mut digests).unwrap_or_else(|error| {
                tracing::debug!(node = task.key.1, %error, "this node has no such file");
                None
            });
            if found.is_some() {
                wait_applied(task.seq);
            }
            self.settle(&task, found);
        }
    }

    fn next(&self) -> Option<Task> {
        let mut table = lock(&self.table);
        loop {
            if table.closed {
                return None;
            }
            if let Some(task) = table.tasks.pop_front() {
                return Some(task);
            }
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_wanted(&self, task: &Task) -> bool {
        matches!(lock(&self.table).states.get(&task.key), Some(OfferState::Offered(number)) if *number == task.number)
    }

    fn settle(&self, task: &Task, found: Option<Equal>) {
        let mut table = lock(&self.table);
        if !matches!(table.states.get(&task.key), Some(OfferState::Offered(number)) if *number == task.number) {
            return;
        }
        match found {
            Some(equal) => {
                let path = String::from_utf8_lossy(&task.content.path);
                tracing::debug!(node = task.key.1, %path, "the file is read from this node");
                table.states.insert(task.key, OfferState::Equal(Arc::new(equal)));
            }
            None => drop(table.states.remove(&task.key)),
        }
    }

    fn find(&self, task: &Task, digests: &mut Digests) -> io::Result<Option<Equal>> {
        let (size_bytes, hash) = (task.content.size_bytes, task.content.hash);
        if !self.is_wanted(task) || !WORTHWHILE_BYTES.contains(&size_bytes) {
            return Ok(None);
        }
        // O_PATH, because opening may have effects on a device.
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = rustix::fs::openat2(&self.root, &task.content.path[..], flags, Mode::empty(), resolve)?;
        let version = Version::of(&path)?;
        if version.size_bytes != size_bytes || !version.is_settled() || !digest::tells_of_changes(&path) {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(format!("/proc/self/fd/{}", path.as_raw_fd()), flags, Mode::empty())?;
        // A lease is refused while anybody may write, also through a mapping.
        sys::take_lease(file.as_fd(), sys::gettid(), libc::SIGIO)?;
        let _ = sys::drop_lease(file.as_fd());
        let file = File::from(file);
        let is_equal = digests.of(&file, &version, || self.is_wanted(task))? == Some(hash);
        Ok(is_equal.then_some(Equal { file, version }))
    }
}
