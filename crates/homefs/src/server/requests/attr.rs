//! Reading and changing attributes.

use super::fifos;
use crate::proto::{self, Attr, AttrOut, GetattrIn, Kstatfs, ReplyBuf, SetattrIn, fattr};
use crate::server::Server;
use crate::server::base::answer::valid_s;
use crate::server::base::answer::{Answer, Call, Outcome, Refused};
use crate::server::state::handles::Kind;
use crate::server::state::nodes::{Node, reopen};
use crate::server::state::proc_path::proc_path;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Statx, StatxFlags, Timespec, Timestamps, Uid};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

pub(crate) fn stat(fd: impl AsFd) -> Result<Statx> {
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
}

/// Encodes a device number as the kernel's `new_encode_dev` does.
fn encode_device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

pub(crate) fn attr_of(stat: &Statx) -> Attr {
    Attr {
        ino: stat.stx_ino,
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        atime: stat.stx_atime.tv_sec as u64,
        mtime: stat.stx_mtime.tv_sec as u64,
        ctime: stat.stx_ctime.tv_sec as u64,
        atimensec: stat.stx_atime.tv_nsec,
        mtimensec: stat.stx_mtime.tv_nsec,
        ctimensec: stat.stx_ctime.tv_nsec,
        mode: stat.stx_mode.into(),
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev: encode_device(stat.stx_rdev_major, stat.stx_rdev_minor),
        blksize: stat.stx_blksize,
        flags: 0,
    }
}

impl Server {
    pub(crate) fn getattr(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let get = call.request.args().take::<GetattrIn>()?;
        let stat = self.stat_node(&call.node, (get.getattr_flags & proto::GETATTR_FH != 0).then_some(get.fh))?;
        Ok(self.attr_answer(&call.node, call.stands_in, &stat, buf))
    }

    fn attr_answer(&self, node: &Arc<Node>, stands_in: bool, stat: &Statx, buf: &mut ReplyBuf) -> Answer {
        let mut attr = node.shown(attr_of(stat));
        if stands_in {
            fifos::disguise(&mut attr);
        }
        buf.push(&AttrOut { attr_valid: valid_s(node), attr, ..Default::default() });
        Answer::Attr(node.clone())
    }

    /// Reads attributes, through the open file if there is one: the name may be gone.
    fn stat_node(&self, node: &Arc<Node>, fh: Option<u64>) -> Result<Statx> {
        match fh.and_then(|fh| self.handles.get(fh, node.id).ok()) {
            Some(open) => stat(&*open.file),
            None => stat(&*self.watched_path(node)?),
        }
    }

    pub(crate) fn setattr(self: &Arc<Self>, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let set = call.request.args().take::<SetattrIn>()?;
        let open = (set.valid & fattr::FH != 0).then(|| self.handles.get(set.fh, call.node.id)).and_then(Result::ok);
        let fd = match &open {
            Some(open) => open.file.clone(),
            None => self.path(&call.node)?,
        };
        if set.valid & fattr::SIZE != 0 {
            let writer = open.as_ref().filter(|open| matches!(open.kind, Kind::Writer { .. }));
            match writer {
                Some(open) => {
                    self.assume(call)?;
                    rustix::fs::ftruncate(&*open.file, set.size)?;
                }
                None => match self.truncate(call, &set)? {
                    Some(done) => return Ok(done),
                    None => {
                        self.assume(call)?;
                    }
                },
            }
        } else {
            self.assume(call)?;
        }
        self.set_rest(&set, &fd)?;
        let stat = stat(&*fd)?;
        Ok(self.attr_answer(&call.node, call.stands_in, &stat, buf))
    }

    /// Truncates a file that the room does not have open. Another room's lease may delay the call;
    /// then another thread continues with it.
    fn truncate(self: &Arc<Self>, call: &Call<'_>, set: &SetattrIn) -> std::result::Result<Option<Answer>, Refused> {
        let path = self.path(&call.node)?;
        self.writer_comes(&call.node, &path);
        let done = self.assume(call).and_then(|_| {
            let file = reopen(&path, OFlags::WRONLY | OFlags::NONBLOCK)?;
            rustix::fs::ftruncate(&file, set.size)
        });
        if done != Err(Errno::AGAIN) {
            self.writer_gone(&call.node);
            return Ok(done.map(|()| None)?);
        }
        let who = self.assume(call)?;
        let set = *set;
        self.later(call, move |server, node, buf| {
            let done = server.authority.assume(&who).and_then(|()| {
                let file = reopen(&path, OFlags::WRONLY)?;
                rustix::fs::ftruncate(&file, set.size)?;
                server.set_rest(&set, &path)?;
                stat(&*path)
            });
            server.writer_gone(node);
            Ok(server.attr_answer(node, false, &done?, buf))
        });
        Ok(Some(Answer::Later))
    }

    /// Sets owner, mode and times, in an order in which none undoes another.
    fn set_rest(&self, set: &SetattrIn, fd: &OwnedFd) -> Result<()> {
        let has = |bit: u32| set.valid & bit != 0;
        if has(fattr::UID | fattr::GID) {
            // The id that means "no change" belongs to nobody; chown(2) cannot set it.
            if has(fattr::UID) && set.uid == u32::MAX || has(fattr::GID) && set.gid == u32::MAX {
                return Err(Errno::INVAL);
            }
            let uid = has(fattr::UID).then(|| Uid::from_raw(set.uid));
            let gid = has(fattr::GID).then(|| Gid::from_raw(set.gid));
            rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if has(fattr::MODE) {
            let mode = Mode::from_raw_mode(set.mode & 0o7777);
            rustix::fs::chmodat(rustix::fs::CWD, &*proc_path(fd), mode, AtFlags::empty())?;
        }
        if has(fattr::ATIME | fattr::MTIME) {
            let time = |given: bool, now: bool, sec: u64, nsec: u32| match (given, now) {
                (false, _) => Timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT },
                (true, true) => Timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW },
                (true, false) => Timespec { tv_sec: sec as i64, tv_nsec: nsec.min(999_999_999).into() },
            };
            let times = Timestamps {
                last_access: time(has(fattr::ATIME), has(fattr::ATIME_NOW), set.atime, set.atimensec),
                last_modification: time(has(fattr::MTIME), has(fattr::MTIME_NOW), set.mtime, set.mtimensec),
            };
            rustix::fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }

    pub(crate) fn statfs(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let stat = rustix::fs::fstatfs(&self.export(&call.node).any)?;
        buf.push(&Kstatfs {
            blocks: stat.f_blocks,
            bfree: stat.f_bfree,
            bavail: stat.f_bavail,
            files: stat.f_files,
            ffree: stat.f_ffree,
            bsize: stat.f_bsize as u32,
            namelen: stat.f_namelen as u32,
            frsize: stat.f_frsize as u32,
            ..Default::default()
        });
        Ok(Answer::Plain)
    }
}
