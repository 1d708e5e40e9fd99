//! Replies that are not given at once.

use super::mount::Mount;
use std::sync::Arc;

/// A reply that must wait for something else.
pub struct LateReply {
    pub(super) mount: Arc<Mount>,
    pub(super) bytes: Vec<u8>,
}

impl std::fmt::Debug for LateReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LateReply({} bytes)", self.bytes.len())
    }
}

impl LateReply {
    /// Gives the reply to the room's kernel.
    pub fn give(self) {
        drop(self);
    }
}

impl Drop for LateReply {
    /// Gives the reply, even if what had to come before failed: the requester waits where no signal
    /// ends the wait.
    fn drop(&mut self) {
        self.mount.write(&self.bytes);
    }
}
