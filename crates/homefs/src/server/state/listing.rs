//! Entries of an open directory.

use crate::proto::{Dirent, ReplyBuf};
use crate::sys;
use rustix::fs::SeekFrom;
use rustix::io::Result;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

const LISTING_BYTES: usize = 32 << 10;
/// Bytes of `linux_dirent64` before the name.
const HEAD_BYTES: usize = 19;

/// Entries that were read from a directory and not yet given to the room.
#[derive(Default)]
pub(crate) struct Listing {
    bytes: Vec<u8>,
    at: usize,
    /// The cookie of the first entry in `bytes` from `at` on.
    cookie: u64,
}

/// One entry of a directory.
pub(crate) struct Entry<'a> {
    ino: u64,
    pub(crate) cookie: u64,
    kind: u32,
    pub(crate) name: &'a CStr,
    pub(crate) record_bytes: usize,
}

impl Listing {
    /// Moves to the entry behind `cookie`.
    pub(crate) fn seek(&mut self, dir: &OwnedFd, cookie: u64) -> Result<()> {
        if cookie != self.cookie {
            self.bytes.clear();
            self.at = 0;
            rustix::fs::seek(dir, SeekFrom::Start(cookie))?;
            self.cookie = cookie;
        }
        Ok(())
    }

    /// Gives the next entry, if there is one; [`Listing::advance`] removes it.
    pub(crate) fn peek(&mut self, dir: &OwnedFd) -> Result<Option<Entry<'_>>> {
        if self.at == self.bytes.len() {
            self.bytes.resize(LISTING_BYTES, 0);
            let len = sys::read_dir(dir.as_fd(), &mut self.bytes);
            self.bytes.truncate(*len.as_ref().unwrap_or(&0));
            self.at = 0;
            len?;
        }
        Ok(parse(&self.bytes[self.at..]))
    }

    /// Moves behind an entry that was given to the room.
    pub(crate) fn advance(&mut self, record_bytes: usize, cookie: u64) {
        self.at = (self.at + record_bytes).min(self.bytes.len());
        self.cookie = cookie;
    }
}

fn parse(bytes: &[u8]) -> Option<Entry<'_>> {
    let ino = u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?);
    let cookie = u64::from_ne_bytes(bytes.get(8..16)?.try_into().ok()?);
    let record_bytes = usize::from(u16::from_ne_bytes(bytes.get(16..18)?.try_into().ok()?));
    let kind = u32::from(*bytes.get(18)?);
    let name = CStr::from_bytes_until_nul(bytes.get(HEAD_BYTES..record_bytes)?).ok()?;
    Some(Entry { ino, cookie, kind, name, record_bytes })
}

/// Rounds up to the alignment of entries.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}

/// Adds an entry to a reply.
pub(crate) fn push_dirent(buf: &mut ReplyBuf, entry: &Entry<'_>) {
    let name = entry.name.to_bytes();
    buf.push(&Dirent { ino: entry.ino, off: entry.cookie, namelen: name.len() as u32, kind: entry.kind });
    buf.extend(name);
    buf.extend(&[0; 8][..padded(name.len()) - name.len()]);
}
