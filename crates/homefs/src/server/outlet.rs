//! The server's way to the room.

use crate::invalidation::Invalidation;
use crate::offer::Offer;
use crate::server::FileId;

/// The connection to the room. Messages must arrive in the order of the calls.
pub trait Outlet: Send + Sync {
    /// Sends a reply to the room's kernel; `seq` is the number of the newest invalidation sent
    /// before it.
    fn reply(&self, mount: u16, bytes: &[u8], seq: u64);
    /// Sends the reply to a request that the room has answered itself: nobody waits for it.
    fn report(&self, mount: u16, bytes: &[u8], seq: u64) {
        self.reply(mount, bytes, seq);
    }
    /// Sends invalidation number `seq` (from 1, without gaps).
    fn invalidate(&self, seq: u64, invalidation: &Invalidation);
    /// Sends an offer; `seq` is the number of the newest invalidation when it was made.
    fn offer(&self, seq: u64, offer: &Offer);
    /// Tells that a process at home waits for this file, which is held for the room
    /// ([`super::Server::hold`]).
    fn wanted(&self, file: FileId);
}
