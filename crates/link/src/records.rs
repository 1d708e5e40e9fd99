//! Protected records of TLS 1.3 (RFC 8446, 5.2 to 5.5), with the keys from rustls and the ciphers
//! of aws-lc.
//!
//! The record layer of rustls copies data once more on the way out and three times on the way in,
//! and reached half of the rate of a plain stream. This record layer reaches four fifths and more
//! (docs/FIGURES.md). The handshake, the certificates, and the key schedule remain with rustls.

use crate::LinkError;
use crate::schedule::Schedule;
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::cipher::Iv;
use rustls::{AlertDescription, ConnectionTrafficSecrets, ContentType, Error, InvalidMessage, PeerMisbehaved};
use std::sync::Arc;

/// Bytes of a record's header: type, version and size.
pub(crate) const HEAD_BYTES: usize = 5;
/// The most content of a record, bytes.
const PLAIN_BYTES_MAX: usize = 1 << 14;
/// Bytes of the content type, which follows the content.
const TYPE_BYTES: usize = 1;
pub(crate) const RECORD_BYTES_MAX: usize = HEAD_BYTES + PLAIN_BYTES_MAX + 256;

/// The number of records after which a key is renewed. AES-GCM allows 2^24.5 (RFC 8446, 5.5).
const RENEWED_AFTER: u64 = 1 << 23;
/// The message that announces new keys of its sender and requests none in return (RFC 8446, 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// The key of one direction.
pub(crate) struct Key {
    aead: LessSafeKey,
    iv: Iv,
    /// Sequence number of the next record.
    number: u64,
}

impl Key {
    /// Creates the key from a traffic secret and the number of its next record.
    pub(crate) fn new(number: u64, secrets: ConnectionTrafficSecrets) -> Result<Key, Error> {
        let (cipher, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(Error::General("a cipher that was not asked for".into())),
        };
        let key = UnboundKey::new(cipher, key.as_ref()).map_err(|_| Error::EncryptError)?;
        Ok(Key { aead: LessSafeKey::new(key), iv, number })
    }

    /// Gives the nonce of the next record. Each nonce is used once.
    fn nonce(&mut self) -> Nonce {
        let nonce = rustls::crypto::cipher::Nonce::new(&self.iv, self.number);
        self.number += 1;
        Nonce::assume_unique_for_key(nonce.0)
    }
}

/// Encrypts the records that are sent.
pub(crate) struct Seal {
    key: Key,
    renewed_after: u64,
    schedule: Arc<Schedule>,
    /// Small parts, until they fill a record.
    gathered: Vec<u8>,
}

impl Seal {
    pub(crate) fn new(key: Key, schedule: Arc<Schedule>) -> Seal {
        Seal { key, renewed_after: RENEWED_AFTER, schedule, gathered: Vec::new() }
    }

    /// Appends the head and the parts to `out`, one after the other, as records. A part that fills
    /// records alone is encrypted from where it lies.
    pub(crate) fn seal(&mut self, head: &[u8], parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), LinkError> {
        let bytes = head.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        let records = bytes / PLAIN_BYTES_MAX + parts.len() + 1;
        out.reserve(bytes + records * (RECORD_BYTES_MAX - PLAIN_BYTES_MAX));
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.clear();
        for part in [head].iter().chain(parts) {
            let mut whole = part.chunks_exact(PLAIN_BYTES_MAX);
            if whole.len() > 0 && !gathered.is_empty() {
                self.append(&gathered, out)?;
                gathered.clear();
            }
            whole.try_for_each(|chunk| self.append(chunk, out))?;
            let rest = whole.remainder();
            if gathered.len() + rest.len() > PLAIN_BYTES_MAX {
                self.append(&gathered, out)?;
                gathered.clear();
            }
            gathered.extend_from_slice(rest);
        }
        if !gathered.is_empty() {
            self.append(&gathered, out)?;
        }
        self.gathered = gathered;
        Ok(())
    }

