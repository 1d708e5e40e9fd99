//! One encrypted stream of frames over a TCP socket, for threads that block.
//!
//! A [`Sender`] may be shared by any number of threads; the [`Receiver`] belongs to one at a time. The two directions share nothing that is held while one waits for the network, so two
//! ends that both send much cannot block each other. Who sends much ([`Bulk`]) lets others pass.

mod bodies;
mod bulk;
mod handshake;
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

/// How long a peer may be out of reach before the link counts as lost, unless [`Sender::lose_after`] says otherwise:
/// bodies pause so long.
pub const LOST_AFTER: Duration = Duration::from_secs(15);

/// What can go wrong on a link. Every error ends it.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The socket failed.
    #[error("{doing}: {source}")]
    Socket {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The peer is not who it must be, or spoke nonsense on the encrypted layer.
    #[error("encrypted connection refused: {0}")]
    Tls(#[from] rustls::Error),
    /// The peer sent a frame that is none.
    #[error("malformed frame: {0}")]
    Frame(#[from] wire::HeadError),
    /// A packed frame holds something else than it says.
    #[error("malformed packed frame")]
    Packed,
    /// The peer closed the connection.
    #[error("the other end closed the connection")]
    Closed,
}

/// What has passed on a link, both ways.
#[derive(Debug, Default)]
pub struct Counters {
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    fn count(&self, body_bytes: usize) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add((body_bytes + wire::Head::BYTES) as u64, Ordering::Relaxed);
    }

    /// Frames.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Bytes before encryption.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A thread that panicked while encrypting leaves at worst a broken stream, which the peer refuses.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
