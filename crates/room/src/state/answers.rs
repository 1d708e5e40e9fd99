//! Answers to requests of the room's kernel, over a `/dev/fuse`.

use homefs::proto::{self, ReplyBuf};
use std::os::fd::OwnedFd;
use zerocopy::{Immutable, IntoBytes};

/// The device of a FUSE connection.
#[derive(Debug)]
pub struct Answers(pub OwnedFd);

impl Answers {
    /// Answers a request, or notifies.
    pub fn reply(&self, bytes: &[u8]) {
        // ENOENT: the request was interrupted or its caller died; nobody waits.
        if let Err(e) = rustix::io::write(&self.0, bytes)
            && e != rustix::io::Errno::NOENT
        {
            tracing::warn!("answering a request of the room's kernel: {e}");
        }
    }

    /// Ends a request with this error, or 0.
    pub fn error(&self, unique: u64, errno: i32) {
        self.reply(&proto::status(unique, errno));
    }

    /// Answers a request with a structure.
    pub fn value<T: IntoBytes + Immutable>(&self, unique: u64, value: &T) {
        let mut reply = ReplyBuf::default();
        reply.clear();
        reply.push(value);
        self.reply(reply.finish(unique));
    }

    /// Answers a request with bytes.
    pub fn bytes(&self, unique: u64, bytes: &[u8]) {
        let mut reply = ReplyBuf::default();
        reply.clear();
        reply.extend(bytes);
        self.reply(reply.finish(unique));
    }
}
