//! Listing directories.

use super::dispatch::{Answer, Call, Outcome};
use super::handles::{Kind, Open};
use super::nodes::reopen;
use super::{Server, lock, sys};
use crate::proto::{Dirent, EntryOut, MAX_IO_BYTES, OpenOut, ReadIn, ReplyBuf, fopen};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::{Errno, Result};
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

const LISTING_BYTES: usize = 32 << 10;
/// Bytes of `linux_dirent64` before the name.
const HEAD_BYTES: usize = 19;

/// Entries that were read from a directory and not yet given to the room.
#[derive(Default)]
pub(super) struct Listing {
    bytes: Vec<u8>,
    at: usize,
    /// The cookie of the first entry in `bytes` from `at` on.
    cookie: u64,
}

struct Entry<'a> {
    ino: u64,
    cookie: u64,
    kind: u32,
    name: &'a CStr,
    record_bytes: usize,
}

impl Listing {
    /// Moves to the entry behind `cookie`.
    fn seek(&mut self, dir: &OwnedFd, cookie: u64) -> Result<()> {
        if cookie != self.cookie {
            self.bytes.clear();
            self.at = 0;
            rustix::fs::seek(dir, SeekFrom::Start(cookie))?;
            self.cookie = cookie;
        }
        Ok(())
    }

    /// Gives the next entry, if there is one; [`Listing::advance`] removes it.
    fn peek(&mut self, dir: &OwnedFd) -> Result<Option<Entry<'_>>> {
        if self.at == self.bytes.len() {
            self.bytes.resize(LISTING_BYTES, 0);
            let len = sys::read_dir(dir.as_fd(), &mut self.bytes);
            self.bytes.truncate(*len.as_ref().unwrap_or(&0));
            self.at = 0;
            len?;
        }
        Ok(parse(&self.bytes[self.at..]))
    }

    fn advance(&mut self, record_bytes: usize, cookie: u64) {
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

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}

fn push_dirent(buf: &mut ReplyBuf, entry: &Entry<'_>) {
    let name = entry.name.to_bytes();
    buf.push(&Dirent { ino: entry.ino, off: entry.cookie, namelen: name.len() as u32, kind: entry.kind });
    buf.extend(name);
    buf.extend(&[0; 8][..padded(name.len()) - name.len()]);
}

impl Server {
    pub(super) fn opendir(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let path = self.watched_path(&call.node)?;
        let opener = self.assume(call)?;
        let file = reopen(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let kind = Kind::Dir(Arc::default());
        let fh = self.handles.next();
        self.handles.insert(fh, Open { node: call.node.clone(), file: file.into(), kind, opener })?;
        let open_flags = if call.node.is_watched() { fopen::CACHE_DIR | fopen::KEEP_CACHE } else { 0 };
        buf.push(&OpenOut { fh, open_flags, backing_id: 0 });
        Ok(Answer::Plain)
    }

    pub(super) fn readdir(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let read = call.request.args().take::<ReadIn>()?;
        let open = self.handles.get(read.fh, call.node.id)?;
        let Kind::Dir(listing) = &open.kind else { return Err(Errno::NOTDIR.into()) };
        let most = (read.size as usize).min(MAX_IO_BYTES);
        let mut listing = lock(listing);
        listing.seek(&open.file, read.offset)?;
        while let Some(entry) = listing.peek(&open.file)? {
            if buf.len() + size_of::<Dirent>() + padded(entry.name.count_bytes()) > most {
                break;
            }
            push_dirent(buf, &entry);
            let (bytes, cookie) = (entry.record_bytes, entry.cookie);
            listing.advance(bytes, cookie);
        }
        Ok(Answer::Plain)
    }

    pub(super) fn readdirplus(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let read = call.request.args().take::<ReadIn>()?;
        let open = self.handles.get(read.fh, call.node.id)?;
        let Kind::Dir(listing) = &open.kind else { return Err(Errno::NOTDIR.into()) };
        let dir_fd = self.watched_path(&call.node)?;
        let most = (read.size as usize).min(MAX_IO_BYTES);
        let mut entries = Vec::new();
        let mut listing = lock(listing);
        listing.seek(&open.file, read.offset)?;
        while let Some(entry) = listing.peek(&open.file)? {
            let needs = size_of::<EntryOut>() + size_of::<Dirent>() + padded(entry.name.count_bytes());
            if buf.len() + needs > most {
                break;
            }
            let at = buf.len();
            let is_dot = matches!(entry.name.to_bytes(), b"." | b"..");
            // Entries that this user may not look up, or that are gone, are listed without
            // attributes.
            let child = (!is_dot)
                .then(|| self.authority.assume(&open.opener).and_then(|()| self.child(&call.node, &dir_fd, entry.name)))
                .and_then(Result::ok);
            match child {
                Some((node, out)) => {
                    buf.push(&out);
                    entries.push((at, node));
                }
                None => buf.push(&EntryOut::default()),
            }
            push_dirent(buf, &entry);
            let (bytes, cookie) = (entry.record_bytes, entry.cookie);
            listing.advance(bytes, cookie);
        }
        Ok(Answer::Listing { dir: call.node.clone(), entries })
    }
}
