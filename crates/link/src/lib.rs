//! An encrypted stream of frames over a TCP socket, for threads that block.
//!
//! Any number of threads may share a [`Sender`]; the [`Receiver`] belongs to one thread at a time.
//! The two directions share no lock that is held during network I/O, so two ends that both send
//! much cannot block each other. A sender of bulk data ([`Bulk`]) lets other threads' frames pass.

mod bodies;
mod bulk;
mod handshake;
mod posts;
mod receiver;
mod records;
mod schedule;
mod sender;
mod setup;

pub use bodies::{Bodies, Body};
pub use bulk::Bulk;
pub use receiver::Receiver;
pub use sender::{Gathered, Sender};
pub use setup::{accept, connect};

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thiserror::Error;

/// The time without contact after which a link counts as lost, unless [`Sender::lose_after`] sets
/// another. Bodies pause until then.
pub const LOST_AFTER: Duration = Duration::from_secs(15);

/// A failure of a link. Every error ends the link.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The socket failed.
    #[error("{doing}: {source}")]
    Socket {
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The peer failed to authenticate, or broke the TLS protocol.
    #[error("the encrypted connection was refused: {0}")]
    Tls(#[from] rustls::Error),
    /// The peer sent a malformed frame.
    #[error("malformed frame: {0}")]
    Frame(#[from] room_protocol::HeadError),
    /// The content of a compressed frame contradicts its header.
    #[error("malformed compressed frame")]
    Packed,
    /// The peer closed the connection.
    #[error("the other end closed the connection")]
    Closed,
}

/// Counts of the traffic on a link, in both directions.
#[derive(Debug, Default)]
pub struct Counters {
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    fn count(&self, body_bytes: usize) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add((body_bytes + room_protocol::Head::BYTES) as u64, Ordering::Relaxed);
    }

    /// Gives the number of frames.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Gives the number of bytes before encryption.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A thread that panicked while it encrypted leaves at worst a broken stream, which the peer
    // refuses.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
