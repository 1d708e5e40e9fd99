//! The receiving direction.

use crate::{Counters, LinkError, Tls, lock};
use rustls::IoState;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use wire::Head;

/// Encrypted bytes taken from the socket at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Receives frames.
pub struct Receiver {
    socket: TcpStream,
    tls: Arc<Tls>,
    chunk: Box<[u8]>,
    /// Decrypted bytes that no frame has taken yet: from `taken`.
    plain: Vec<u8>,
    taken: usize,
    counters: Arc<Counters>,
}

impl Receiver {
    pub(crate) fn new(socket: TcpStream, tls: Arc<Tls>, counters: Arc<Counters>) -> Receiver {
        Receiver { socket, tls, chunk: vec![0; CHUNK_BYTES].into_boxed_slice(), plain: Vec::new(), taken: 0, counters }
    }

    /// Waits for the next frame and puts its body into `body`.
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
        Ok(head)
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
