//! The receiving direction.

use crate::setup::least_round_trip;
use crate::{Counters, LinkError, Tls, lock};
use rustls::IoState;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use wire::{Head, Kind, packed};
use zstd::bulk::Decompressor;

/// Encrypted bytes taken from the socket at once: from the first time on that there is more than little.
const CHUNK_BYTES: usize = 256 << 10;
const FIRST_CHUNK_BYTES: usize = 16 << 10;

/// Receives frames.
pub struct Receiver {
    socket: TcpStream,
    tls: Arc<Tls>,
    chunk: Box<[u8]>,
    /// Decrypted bytes that no frame has taken yet: from `taken`.
    plain: Vec<u8>,
    taken: usize,
    /// For packed frames.
    packed: Vec<u8>,
    unpacks: Option<Decompressor<'static>>,
    counters: Arc<Counters>,
}

impl Receiver {
    pub(crate) fn new(socket: TcpStream, tls: Arc<Tls>, counters: Arc<Counters>) -> Receiver {
        let chunk = vec![0; FIRST_CHUNK_BYTES].into_boxed_slice();
        Receiver { socket, tls, chunk, plain: Vec::new(), taken: 0, packed: Vec::new(), unpacks: None, counters }
    }

    /// How long the way there and back takes at least, whatever the other end does with what it gets; if the kernel says so.
    pub fn least_round_trip(&self) -> Option<Duration> {
        least_round_trip(&self.socket)
    }

    /// Waits for the next frame and puts its body into `body`; a packed one is unpacked, and its header says how large it was on the wire.
    pub fn receive(&mut self, body: &mut Vec<u8>) -> Result<Head, LinkError> {
        let mut head = [0; Head::BYTES];
        self.fill(Head::BYTES)?;
        head.copy_from_slice(&self.plain[self.taken..self.taken + Head::BYTES]);
        let head = Head::decode(&head)?;
        let bytes = head.body_bytes as usize;
        self.taken += Head::BYTES;
        body.clear();
        body.reserve(bytes);
        while body.len() < bytes {
            if self.taken == self.plain.len() {
                self.fill(1)?;
            }
            let n = (bytes - body.len()).min(self.plain.len() - self.taken);
            body.extend_from_slice(&self.plain[self.taken..self.taken + n]);
            self.taken += n;
        }
        self.counters.count(bytes);
        if head.kind == Kind::Packed { self.unpack(head, body) } else { Ok(head) }
    }

    fn unpack(&mut self, head: Head, body: &mut Vec<u8>) -> Result<Head, LinkError> {
        std::mem::swap(&mut self.packed, body);
        let (kind, plain_bytes, bytes) = packed::read(&self.packed).ok_or(LinkError::Packed)?;
        let unpacks = match &mut self.unpacks {
            Some(unpacks) => unpacks,
            none => none.insert(Decompressor::new().map_err(|_| LinkError::Packed)?),
        };
        body.clear();
        // No more is written than there is place for (zstd's `ZSTD_decompressDCtx`).
        body.reserve_exact(plain_bytes);
        let got = unpacks.decompress_to_buffer(bytes, body).map_err(|_| LinkError::Packed)?;
        if got == plain_bytes { Ok(Head { kind, ..head }) } else { Err(LinkError::Packed) }
    }

    /// Until `bytes` decrypted bytes lie ready.
    fn fill(&mut self, bytes: usize) -> Result<(), LinkError> {
        while self.plain.len() - self.taken < bytes {
            if self.taken == self.plain.len() {
                self.plain.clear();
                self.taken = 0;
            } else if self.taken > CHUNK_BYTES {
                self.plain.drain(..self.taken);
                self.taken = 0;
            }
            if self.decrypt_pending()? {
                continue;
            }
            let n = match self.socket.read(&mut self.chunk) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(n) => n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(LinkError::Socket { doing: "receiving", source }),
            };
            self.decrypt(n)?;
            if n == self.chunk.len() && n < CHUNK_BYTES {
                self.chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
            }
        }
        Ok(())
    }

    /// What the handshake left behind in the TLS layer.
    fn decrypt_pending(&mut self) -> Result<bool, LinkError> {
        let mut tls = lock(&self.tls);
        let state = tls.process_new_packets()?;
        let before = self.plain.len();
        take_plain(&mut tls, &state, &mut self.plain)?;
        Ok(self.plain.len() > before)
    }

    fn decrypt(&mut self, bytes: usize) -> Result<(), LinkError> {
        let mut rest = &self.chunk[..bytes];
        let mut tls = lock(&self.tls);
        while !rest.is_empty() {
            tls.read_tls(&mut rest).map_err(|source| LinkError::Socket { doing: "decrypting", source })?;
            let state = tls.process_new_packets()?;
            take_plain(&mut tls, &state, &mut self.plain)?;
            if state.peer_has_closed() {
                return Err(LinkError::Closed);
            }
        }
        Ok(())
    }
}

fn take_plain(tls: &mut rustls::Connection, state: &IoState, plain: &mut Vec<u8>) -> Result<(), LinkError> {
    let n = state.plaintext_bytes_to_read();
    let from = plain.len();
    plain.resize(from + n, 0);
    tls.reader().read_exact(&mut plain[from..]).map_err(|source| LinkError::Socket { doing: "decrypting", source })
}