    fn append(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), LinkError> {
        if self.key.number >= self.renewed_after {
            self.record(ContentType::Handshake, &KEY_UPDATE, out)?;
            self.key = self.schedule.next_sealing()?;
        }
        self.record(ContentType::ApplicationData, plain, out)
    }

    fn record(&mut self, kind: ContentType, plain: &[u8], out: &mut Vec<u8>) -> Result<(), LinkError> {
        let bytes = plain.len() + TYPE_BYTES + self.key.aead.algorithm().tag_len();
        let [high, low] = (bytes as u16).to_be_bytes();
        let head = [ContentType::ApplicationData.into(), 3, 3, high, low];
        out.extend_from_slice(&head);
        let at = out.len();
        out.resize(at + bytes, 0);
        let (sealed, behind) = out[at..].split_at_mut(plain.len());
        let nonce = self.key.nonce();
        let kind = [kind.into()];
        self.key
            .aead
            .seal_out_of_place_scatter(nonce, Aad::from(head), plain, sealed, &kind, behind)
            .map_err(|_| Error::EncryptError.into())
    }
}

/// Decrypts the records that are received.
pub(crate) struct Open {
    key: Key,
    schedule: Arc<Schedule>,
}

impl Open {
    pub(crate) fn new(key: Key, schedule: Arc<Schedule>) -> Open {
        Open { key, schedule }
    }

    /// Gives the size of the first record with its header, bytes; `None` if the header has not
    /// arrived completely.
    pub(crate) fn whole_bytes(come: &[u8]) -> Result<Option<usize>, LinkError> {
        let Some(&[kind, _, _, high, low]) = come.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let bytes = HEAD_BYTES + usize::from(u16::from_be_bytes([high, low]));
        if ContentType::from(kind) != ContentType::ApplicationData {
            return Err(Error::InvalidMessage(InvalidMessage::InvalidContentType).into());
        }
        if bytes > RECORD_BYTES_MAX {
            return Err(Error::PeerSentOversizedRecord.into());
        }
        Ok(Some(bytes))
    }

    /// Gives the most content that a record of this size carries, bytes.
    pub(crate) fn carries_bytes_max(&self, record_bytes: usize) -> usize {
        record_bytes.saturating_sub(HEAD_BYTES + TYPE_BYTES + self.key.aead.algorithm().tag_len())
    }

    /// Decrypts one whole record in place, and gives the number of content bytes behind its header.
    pub(crate) fn open(&mut self, record: &mut [u8]) -> Result<usize, LinkError> {
        let nonce = self.key.nonce();
        let (head, body) = record.split_at_mut(HEAD_BYTES.min(record.len()));
        let opened = self.key.aead.open_in_place(nonce, Aad::from(&*head), body).map_err(|_| Error::DecryptError)?;
        self.understand(opened)
    }

    /// Decrypts one whole record and appends its content to `to`.
    pub(crate) fn open_to(&mut self, record: &[u8], to: &mut Vec<u8>) -> Result<(), LinkError> {
        let nonce = self.key.nonce();
        let (head, body) = record.split_at(HEAD_BYTES.min(record.len()));
        let ends = body.len().checked_sub(self.key.aead.algorithm().tag_len()).ok_or(Error::DecryptError)?;
        let (sealed, tag) = body.split_at(ends);
        let from = to.len();
        to.resize(from + sealed.len(), 0);
        let opened = self.key.aead.open_separate_gather(nonce, Aad::from(head), sealed, tag, &mut to[from..]);
        let bytes = match opened {
            Ok(()) => self.understand(&to[from..]),
            Err(_) => Err(Error::DecryptError.into()),
        };
        to.truncate(from + bytes.as_ref().copied().unwrap_or(0));
        bytes.map(drop)
    }

