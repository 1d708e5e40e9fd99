//! Building of replies.

use super::{OUT_HEADER_BYTES, OutHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Builds a reply that consists of its status: `errno` 0 is success.
pub fn status(unique: u64, errno: i32) -> [u8; OUT_HEADER_BYTES] {
    let header = OutHeader { len: OUT_HEADER_BYTES as u32, error: -errno, unique };
    zerocopy::transmute!(header)
}

/// A reply under construction: space for the header, then the payload. The buffer is reused.
#[derive(Debug, Default)]
pub struct ReplyBuf {
    bytes: Vec<u8>,
}

impl ReplyBuf {
    /// Empties the buffer, leaving space for the header.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(OUT_HEADER_BYTES, 0);
    }

    /// Appends a struct to the payload.
    pub fn push<T: IntoBytes + Immutable>(&mut self, value: &T) {
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// Appends bytes to the payload.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds `len` bytes of space to the payload, fills it by `fill`, and keeps as many bytes as
    /// `fill` returns (never more than `len`).
    pub fn fill<E>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<usize, E> {
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        let filled = fill(&mut self.bytes[start..]);
        let kept = filled.as_ref().map_or(0, |n| (*n).min(len));
        self.bytes.truncate(start + kept);
        filled
    }

    /// Gives the number of payload bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - OUT_HEADER_BYTES
    }

    /// Tells whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the payload for changes.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[OUT_HEADER_BYTES..]
    }

    /// Writes the header of a successful reply, and gives all bytes.
    pub fn finish(&mut self, unique: u64) -> &[u8] {
        let header = OutHeader { len: self.bytes.len() as u32, error: 0, unique };
        self.bytes[..OUT_HEADER_BYTES].copy_from_slice(header.as_bytes());
        &self.bytes
    }
}

/// Gives the error number of a reply that reports one.
pub fn reply_error(bytes: &[u8]) -> Option<i32> {
    let (header, _) = OutHeader::read_from_prefix(bytes).ok()?;
    (header.error < 0).then(|| header.error.saturating_neg())
}

/// Gives the `unique` of a reply, if the bytes can be one: long enough, and of the length in the
/// header.
pub fn reply_unique(bytes: &[u8]) -> Option<u64> {
    let (header, _) = OutHeader::read_from_prefix(bytes).ok()?;
    (header.len as usize == bytes.len() && header.unique != 0).then_some(header.unique)
}
