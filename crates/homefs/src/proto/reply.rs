//! Putting replies together.

use super::{OUT_HEADER_BYTES, OutHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A reply that only says how it went: `errno` 0 is success.
pub fn status(unique: u64, errno: i32) -> [u8; OUT_HEADER_BYTES] {
    let header = OutHeader { len: OUT_HEADER_BYTES as u32, error: -errno, unique };
    zerocopy::transmute!(header)
}

/// A reply under construction: room for the header, then whatever is added. The buffer is kept and used again.
#[derive(Debug, Default)]
pub struct ReplyBuf {
    bytes: Vec<u8>,
}

impl ReplyBuf {
    /// Drops what is in it and leaves room for the header.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(OUT_HEADER_BYTES, 0);
    }

    /// Adds a struct.
    pub fn push<T: IntoBytes + Immutable>(&mut self, value: &T) {
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// Adds bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Makes room for `len` bytes of payload, fills it by `fill`, and keeps as many as that says (never more than `len`).
    pub fn fill<E>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<usize, E> {
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        let filled = fill(&mut self.bytes[start..]);
        let kept = filled.as_ref().map_or(0, |n| (*n).min(len));
        self.bytes.truncate(start + kept);
        filled
    }

    /// Bytes of payload so far.
    pub fn len(&self) -> usize {
        self.bytes.len() - OUT_HEADER_BYTES
    }

    /// No payload so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload, to change it.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[OUT_HEADER_BYTES..]
    }

    /// Writes the header of a successful reply and yields all bytes.
    pub fn finish(&mut self, unique: u64) -> &[u8] {
        let header = OutHeader { len: self.bytes.len() as u32, error: 0, unique };
        self.bytes[..OUT_HEADER_BYTES].copy_from_slice(header.as_bytes());
        &self.bytes
    }
}

/// The error number of a reply, if it says one.
pub fn reply_error(bytes: &[u8]) -> Option<i32> {
    let (header, _) = OutHeader::read_from_prefix(bytes).ok()?;
    (header.error < 0).then(|| header.error.saturating_neg())
}

/// The `unique` of a reply, if these bytes can be one: long enough and of the length they claim.
pub fn reply_unique(bytes: &[u8]) -> Option<u64> {
    let (header, _) = OutHeader::read_from_prefix(bytes).ok()?;
    (header.len as usize == bytes.len() && header.unique != 0).then_some(header.unique)
}
