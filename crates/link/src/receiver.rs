//! The receiving direction.

use crate::setup::least_round_trip;
use crate::{Counters, LinkError, Tls, lock};
use std::io::{BufRead, ErrorKind, Read};
use std::net::TcpStream;
use std::ops::Range;
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
    /// Bytes of the socket's, of which these were not decrypted yet. What was, and no frame has taken, is kept by the TLS layer.
    chunk: Box<[u8]>,
    encrypted: Range<usize>,
    /// For packed frames.
    packed: Vec<u8>,
    unpacks: Option<Decompressor<'static>>,
    counters: Arc<Counters>,
}

impl Receiver {
    pub(crate) fn new(socket: TcpStream, tls: Arc<Tls>, counters: Arc<Counters>) -> Receiver {
        let chunk = vec![0; FIRST_CHUNK_BYTES].into_boxed_slice();
        Receiver { socket, tls, chunk, encrypted: 0..0, packed: Vec::new(), unpacks: None, counters }
    }

    /// How long the way there and back takes at least, whatever the other end does with what it gets; if the kernel says so.
    pub fn least_round_trip(&self) -> Option<Duration> {
        least_round_trip(&self.socket)
    }

    /// Waits for the next frame and puts its body into `body`; a packed one is unpacked, and its header says how large it was on the wire.
    pub fn receive(&mut self, body: &mut Vec<u8>) -> Result<Head, LinkError> {
        let mut head = [0; Head::BYTES];
        self.fill(body, Head::BYTES)?;
        head.copy_from_slice(body);
        let head = Head::decode(&head)?;
        let bytes = head.body_bytes as usize;
        self.fill(body, bytes)?;
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

    /// Takes so many decrypted bytes.
    fn fill(&mut self, to: &mut Vec<u8>, bytes: usize) -> Result<(), LinkError> {
        to.clear();
        to.reserve(bytes);
        while !self.take(to, bytes)? {
            let n = match self.socket.read(&mut self.chunk) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(source) => return Err(LinkError::Socket { doing: "receiving", source }),
            };
            self.encrypted = 0..n;
        }
        Ok(())
    }

    /// Of what has come: whether `to` is as long now as it is to be. If not, nothing is left.
    fn take(&mut self, to: &mut Vec<u8>, bytes: usize) -> Result<bool, LinkError> {
        let failed = |source| LinkError::Socket { doing: "decrypting", source };
        let mut tls = lock(&self.tls);
        loop {
            // Only when nothing is left of it does the TLS layer take more.
            while to.len() < bytes {
                let mut reader = tls.reader();
                let n = match reader.fill_buf() {
                    Ok([]) => return Err(LinkError::Closed),
                    Ok(plain) => {
                        let n = plain.len().min(bytes - to.len());
                        to.extend_from_slice(&plain[..n]);
                        n
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) => return Err(failed(e)),
                };
                reader.consume(n);
            }
            if to.len() >= bytes {
                return Ok(true);
            }
            let mut rest = &self.chunk[self.encrypted.clone()];
            if rest.is_empty() {
                break;
            }
            self.encrypted.start += tls.read_tls(&mut rest).map_err(failed)?;
            tls.process_new_packets()?;
        }
        // All of it was taken: more is to be had at once from now on.
        if self.encrypted.end == self.chunk.len() && self.chunk.len() < CHUNK_BYTES {
            self.chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
        }
        self.encrypted = 0..0;
        Ok(false)
    }
}
