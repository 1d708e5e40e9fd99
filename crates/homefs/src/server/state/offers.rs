//! The queue of files to hash and offer.

use super::mutex::lock;
use super::nodes::Node;
use crate::digest::{Version, WORTHWHILE_BYTES};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

/// The most files that wait to be hashed; further files are not offered.
const MOST_QUEUED: usize = 256;

#[derive(Default)]
struct Queue {
    nodes: VecDeque<Weak<Node>>,
    closed: bool,
}

/// Files to offer.
#[derive(Default)]
pub(crate) struct Offers {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Offers {
    /// Queues the file of a new lease for hashing.
    pub(crate) fn leased(&self, node: &Arc<Node>, file: &OwnedFd) {
        if !Version::of(file).is_ok_and(|version| WORTHWHILE_BYTES.contains(&version.size_bytes)) {
            return;
        }
        let mut queue = lock(&self.queue);
        if queue.nodes.len() < MOST_QUEUED {
            queue.nodes.push_back(Arc::downgrade(node));
            self.changed.notify_one();
        }
    }

    /// Ends the offering.
    pub(crate) fn close(&self) {
        lock(&self.queue).closed = true;
        self.changed.notify_all();
    }

    /// Tells whether nothing is to be offered any more.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.queue).closed
    }

    /// Waits for the next file; `None` after [`Offers::close`].
    pub(crate) fn next(&self) -> Option<Weak<Node>> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            if let Some(node) = queue.nodes.pop_front() {
                return Some(node);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
