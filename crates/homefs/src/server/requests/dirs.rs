//! Listing directories.

use crate::proto::{Dirent, EntryOut, MAX_IO_BYTES, OpenOut, ReadIn, ReplyBuf, directory_handle, fopen};
use crate::server::Server;
use crate::server::base::answer::{Answer, Call, Outcome};
use crate::server::state::handles::{Kind, Open};
use crate::server::state::listing::{padded, push_dirent};
use crate::server::state::mutex::lock;
use crate::server::state::nodes::reopen;
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use std::sync::Arc;

impl Server {
    pub(crate) fn opendir(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
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

    /// Opens a directory under the handle that the room has given it, if this request is the first
    /// that needs it.
    pub(crate) fn open_late(&self, call: &Call<'_>) -> Result<()> {
        let Some(fh) = directory_handle(&call.request) else { return Ok(()) };
        if self.handles.get(fh, call.node.id).is_ok() {
            return Ok(());
        }
        let path = self.watched_path(&call.node)?;
        let opener = self.assume(call)?;
        let file = reopen(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let kind = Kind::Dir(Arc::default());
        self.handles.insert(fh, Open { node: call.node.clone(), file: file.into(), kind, opener })
    }

    pub(crate) fn readdir(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
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

    pub(crate) fn readdirplus(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
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
