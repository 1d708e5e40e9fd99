//! The receiving direction of a link.

use crate::records::{HEAD_BYTES, Open, RECORD_BYTES_MAX};
use crate::setup::{await_at_least, least_round_trip};
use crate::{Counters, LinkError};
use room_protocol::{Head, Kind, packed};
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use zstd::bulk::Decompressor;

/// The most encrypted bytes that one call takes from the socket. Used from the first large read on;
/// each record fits.
const CHUNK_BYTES: usize = 256 << 10;
/// The bytes of an incomplete frame for which the socket waits at once. Otherwise each segment
/// would wake the thread.
const AWAITED_BYTES: u32 = 64 << 10;
const FIRST_CHUNK_BYTES: usize = RECORD_BYTES_MAX.next_multiple_of(1 << 10);

/// The receiving end of a link.
pub struct Receiver {
    socket: TcpStream,
    open: Open,
    /// Bytes from the socket: first decrypted bytes of one record that no frame has taken yet
    /// (`plain`), then bytes that are not decrypted yet (`encrypted`).
    chunk: Box<[u8]>,
    plain: Range<usize>,
    encrypted: Range<usize>,
    /// The number of bytes for which the socket waits (SO_RCVLOWAT).
    awaited_bytes: u32,
    /// Buffer for the compressed body of a frame.
    packed: Vec<u8>,
    unpacks: Option<Decompressor<'static>>,
    counters: Arc<Counters>,
}

impl Receiver {
    pub(crate) fn new(socket: TcpStream, open: Open, counters: Arc<Counters>) -> Receiver {
        let chunk = vec![0; FIRST_CHUNK_BYTES].into_boxed_slice();
        Receiver {
            socket,
            open,
            chunk,
            plain: 0..0,
            encrypted: 0..0,
            awaited_bytes: 1,
            packed: Vec::new(),
            unpacks: None,
            counters,
        }
    }

    /// Gives the shortest round trip that the kernel has measured, without processing time at the
    /// peer; `None` if the kernel does not tell.
    pub fn least_round_trip(&self) -> Option<Duration> {
        least_round_trip(&self.socket)
    }

    /// Waits for the next frame and puts its body into `body`. The body of a compressed frame is
    /// decompressed; its header tells the size on the wire.
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
        // zstd's `ZSTD_decompressDCtx` writes no more than the capacity.
        body.reserve_exact(plain_bytes);
        let got = unpacks.decompress_to_buffer(bytes, body).map_err(|_| LinkError::Packed)?;
        if got == plain_bytes { Ok(Head { kind, ..head }) } else { Err(LinkError::Packed) }
    }

    /// Appends this many decrypted bytes to `to`.
    fn fill(&mut self, to: &mut Vec<u8>, bytes: usize) -> Result<(), LinkError> {
        to.clear();
        // A record opened in place has its type behind the content at first.
        to.reserve(bytes + 1);
        loop {
            let n = self.plain.len().min(bytes - to.len());
            to.extend_from_slice(&self.chunk[self.plain.start..][..n]);
            self.plain.start += n;
            if to.len() == bytes {
                return Ok(());
            }
            self.decrypt(to, bytes - to.len())?;
        }
    }

    /// Waits for the next record and decrypts it: directly into `to` if at least as many bytes are
    /// wanted there as the record may carry.
    fn decrypt(&mut self, to: &mut Vec<u8>, wanted: usize) -> Result<(), LinkError> {
        let record = loop {
            let come = &self.chunk[self.encrypted.clone()];
            match Open::whole_bytes(come)?.filter(|bytes| *bytes <= come.len()) {
                Some(bytes) => break self.encrypted.start..self.encrypted.start + bytes,
                None => self.read(wanted)?,
            }
        };
        self.encrypted.start = record.end;
        if self.open.carries_bytes_max(record.len()) <= wanted {
            return self.open.open_to(&self.chunk[record], to);
        }
        let at = record.start + HEAD_BYTES;
        self.plain = at..at + self.open.open(&mut self.chunk[record])?;
        Ok(())
    }

    /// Reads more bytes from the socket, behind those that are left. At least `coming` bytes are on
    /// their way.
    fn read(&mut self, coming: usize) -> Result<(), LinkError> {
        let left = self.encrypted.len();
        self.wait_for(coming.saturating_sub(left))?;
        self.chunk.copy_within(self.encrypted.clone(), 0);
        (self.plain, self.encrypted) = (0..0, 0..left);
        let n = loop {
            match self.socket.read(&mut self.chunk[left..]) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(n) => break n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(LinkError::Socket { doing: "receiving", source }),
            }
        };
        self.encrypted.end += n;
        // The call filled the buffer, so larger reads are worth while from now on.
        if self.encrypted.end == self.chunk.len() && self.chunk.len() < CHUNK_BYTES {
            let mut larger = vec![0; CHUNK_BYTES].into_boxed_slice();
            larger[..self.encrypted.end].copy_from_slice(&self.chunk);
            self.chunk = larger;
        }
        Ok(())
    }

    fn wait_for(&mut self, coming: usize) -> Result<(), LinkError> {
        // A blocked call that has taken fewer bytes than the low-water mark is only woken when as
        // many again have arrived (tcp_data_ready in net/ipv4/tcp_input.c).
        let bytes = if coming < 2 * AWAITED_BYTES as usize { 1 } else { AWAITED_BYTES };
        if bytes != self.awaited_bytes {
            await_at_least(&self.socket, bytes)
                .map_err(|source| LinkError::Socket { doing: "setting the low-water mark", source })?;
            self.awaited_bytes = bytes;
        }
        Ok(())
    }
}
