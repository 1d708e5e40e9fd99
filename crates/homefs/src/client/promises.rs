//! Requests that the room answers before home has served them, and replies that say whether it may.
//! `behind` decides; this file carries that out.

use super::bearing::Bearing;
use super::behind::{Course, Promised};
use super::mount::Mount;
use super::{Client, UnderWay, lock};
use crate::proto::{
    self, EntryOut, NEW_DIRECTORY, OUT_HEADER_BYTES, Opcode, OpenOut, ReleaseIn, ReplyBuf, Request, SPACE_IS_SCARCE,
    VALID_S, WriteOut, fopen,
};
use std::sync::PoisonError;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

impl Client {
    /// Answers a request that home serves later, if it may. Returns whether it has.
    pub(super) fn promises(&self, index: u16, mount: &Mount, request: &Request<'_>, bytes: &[u8]) -> bool {
        let is_candidate = matches!(request.opcode, Some(Opcode::Write | Opcode::Flush));
        if !is_candidate || lock(&self.order).closed {
            return false;
        }
        let unique = request.header.unique;
        let course = lock(&self.behind).course(index, request);
        match course {
            Course::Ask => return false,
            Course::Fail(errno) => {
                if request.opcode == Some(Opcode::Flush) {
                    // Home frees the locks of the closing process.
                    self.uplink.behind(index, bytes);
                }
                mount.write(&proto::status(unique, errno));
            }
            Course::Promise(promise) => {
                lock(&mount.under_way).insert(unique, UnderWay::promised(promise));
                self.uplink.behind(index, bytes);
                let mut reply = ReplyBuf::default();
                reply.clear();
                if let Promised::Written(size) = promise.reply {
                    reply.push(&WriteOut { size, padding: 0 });
                }
                mount.write(reply.finish(unique));
            }
        }
        true
    }

    /// Looks at a reply of home's. Gives the reply for the kernel: another one if that must differ,
    /// none if the guest has had its answer.
    pub(super) fn bear(&self, mount: u16, bearing: Bearing, bytes: &[u8]) -> Option<Vec<u8>> {
        match bearing {
            Bearing::None => None,
            Bearing::Opens { after } => self.file_opened(mount, after, bytes),
            Bearing::OpensDir { node } => {
                let (open, _) = OpenOut::read_from_prefix(bytes.get(OUT_HEADER_BYTES..)?).ok()?;
                if open.open_flags & fopen::CACHE_DIR != 0 {
                    lock(&self.dirs).opened(mount, node);
                }
                None
            }
            Bearing::Makes => self.directory_made(mount, bytes),
            Bearing::Writes => {
                self.note_space(mount, bytes);
                None
            }
            Bearing::Syncs { fh } => {
                let unique = proto::reply_unique(bytes)?;
                let errno = lock(&self.behind).take_failure(mount, fh)?;
                Some(proto::status(unique, errno).to_vec())
            }
            Bearing::Promised(promise) => {
                let written = self.note_space(mount, bytes);
                let error = match (proto::reply_error(bytes), promise.reply) {
                    (None, Promised::Written(size)) => (written != Some(size)).then_some(libc::ENOSPC),
                    (error, _) => error,
                };
                let mut behind = lock(&self.behind);
                behind.settled(promise, error);
                if behind.is_settled() {
                    self.settled.notify_all();
                }
                None
            }
        }
    }

    /// Takes the permission to write behind out of a reply that opens a file.
    fn file_opened(&self, mount: u16, after: usize, bytes: &[u8]) -> Option<Vec<u8>> {
        let at = OUT_HEADER_BYTES + after;
        let (mut open, _) = OpenOut::read_from_prefix(bytes.get(at..)?).ok()?;
        if open.open_flags & fopen::BEHIND == 0 {
            return None;
        }
        lock(&self.behind).opened(mount, open.fh);
        open.open_flags &= !fopen::BEHIND;
        let mut changed = bytes.to_vec();
        changed.get_mut(at..at + size_of::<OpenOut>())?.copy_from_slice(open.as_bytes());
        Some(changed)
    }

    /// Takes the mark of a new directory out of its entry.
    fn directory_made(&self, mount: u16, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut entry, _) = EntryOut::read_from_prefix(bytes.get(OUT_HEADER_BYTES..)?).ok()?;
        if entry.attr.flags & NEW_DIRECTORY == 0 {
            return None;
        }
        lock(&self.dirs).made(mount, entry.nodeid);
        entry.attr.flags &= !NEW_DIRECTORY;
        let mut changed = bytes.to_vec();
        changed.get_mut(OUT_HEADER_BYTES..OUT_HEADER_BYTES + size_of::<EntryOut>())?.copy_from_slice(entry.as_bytes());
        Some(changed)
    }

    /// Answers a request about a directory that home need not hear of. Returns whether it has.
    pub(super) fn knows(&self, index: u16, mount: &Mount, request: &Request<'_>, reply: &mut ReplyBuf) -> bool {
        let (node, mut args) = (request.header.nodeid, request.args());
        // Of a home that is gone nothing is known.
        let is_closed = lock(&self.order).closed;
        if is_closed {
            return false;
        }
        let mut dirs = lock(&self.dirs);
        reply.clear();
        match request.opcode {
            Some(Opcode::Opendir) => {
                let Some(fh) = dirs.open(index, node) else { return false };
                reply.push(&OpenOut { fh, open_flags: fopen::CACHE_DIR | fopen::KEEP_CACHE, backing_id: 0 });
            }
            Some(Opcode::Releasedir) => {
                let Ok(release) = args.take::<ReleaseIn>() else { return false };
                if !dirs.closed(index, release.fh) {
                    return false;
                }
            }
            Some(Opcode::Lookup) => {
                if !args.name().is_ok_and(|name| dirs.lacks(index, node, name.to_bytes())) {
                    return false;
                }
                reply.push(&EntryOut { entry_valid: VALID_S, ..Default::default() });
            }
            _ => {
                if let Some(fh) = proto::directory_handle(request) {
                    dirs.uses(index, fh);
                }
                dirs.names_made_by(index, request);
                return false;
            }
        }
        drop(dirs);
        mount.write(reply.finish(request.header.unique));
        true
    }

    /// Notes what the reply to a write says of space; gives the number of bytes written.
    fn note_space(&self, mount: u16, bytes: &[u8]) -> Option<u32> {
        let (written, _) = WriteOut::read_from_prefix(bytes.get(OUT_HEADER_BYTES..)?).ok()?;
        lock(&self.behind).space(mount, written.padding == SPACE_IS_SCARCE);
        Some(written.size)
    }

    /// Waits until home has served all that was promised, or until `longest` has passed.
    pub fn wait_settled(&self, longest: Duration) {
        let behind = lock(&self.behind);
        let waits = self.settled.wait_timeout_while(behind, longest, |behind| !behind.is_settled());
        drop(waits.unwrap_or_else(PoisonError::into_inner));
    }
}
