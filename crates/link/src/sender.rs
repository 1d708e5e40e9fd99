//! The sending direction.

use crate::records::Seal;
use crate::setup::{self, UNSENT_BYTES, let_lie, lose_after};
use crate::{Counters, LinkError, lock};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use wire::{FRAME_BYTES_MAX, Head, HeadError, Kind};

/// So often one that is patient lets others pass, for one frame.
const PATIENCE: usize = 64;

/// Sends frames; shared by threads.
pub struct Sender {
    /// Held from encrypting to the end of writing, so that records reach the socket in the order of their numbers.
    out: Mutex<Out>,
    /// Threads that wait for `out` and are in a hurry.
    hurried: AtomicUsize,
    counters: Arc<Counters>,
    /// The socket once more, for who may not wait for a sender.
    watched: Option<TcpStream>,
}

struct Out {
    socket: TcpStream,
    seal: Seal,
    /// What may lie in it unsent.
    unsent_bytes: u32,
    /// What is not written yet.
    encrypted: Vec<u8>,
    /// So many want what is sent to be written together.
    gathering: usize,
}

/// More than so much is written at once all the same.
const GATHERED_BYTES: usize = 256 << 10;

/// While it lives, what is sent over a link is kept; then it goes at once, so that the other end wakes up once.
pub struct Gathered<'a>(&'a Sender);

impl Drop for Gathered<'_> {
    fn drop(&mut self) {
        let mut out = lock(&self.0.out);
        out.gathering -= 1;
        // A link that fails is noticed by its receiver.
        if out.gathering == 0 {
            let _ = out.write();
        }
    }
}

impl Out {
    fn write(&mut self) -> Result<(), LinkError> {
        let written = self.socket.write_all(&self.encrypted);
        self.encrypted.clear();
        if self.encrypted.capacity() > 4 << 20 {
            self.encrypted = Vec::new();
        }
        written.map_err(|source| LinkError::Socket { doing: "sending", source })
    }
}

impl Sender {
    pub(crate) fn new(socket: TcpStream, seal: Seal, counters: Arc<Counters>) -> Sender {
        let watched = socket.try_clone().ok();
        let out = Mutex::new(Out { socket, seal, unsent_bytes: UNSENT_BYTES, encrypted: Vec::new(), gathering: 0 });
        Sender { out, hurried: AtomicUsize::new(0), counters, watched }
    }

    /// Keeps what is sent from now on, whoever sends it, until it is dropped; for the moment that it takes to send a little more. Who waits for an answer meanwhile waits in vain.
    pub fn gather(&self) -> Gathered<'_> {
        lock(&self.out).gathering += 1;
        Gathered(self)
    }

    /// Sends one frame whose body is `parts`, one after the other. Waits while the network is slower.
    pub fn send(&self, kind: Kind, mount: u16, seq: u64, parts: &[&[u8]]) -> Result<(), LinkError> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        let out = lock(&self.out);
        self.hurried.fetch_sub(1, Ordering::Relaxed);
        self.send_with(out, kind, mount, seq, parts)
    }

    /// The same, behind all who wait to send something else; so many bytes may lie in the socket unsent.
    pub(crate) fn send_patiently(&self, kind: Kind, parts: &[&[u8]], unsent_bytes: u32) -> Result<(), LinkError> {
        let mut out = lock(&self.out);
        for _ in 0..PATIENCE {
            if self.hurried.load(Ordering::Relaxed) == 0 {
                break;
            }
            drop(out);
            std::thread::yield_now();
            out = lock(&self.out);
        }
        if out.unsent_bytes != unsent_bytes {
            let_lie(&out.socket, unsent_bytes)
                .map_err(|source| LinkError::Socket { doing: "letting more wait", source })?;
            out.unsent_bytes = unsent_bytes;
        }
        self.send_with(out, kind, 0, 0, parts)
    }

    fn send_with(
        &self,
        mut out: MutexGuard<'_, Out>,
        kind: Kind,
        mount: u16,
        seq: u64,
        parts: &[&[u8]],
    ) -> Result<(), LinkError> {
        let bytes: usize = parts.iter().map(|p| p.len()).sum();
        if bytes > FRAME_BYTES_MAX {
            return Err(LinkError::Frame(HeadError::Size(bytes as u32)));
        }
        let head = Head { body_bytes: bytes as u32, kind, mount, seq }.encode();
        let Out { seal, encrypted, .. } = &mut *out;
        seal.seal(&head, parts, encrypted)?;
        if out.gathering == 0 || out.encrypted.len() > GATHERED_BYTES {
            out.write()?;
        }
        self.counters.count(bytes);
        Ok(())
    }

    /// What has passed, both ways.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Has a peer that is out of reach for so long count as lost, instead of [`crate::LOST_AFTER`].
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn lose_after(&self, silence: Duration) -> Result<(), LinkError> {
        lose_after(&lock(&self.out).socket, silence)
            .map_err(|source| LinkError::Socket { doing: "setting when it is lost", source })
    }

    /// For how long nothing has come from the peer's kernel, if that owes an answer.
    pub fn silence(&self) -> Option<Duration> {
        self.watched.as_ref().and_then(setup::silence)
    }

    /// Ends the connection: both ends' receivers see it closed.
    pub fn close(&self) {
        // The lock is not taken: a sender may be waiting in it for the very peer that is gone.
        if let Ok(out) = self.out.try_lock() {
            let _ = out.socket.shutdown(Shutdown::Both);
        }
    }
}
