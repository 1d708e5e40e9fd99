//! The sending direction.

use crate::{Counters, LinkError, Tls, lock};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use wire::{FRAME_BYTES_MAX, Head, HeadError, Kind};

/// Sends frames; shared by threads.
pub struct Sender {
    tls: Arc<Tls>,
    /// Held from encrypting to the end of writing, so that records reach the socket in the order of their numbers.
    out: Mutex<Out>,
    counters: Arc<Counters>,
}

struct Out {
    socket: TcpStream,
    encrypted: Vec<u8>,
}

impl Sender {
    pub(crate) fn new(socket: TcpStream, tls: Arc<Tls>, counters: Arc<Counters>) -> Sender {
        Sender { tls, out: Mutex::new(Out { socket, encrypted: Vec::new() }), counters }
    }

    /// Sends one frame whose body is `parts`, one after the other. Waits while the network is slower.
    pub fn send(&self, kind: Kind, mount: u16, seq: u64, parts: &[&[u8]]) -> Result<(), LinkError> {
        let bytes: usize = parts.iter().map(|p| p.len()).sum();
        if bytes > FRAME_BYTES_MAX {
            return Err(LinkError::Frame(HeadError::Size(bytes as u32)));
        }
        let failed = |doing| move |source| LinkError::Socket { doing, source };
        let mut out = lock(&self.out);
        let head = Head { body_bytes: bytes as u32, kind, mount, seq }.encode();
        let Out { socket, encrypted } = &mut *out;
        encrypted.clear();
        {
            let mut tls = lock(&self.tls);
            let mut plain = tls.writer();
            plain.write_all(&head).map_err(failed("encrypting"))?;
            for part in parts {
                plain.write_all(part).map_err(failed("encrypting"))?;
            }
            while tls.wants_write() {
                tls.write_tls(encrypted).map_err(failed("encrypting"))?;
            }
        }
        socket.write_all(encrypted).map_err(failed("sending"))?;
        self.counters.count(bytes);
        if encrypted.capacity() > 4 << 20 {
            *encrypted = Vec::new();
        }
        Ok(())
    }

    /// What has passed, both ways.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Ends the connection: both ends' receivers see it closed.
    pub fn close(&self) {
        // The lock is not taken: a sender may be waiting in it for the very peer that is gone.
        if let Ok(out) = self.out.try_lock() {
            let _ = out.socket.shutdown(Shutdown::Both);
        }
    }
}
