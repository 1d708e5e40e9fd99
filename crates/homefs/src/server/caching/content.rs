//! When a room may cache a file's content: under a lease of the server, or while only the room
//! itself writes.
//!
//! The kernel refuses a read lease while anybody has the file open or mapped for writing. While the
//! lease is held, the open of a writer waits until the room has dropped its cache. Leases are held
//! while the room has the file open. Between, no process there reads the cached pages, and the
//! marks (write, close after write) drop them when a process at home changes the file.

use crate::server::Server;
use crate::server::state::content::{Content, Lease};
use crate::server::state::events::Change;
use crate::server::state::mutex::lock;
use crate::server::state::nodes::{Node, reopen};
use rustix::fs::OFlags;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Server {
    /// Checks whether a process waits for the lease. If so, the room is told to forget the content,
    /// and the lease is given up after that.
    pub(crate) fn look_at_lease(&self, node: &Arc<Node>) {
        let mut content = lock(&node.content);
        let Lease::Held(lease) = &content.lease else { return };
        if lease.is_whole() {
            return;
        }
        content.lease = Lease::Breaking(lease.clone());
        content.broken();
        // The lock is held during the sending, so that the room's answer finds the entry.
        let mut breaking = lock(&self.breaking);
        let seq = self.emit(node, Change::Content);
        breaking.push((seq, node.clone()));
    }

    /// Notes that the room has applied all invalidations up to `seq`.
    pub fn applied(&self, seq: u64) {
        let ready: Vec<_> = lock(&self.breaking).extract_if(.., |(s, _)| *s <= seq).collect();
        for (_, node) in ready {
            let mut content = lock(&node.content);
            if matches!(content.lease, Lease::Breaking(_)) {
                self.give_up(&mut content);
            }
        }
    }

    /// Notes that the room has opened the file read-only. Returns false if the content must not be
    /// cached through this open.
    pub(crate) fn reader_opened(&self, node: &Arc<Node>, fh: u64, file: &Arc<OwnedFd>) -> bool {
        let mut content = lock(&node.content);
        let covered = content.is_covered(node.is_opened_elsewhere())
            || (node.is_watched() && self.try_lease(node, &mut content, Some(file)));
        content.readers.push(fh);
        covered
    }

    /// Prepares for an open for writing (or a truncation) by the room: the server's own lease must
    /// not be in the way. Returns false if the file must not be cached through that open, because a
    /// process at home writes as well.
    pub(crate) fn writer_comes(&self, node: &Arc<Node>, path_fd: &OwnedFd) -> bool {
        let mut content = lock(&node.content);
        if content.writers == 0 {
            let heard = self.hear_of_opens(node, path_fd);
            content.shared = match content.lease {
                Lease::Held(_) => !heard,
                Lease::Breaking(_) => true,
                Lease::None => !heard || !(self.is_arriving(path_fd) || self.nobody_writes(path_fd)),
            };
        }
        if matches!(content.lease, Lease::Held(_)) {
            self.end_lease(node, &mut content);
        }
        content.writers += 1;
        content.is_covered(node.is_opened_elsewhere())
    }

    /// Starts to listen for opens of the file by others, because the room begins to write.
    fn hear_of_opens(&self, node: &Node, path_fd: &OwnedFd) -> bool {
        node.opened_elsewhere.store(false, Ordering::Relaxed);
        node.is_watched() && self.authority.with_own_rights(|| self.watch.opens(path_fd, true)) == Ok(true)
    }

    /// Notes that a file that the room has just made is open for writing. No other process can have
    /// it yet. Returns false if it must not be cached all the same.
    pub(crate) fn writer_made_it(&self, node: &Arc<Node>, path_fd: &OwnedFd) -> bool {
        let mut content = lock(&node.content);
        if content.writers == 0 {
            // No probe: it would break the open that made the file. An open by another process in
            // the moment since is missed.
            content.shared = !self.hear_of_opens(node, path_fd);
        }
        content.writers += 1;
        content.is_covered(node.is_opened_elsewhere())
    }

    /// Notes that an open for writing has ended, or has failed.
    pub(crate) fn writer_gone(&self, node: &Arc<Node>) {
        let mut content = lock(&node.content);
        content.writers = content.writers.saturating_sub(1);
        if content.writers == 0
            && let Ok(path) = self.path(node)
        {
            let _ = self.authority.with_own_rights(|| self.watch.opens(&path, false));
        }
        if content.writers == 0 && !content.readers.is_empty() && !self.try_lease(node, &mut content, None) {
            self.emit(node, Change::Content);
        }
    }

    /// Notes that a read-only open has ended.
    pub(crate) fn reader_gone(&self, node: &Arc<Node>, fh: u64) {
        let mut content = lock(&node.content);
        content.readers.retain(|id| *id != fh);
        if content.readers.is_empty() && matches!(content.lease, Lease::Held(_)) {
            self.end_lease(node, &mut content);
        }
    }

    /// Ends the lease without telling the room to forget.
    fn end_lease(&self, node: &Node, content: &mut Content) {
        if std::mem::take(&mut content.offered) {
            self.withdraw(node);
        }
        self.give_up(content);
    }

    fn give_up(&self, content: &mut Content) {
        if let Lease::Held(lease) | Lease::Breaking(lease) = std::mem::take(&mut content.lease) {
            self.leases.release(&lease);
        }
    }

    /// Tells whether the room may cache what it reads now. If not, it must be told to forget after
    /// the reply.
    pub(crate) fn may_cache_read(&self, node: &Arc<Node>) -> bool {
        let mut content = lock(&node.content);
        content.is_covered(node.is_opened_elsewhere()) || self.try_lease(node, &mut content, None)
    }

    fn try_lease(&self, node: &Arc<Node>, content: &mut Content, file: Option<&Arc<OwnedFd>>) -> bool {
        let free = matches!(content.lease, Lease::None) && content.writers == 0;
        if !free || !content.is_calm() {
            return false;
        }
        let open = || self.handles.get(*content.readers.first()?, node.id).ok().map(|open| open.file.clone());
        let Some(file) = file.cloned().or_else(open) else { return false };
        let taken = self.authority.with_own_rights(|| self.leases.take(node, &file));
        let Ok(Some(lease)) = taken else { return false };
        content.lease = Lease::Held(lease);
        content.leases += 1;
        self.offers.leased(node, &file);
        true
    }

    /// Tells whether no process has the file open or mapped for writing, so that a lease would be
    /// granted.
    fn nobody_writes(&self, path_fd: &OwnedFd) -> bool {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOATIME;
        let probe = || reopen(path_fd, flags).is_ok_and(|file| self.leases.probe(&file, 0));
        self.authority.with_own_rights(probe) == Ok(true)
    }
}
