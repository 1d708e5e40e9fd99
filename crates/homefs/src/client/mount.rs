//! One mount of the room: what its kernel is told.

use super::order::NameAction;
use super::readers::Readers;
use super::{UnderWay, lock};
use crate::invalidation::{Invalidation, What};
use crate::proto::{self, Opcode, Request};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file system of home as the room has mounted it.
pub(super) struct Mount {
    pub(super) device: OwnedFd,
    /// The requests under way, by their `unique`.
    pub(super) under_way: Mutex<HashMap<u64, UnderWay>>,
    pub(super) epoch: AtomicBool,
    pub(super) readers: Readers,
}

impl Mount {
    pub(super) fn new(device: OwnedFd) -> Mount {
        Mount { device, under_way: Mutex::default(), epoch: AtomicBool::new(false), readers: Readers::default() }
    }

    pub(super) fn write(&self, bytes: &[u8]) {
        self.give(bytes);
    }

    /// Fails a request that could not be served: the requester waits where no signal ends the wait.
    pub(super) fn fail(&self, bytes: &[u8]) {
        if let Ok(request) = Request::parse(bytes)
            && !request.opcode.is_some_and(Opcode::is_one_way)
        {
            lock(&self.under_way).remove(&request.header.unique);
            self.write(&proto::status(request.header.unique, libc::EIO));
        }
    }

    /// Writes bytes to the kernel. Returns whether the kernel has taken them.
    pub(super) fn give(&self, bytes: &[u8]) -> bool {
        // ENOENT: the requester was killed meanwhile, or the kernel does not know the node of a
        // notification.
        match rustix::io::write(self.device.as_fd(), bytes) {
            Ok(_) => return true,
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV | rustix::io::Errno::PERM) => {}
            Err(errno) => tracing::warn!(%errno, bytes = bytes.len(), "the kernel refused a reply or notification"),
        }
        false
    }

    /// Waits until the kernel has processed all replies to lookups and listings in this directory
    /// that it has received.
    pub(super) fn let_settle(&self, directory: u64) {
        if directory != 0 {
            // No file has this name, but looking for it takes the directory's lock.
            self.write(&proto::notify_inval_entry(directory, b"/", 0));
        }
    }

    pub(super) fn apply(&self, invalidation: &Invalidation, turn: NameAction) {
        let node = invalidation.node;
        match &invalidation.what {
            What::Attr { within } => {
                self.let_settle(*within);
                self.write(&proto::notify_inval_attr(node));
            }
            What::Content { within } => {
                self.let_settle(*within);
                self.write(&proto::notify_inval_content(node));
            }
            What::Entry(name) => {
                // Without EXPIRE_ONLY: a revalidation that has its reply but has not processed it
                // would make the name valid again.
                if turn != NameAction::Keep {
                    self.write(&proto::notify_inval_entry(node, name, 0));
                }
                // A name that the kernel does not know would leave the cached listing and times of
                // the directory alone, so they are forgotten separately.
                self.write(&proto::notify_inval_content(node));
            }
            What::AllNames if self.epoch.load(Ordering::Relaxed) => self.write(&proto::notify_inc_epoch()),
            What::AllNames => tracing::error!("this kernel cannot forget all names at once (Linux 6.16 can)"),
        }
    }
}