    /// Interprets a decrypted record, and gives the number of bytes for the receiver of frames.
    fn understand(&mut self, opened: &[u8]) -> Result<usize, LinkError> {
        // The content is followed by its type, and that by zeros as padding.
        let bytes = opened.iter().rposition(|byte| *byte != 0);
        let bytes = bytes.ok_or(Error::PeerMisbehaved(PeerMisbehaved::IllegalTlsInnerPlaintext))?;
        if bytes > PLAIN_BYTES_MAX {
            return Err(Error::PeerSentOversizedRecord.into());
        }
        match (ContentType::from(opened[bytes]), &opened[..bytes]) {
            (ContentType::ApplicationData, _) => Ok(bytes),
            (ContentType::Handshake, message) if *message == KEY_UPDATE => {
                self.key = self.schedule.next_opening()?;
                Ok(0)
            }
            (ContentType::Alert, [_, what]) => match AlertDescription::from(*what) {
                AlertDescription::CloseNotify => Err(LinkError::Closed),
                what => Err(Error::AlertReceived(what).into()),
            },
            _ => Err(Error::InvalidMessage(InvalidMessage::UnexpectedMessage("nothing of this kind is sent")).into()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::handshake::shake;
    use rustls::client::UnbufferedClientConnection;
    use rustls::server::UnbufferedServerConnection;
    use rustls::{ServerConnection, StreamOwned};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn ends() -> (TcpStream, TcpStream, identity::Identity, identity::NodeName) {
        let dir = tempfile::tempdir().unwrap();
        let name = identity::NodeName::new("n1").unwrap();
        let node = identity::init(dir.path(), &name).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here, listener.accept().unwrap().0, node, name)
    }

    fn connect(mut here: TcpStream, node: &identity::Identity, name: &identity::NodeName) -> (Seal, Open) {
        let peer = identity::server_name(name).unwrap();
        let (seal, open, certificates) =
            shake(&mut here, UnbufferedClientConnection::new(node.client_config(), peer).unwrap()).unwrap();
        assert_eq!(certificates.len(), 1);
        (seal, open)
    }

    /// Creates two ends with the same keys.
    fn pair() -> (Seal, Open) {
        let (here, mut there, node, name) = ends();
        let server = UnbufferedServerConnection::new(node.server_config()).unwrap();
        let accepting = std::thread::spawn(move || shake(&mut there, server).unwrap());
        let (seal, _) = connect(here, &node, &name);
        (seal, accepting.join().unwrap().1)
    }

    /// Decrypts all records.
    fn opened(open: &mut Open, mut come: &mut [u8]) -> Result<Vec<u8>, LinkError> {
        let mut all = Vec::new();
        while let Some(bytes) = Open::whole_bytes(come)?.filter(|bytes| *bytes <= come.len()) {
            let (record, rest) = come.split_at_mut(bytes);
            // As the receiver does, decrypt large records directly into place.
            if bytes > 1000 {
                open.open_to(record, &mut all)?;
            } else {
                let n = open.open(record)?;
                all.extend_from_slice(&record[HEAD_BYTES..][..n]);
            }
            come = rest;
        }
        Ok(all)
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    #[test]
    fn parts_are_sealed_and_opened_as_a_whole() {
        let (mut seal, mut open) = pair();
        for sizes in [&[0, 1][..], &[PLAIN_BYTES_MAX - 3], &[PLAIN_BYTES_MAX - 2, 0, 1], &[100_000, 5, 40_000, 0]] {
            let parts: Vec<Vec<u8>> = sizes.iter().map(|n| bytes(*n)).collect();
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let mut out = Vec::new();
            seal.seal(b"abc", &parts, &mut out).unwrap();
            assert!(opened(&mut open, &mut out).unwrap() == [&b"abc"[..], &parts.concat()].concat(), "{sizes:?}");
        }
    }

    #[test]
    fn keys_are_renewed_on_the_way() {
        let (mut seal, mut open) = pair();
        seal.renewed_after = 3;
        let (sent, mut out) = (bytes(200_000), Vec::new());
        seal.seal(b"abc", &[&sent], &mut out).unwrap();
        assert!(seal.key.number <= 3);
        assert!(opened(&mut open, &mut out).unwrap() == [&b"abc"[..], &sent].concat());
    }

    #[test]
    fn no_bit_may_be_changed() {
        for bit in [0, 9, 25, 39, 40, 41, 100, 400] {
            for size in [100, 1200] {
                let (mut seal, mut open) = pair();
                let mut out = Vec::new();
                seal.seal(b"abc", &[&bytes(size)], &mut out).unwrap();
                out[bit / 8] ^= 1 << (bit % 8);
                let result = opened(&mut open, &mut out);
                // A greater size makes the receiver wait for more.
                assert!(result.is_err() || (3..5).contains(&(bit / 8)) && result.unwrap().is_empty(), "bit {bit}");
            }
        }
        let (mut seal, mut open) = pair();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        seal.seal(b"abc", &[], &mut first).unwrap();
        seal.seal(b"abc", &[], &mut second).unwrap();
        assert!(opened(&mut open, &mut second).is_err(), "each has its place");
    }

    #[test]
    fn malformed_records_are_refused() {
        assert_eq!(Open::whole_bytes(&[23, 3, 3, 0]).unwrap(), None);
        assert_eq!(Open::whole_bytes(&[23, 3, 3, 0x41, 0]).unwrap(), Some(RECORD_BYTES_MAX));
        Open::whole_bytes(&[23, 3, 3, 0x41, 1]).unwrap_err();
        Open::whole_bytes(&[22, 3, 3, 0, 40]).unwrap_err();
        let (_, mut open) = pair();
        for size in [0, HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + 16, HEAD_BYTES + 17, RECORD_BYTES_MAX] {
            open.open(&mut vec![0; size]).unwrap_err();
            let mut to = vec![1, 2];
            open.open_to(&vec![0; size], &mut to).unwrap_err();
            assert_eq!(to, [1, 2]);
        }
        // All messages after the handshake but one are refused.
        for (kind, message) in [
            (ContentType::Handshake, &[24, 0, 0, 1, 1][..]),
            (ContentType::Handshake, &[4, 0, 0, 0]),
            (ContentType::ChangeCipherSpec, &[1]),
            (ContentType::Alert, &[1]),
            (ContentType::Unknown(0), &[0]),
        ] {
            let (mut seal, mut open) = pair();
            let mut out = Vec::new();
            seal.record(kind, message, &mut out).unwrap();
            open.open(&mut out).unwrap_err();
            let (mut seal, mut open) = pair();
            let (mut out, mut to) = (Vec::new(), vec![1, 2]);
            seal.record(kind, message, &mut out).unwrap();
            open.open_to(&out, &mut to).unwrap_err();
            assert_eq!(to, [1, 2]);
        }
    }

    /// The other end is rustls itself. It understands the records, new keys in the middle of the
    /// stream, and alerts.
    #[test]
    fn rustls_understands_and_is_understood() {
        let (here, there, node, name) = ends();
        let server = ServerConnection::new(node.server_config()).unwrap();
        let mut reading = here.try_clone().unwrap();
        let mut writing = here.try_clone().unwrap();
        let echo = std::thread::spawn(move || {
            let mut stream = StreamOwned::new(server, there);
            let mut all = vec![0; 200_003];
            stream.read_exact(&mut all).unwrap();
            stream.write_all(&all).unwrap();
            stream.conn.send_close_notify();
            stream.flush().unwrap();
            stream.sock
        });
        let (mut seal, mut open) = connect(here, &node, &name);
        seal.renewed_after = 5;
        let (sent, mut out) = (bytes(200_000), Vec::new());
        seal.seal(b"abc", &[&sent], &mut out).unwrap();
        assert!(seal.key.number < 5, "renewed twice");
        writing.write_all(&out).unwrap();
        let mut come = Vec::new();
        let socket = echo.join().unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        reading.read_to_end(&mut come).unwrap();
        let (mut rest, mut all) = (&mut come[..], Vec::new());
        let end = loop {
            let (record, later) = rest.split_at_mut(Open::whole_bytes(rest).unwrap().unwrap());
            match open.open(record) {
                Ok(n) => all.extend_from_slice(&record[HEAD_BYTES..][..n]),
                Err(end) => break end,
            }
            rest = later;
        };
        assert!(matches!(end, LinkError::Closed), "{end}");
        assert!(all == [&b"abc"[..], &sent].concat());
    }
}
