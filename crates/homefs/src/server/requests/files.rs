//! Open files: opening, reading, writing.

use super::open_mode::OpenMode;
use crate::programs::{Ids, begins_at_home};
use crate::proto::{
    self, CopyFileRangeIn, FallocateIn, FlushIn, FsyncIn, LseekIn, LseekOut, MAX_IO_BYTES, OpenIn, OpenOut, ReadIn,
    ReleaseIn, ReplyBuf, SPACE_IS_SCARCE, WriteIn, WriteOut, fopen,
};
use crate::server::Server;
use crate::server::base::answer::{Answer, Call, Outcome, Refused};
use crate::server::state::creds::Credentials;
use crate::server::state::events::Change;
use crate::server::state::file_id::FileId;
use crate::server::state::handles::{Kind, Open};
use crate::server::state::mutex::lock;
use crate::server::state::nodes::Node;
use crate::sys;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::{Errno, Result};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Server {
    pub(crate) fn open(self: &Arc<Self>, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let flags = call.request.args().take::<OpenIn>()?.flags;
        if !call.node.is_file() {
            return self.open_fifo(call, flags);
        }
        let wanted = OpenMode::of(flags);
        let path = self.watched_path(&call.node)?;
        let who = self.assume(call)?;
        if flags & proto::FMODE_EXEC != 0 && begins_at_home(&path, Ids { uid: who.uid, gid: who.gid }) {
            return Err(Refused(Errno::from_raw_os_error(proto::BEGINS_AT_HOME)));
        }
        match self.open_node(&call.node, &path, wanted, &who, false) {
            Ok(open) => {
                buf.push(&open);
                Ok(Answer::Plain)
            }
            Err(Errno::AGAIN) => {
                self.later(call, move |server, node, buf| {
                    buf.push(&server.open_node(node, &path, wanted, &who, true)?);
                    Ok(Answer::Plain)
                });
                Ok(Answer::Later)
            }
            Err(errno) => Err(Refused(errno)),
        }
    }

    pub(crate) fn open_node(
        &self,
        node: &Arc<Node>,
        path: &OwnedFd,
        wanted: OpenMode,
        who: &Credentials,
        waits: bool,
    ) -> Result<OpenOut> {
        if !node.is_file() {
            return Err(Errno::NXIO);
        }
        let changes = wanted.writes || wanted.truncates();
        let cached = changes && self.writer_comes(node, path);
        let file = self.authority.assume(who).and_then(|()| wanted.reopen(path, waits));
        if changes && (file.is_err() || !wanted.writes) {
            self.writer_gone(node);
        }
        let file = Arc::new(file?);
        if wanted.writes {
            return self.opened_writer(node, file, wanted, cached, who);
        }
        self.opened_reader(node, file, who)
    }

    pub(crate) fn opened_reader(&self, node: &Arc<Node>, file: Arc<OwnedFd>, who: &Credentials) -> Result<OpenOut> {
        let fh = self.handles.next();
        let cached = self.reader_opened(node, fh, &file);
        let open = Open { node: node.clone(), file, kind: Kind::Reader { cached }, opener: who.clone() };
        self.handles.insert(fh, open).inspect_err(|_| self.reader_gone(node, fh))?;
        let cache = if cached { fopen::KEEP_CACHE } else { fopen::DIRECT_IO };
        Ok(OpenOut { fh, open_flags: cache | fopen::NOFLUSH, backing_id: 0 })
    }

    pub(crate) fn opened_writer(
        &self,
        node: &Arc<Node>,
        file: Arc<OwnedFd>,
        wanted: OpenMode,
        cached: bool,
        who: &Credentials,
    ) -> Result<OpenOut> {
        let fh = self.handles.next();
        // Appended bytes go to the end of file at home, which may differ from where the room's
        // kernel would cache them.
        let cached = cached && !wanted.only_appends();
        let kind = Kind::Writer { cached, appends: Default::default(), failed: Default::default() };
        let open = Open { node: node.clone(), file, kind, opener: who.clone() };
        self.handles.insert(fh, open).inspect_err(|_| self.writer_gone(node))?;
        let cache = if cached { fopen::KEEP_CACHE } else { fopen::DIRECT_IO };
        let behind = if self.allows_behind(node, wanted) { fopen::BEHIND } else { 0 };
        Ok(OpenOut { fh, open_flags: cache | behind, backing_id: 0 })
    }

    /// Tells whether the room may answer writes through this open before home has made them. Where
    /// a file system is exported twice, the room must hear from home what it changes itself.
    fn allows_behind(&self, node: &Node, wanted: OpenMode) -> bool {
        let at_once = OFlags::SYNC | OFlags::DSYNC;
        let export = self.export(node);
        !wanted.flags.intersects(at_once) && !export.shares_file_system && !self.space_is_scarce(node)
    }

    fn space_is_scarce(&self, node: &Node) -> bool {
        let export = self.export(node);
        export.space.is_scarce(&export.any)
    }

    pub(crate) fn read(self: &Arc<Self>, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let read = call.request.args().take::<ReadIn>()?;
        let open = self.handles.get(read.fh, call.node.id)?;
        if matches!(open.kind, Kind::Stream) {
            return self.read_fifo(call, &read, open);
        }
        let keep = !matches!(open.kind, Kind::Reader { cached: true } | Kind::Writer { cached: true, .. })
            || self.may_cache_read(&call.node);
        let size = (read.size as usize).min(MAX_IO_BYTES);
        buf.fill(size, |space| read_fully(&open.file, space, read.offset))?;
        Ok(if keep { Answer::Plain } else { Answer::Uncached(call.node.clone()) })
    }

    /// Makes this thread act as the writer. Writes by threads that home does not know (the kernel's
    /// own) run as the opener.
    fn assume_writer(&self, call: &Call<'_>, open: &Open) -> Result<()> {
        let header = &call.request.header;
        let who = self.callers.credentials(header.pid, header.uid, header.gid);
        self.authority.assume(who.as_ref().unwrap_or(&open.opener))
    }

    pub(crate) fn write(self: &Arc<Self>, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let mut args = call.request.args();
        let write = args.take::<WriteIn>()?;
        let data = args.bytes(write.size as usize)?;
        let open = self.handles.get(write.fh, call.node.id)?;
        if matches!(open.kind, Kind::Stream) {
            return self.write_fifo(call, &write, data, open);
        }
        let Kind::Writer { appends, failed, .. } = &open.kind else { return Err(Refused(Errno::BADF)) };
        let offset = i64::try_from(write.offset).map_err(|_| Errno::FBIG)?;
        match failed.load(Ordering::Relaxed) {
            0 => {}
            errno if call.is_behind => return Err(Refused(Errno::from_raw_os_error(errno))),
            _ => failed.store(0, Ordering::Relaxed),
        }
        self.assume_writer(call, &open)?;
        let written = if OFlags::from_bits_retain(write.flags).contains(OFlags::APPEND) {
            let _turn = lock(appends);
            sys::write_at(open.file.as_fd(), data, -1, libc::RWF_APPEND).and_then(|size| {
                let end = rustix::fs::tell(&*open.file)?;
                if end != write.offset + size as u64 {
                    // Others had appended, so the room's kernel may have cached these bytes at the
                    // wrong place.
                    self.emit(&call.node, Change::Content);
                }
                Ok(size)
            })
        } else {
            sys::write_at(open.file.as_fd(), data, offset, 0)
        };
        if call.is_behind && written != Ok(data.len()) {
            let errno = written.err().unwrap_or(Errno::NOSPC);
            failed.store(errno.raw_os_error(), Ordering::Relaxed);
            // The room has cached the bytes.
            self.emit(&call.node, Change::Content);
        }
        let written = written?;
        let padding = if self.space_is_scarce(&call.node) { SPACE_IS_SCARCE } else { 0 };
        buf.push(&WriteOut { size: written as u32, padding });
        Ok(Answer::Plain)
    }

    pub(crate) fn release(&self, call: &Call<'_>) -> Outcome {
        let release = call.request.args().take::<ReleaseIn>()?;
        let open = self.handles.remove(release.fh, call.node.id).ok_or(Errno::BADF)?;
        self.closed(release.fh, open);
        Ok(Answer::Plain)
    }

    /// Gives the access modes with which a user's programs in the room have this file open for
    /// writing. The modes are those of home's own open files; the room does not report them.
    pub fn written_modes(&self, file: FileId, uid: u32) -> Vec<OFlags> {
        let all = self.handles.written(file).into_iter().filter(|(_, open)| open.opener.uid == uid);
        all.filter_map(|(_, open)| rustix::fs::fcntl_getfl(&*open.file).ok()).map(|had| had & OFlags::ACCMODE).collect()
    }

    /// Closes files that a process had open for writing (device and inode, once for each open) and
    /// that has left the room. The room reports the closes itself, but later; until then no process
    /// could execute the files. A file that others there have opened stays open, and so do files
    /// with locks, which may have moved along.
    pub fn let_go_written(&self, files: &[(u64, u64)]) {
        let distinct: BTreeSet<(u64, u64)> = files.iter().copied().collect();
        for which in distinct {
            let had = files.iter().filter(|file| **file == which).count();
            let open = self.handles.written(FileId { device: which.0, inode: which.1 });
            let locked = |fh: u64| self.locks.is_locked_through(fh) || self.locks.is_given(fh);
            if had != open.len() || open.iter().any(|(fh, _)| locked(*fh)) {
                continue;
            }
            for (fh, written) in open {
                self.handles.remove(fh, written.node.id);
                self.closed(fh, written);
            }
        }
    }

    /// Cleans up after an open file has been removed from the table.
    pub(crate) fn closed(&self, fh: u64, open: Arc<Open>) {
        let node = open.node.clone();
        self.locks.release_handle(node.id, fh);
        match open.kind {
            Kind::Reader { .. } => self.reader_gone(&node, fh),
            Kind::Writer { .. } => {
                // The descriptor is closed first: while it is open for writing, no lease is
                // granted.
                let held = self.may_be_held(&open);
                drop(open);
                self.writer_gone(&node);
                held.into_iter().for_each(|file| self.closed_held(file));
            }
            Kind::Dir(_) | Kind::Stream => {}
        }
    }

    pub(crate) fn flush(&self, call: &Call<'_>) -> Outcome {
        let flush = call.request.args().take::<FlushIn>()?;
        self.locks.release_owner(call.node.id, flush.lock_owner);
        Ok(Answer::Plain)
    }

    pub(crate) fn fsync(&self, call: &Call<'_>) -> Outcome {
        let sync = call.request.args().take::<FsyncIn>()?;
        let open = self.handles.get(sync.fh, call.node.id)?;
        if sync.fsync_flags & proto::FSYNC_FDATASYNC != 0 {
            rustix::fs::fdatasync(&*open.file)?;
        } else {
            rustix::fs::fsync(&*open.file)?;
        }
        Ok(Answer::Plain)
    }

    pub(crate) fn fallocate(&self, call: &Call<'_>) -> Outcome {
        let args = call.request.args().take::<FallocateIn>()?;
        let open = self.handles.get(args.fh, call.node.id)?;
        self.assume_writer(call, &open)?;
        rustix::fs::fallocate(&*open.file, FallocateFlags::from_bits_retain(args.mode), args.offset, args.length)?;
        Ok(Answer::Plain)
    }

    pub(crate) fn lseek(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let seek = call.request.args().take::<LseekIn>()?;
        let open = self.handles.get(seek.fh, call.node.id)?;
        let to = match seek.whence as i32 {
            libc::SEEK_DATA => SeekFrom::Data(seek.offset),
            libc::SEEK_HOLE => SeekFrom::Hole(seek.offset),
            libc::SEEK_END => SeekFrom::End(seek.offset as i64),
            _ => return Err(Refused(Errno::INVAL)),
        };
        buf.push(&LseekOut { offset: rustix::fs::seek(&*open.file, to)? });
        Ok(Answer::Plain)
    }

    pub(crate) fn copy_file_range(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let copy = call.request.args().take::<CopyFileRangeIn>()?;
        let target = self.node(call.mount, copy.nodeid_out).ok_or(Errno::STALE)?;
        let from = self.handles.get(copy.fh_in, call.node.id)?;
        let to = self.handles.get(copy.fh_out, target.id)?;
        self.assume_writer(call, &to)?;
        let (mut off_in, mut off_out) = (copy.off_in, copy.off_out);
        let len = usize::try_from(copy.len).unwrap_or(usize::MAX).min(1 << 30);
        let size = rustix::fs::copy_file_range(&*from.file, Some(&mut off_in), &*to.file, Some(&mut off_out), len)?;
        buf.push(&WriteOut { size: size as u32, padding: 0 });
        Ok(Answer::Plain)
    }

    pub(crate) fn syncfs(&self, call: &Call<'_>) -> Outcome {
        rustix::fs::syncfs(&self.export(&call.node).any)?;
        Ok(Answer::Plain)
    }
}

/// Reads until the space is full or the file ends: to the kernel a short reply means the end of the
/// file.
fn read_fully(file: &OwnedFd, space: &mut [u8], offset: u64) -> Result<usize> {
    let mut filled = 0;
    while filled < space.len() {
        match rustix::io::pread(file, &mut space[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(errno) if filled == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(filled)
}
