//! Names: looking up, creating, removing and renaming. All names are one component, relative to a
//! directory's descriptor, and links are never followed.

use super::attr;
use crate::proto::{Attr, EntryOut, LinkIn, MkdirIn, MknodIn, NEW_DIRECTORY, Rename2In, RenameIn, ReplyBuf};
use crate::server::Server;
use crate::server::base::answer::{Answer, Call, Outcome, Refused, valid_s};
use crate::server::state::nodes::{Node, reopen};
use crate::server::state::proc_path::proc_path;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, Result};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl Server {
    pub(crate) fn lookup(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let name = call.request.args().name()?;
        let dir_fd = self.watched_path(&call.node)?;
        self.assume(call)?;
        let found = self.removed_child(&call.node, name).unwrap_or_else(|| self.child(&call.node, &dir_fd, name));
        match found {
            Ok((node, entry)) => {
                buf.push(&entry);
                Ok(Answer::Entry { dir: call.node.clone(), node: Some(node) })
            }
            Err(Errno::NOENT) => {
                buf.push(&EntryOut { entry_valid: valid_s(&call.node), ..Default::default() });
                Ok(Answer::Entry { dir: call.node.clone(), node: None })
            }
            Err(errno) => Err(Refused(errno)),
        }
    }

    /// Looks up a name with this thread's rights. If the node is new, the thread does not act as
    /// the caller any more afterwards.
    pub(crate) fn child(&self, dir: &Arc<Node>, dir_fd: &OwnedFd, name: &CStr) -> Result<(Arc<Node>, EntryOut)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir_fd, name, flags, Mode::empty())?;
        self.entry_of(dir, fd)
    }

    /// Builds the entry of an inode that was found or created in a directory.
    pub(crate) fn entry_of(&self, dir: &Arc<Node>, fd: OwnedFd) -> Result<(Arc<Node>, EntryOut)> {
        let mut stat = attr::stat(&fd)?;
        let file_type = FileType::from_raw_mode(stat.stx_mode.into());
        let (node, fd) = self.nodes.intern(dir.export, fd, file_type)?;
        if !node.is_watched() {
            // Attributes read before the mark is set may change unnoticed, so they are read again
            // afterwards.
            let again = self.authority.resume().map(|()| self.watch.begin(&node, &fd)).and_then(|()| attr::stat(&fd));
            stat = again.inspect_err(|_| self.nodes.forget(&node, 1))?;
        }
        let special = matches!(file_type, FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice);
        let entry = EntryOut {
            nodeid: node.id,
            entry_valid: if special { 0 } else { valid_s(dir) },
            attr_valid: valid_s(&node),
            attr: node.shown(attr::attr_of(&stat)),
            ..Default::default()
        };
        Ok((node, entry))
    }

    /// Replies with the entry of what was just created. Another process may have removed it since,
    /// or put something else in its place. The creation succeeded all the same, and the room's
    /// kernel wants an entry. It gets one of a node on which every operation fails, and looks the
    /// name up again when it needs it.
    fn made(&self, call: &Call<'_>, dir_fd: &OwnedFd, name: &CStr, made: FileType, buf: &mut ReplyBuf) -> Outcome {
        let node = match self.child(&call.node, dir_fd, name) {
            Ok((node, entry)) if FileType::from_raw_mode(entry.attr.mode) == made => {
                buf.push(&entry);
                Some(node)
            }
            Ok((other, _)) => {
                self.nodes.forget(&other, 1);
                None
            }
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(Refused(errno)),
        };
        if node.is_none() {
            let nodeid = self.nodes.unused_id();
            let attr = Attr { ino: nodeid, mode: made.as_raw_mode(), blksize: 4096, ..Attr::default() };
            buf.push(&EntryOut { nodeid, attr, ..EntryOut::default() });
        }
        Ok(Answer::Entry { dir: call.node.clone(), node })
    }

    pub(crate) fn mkdir(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let mut args = call.request.args();
        let (make, name) = (args.take::<MkdirIn>()?, args.name()?);
        let dir_fd = self.watched_path(&call.node)?;
        self.assume(call)?;
        self.authority.set_umask(make.umask)?;
        rustix::fs::mkdirat(&*dir_fd, name, Mode::from_raw_mode(make.mode & 0o7777))?;
        let made = self.made(call, &dir_fd, name, FileType::Directory, buf)?;
        if let Answer::Entry { node: Some(node), .. } = &made
            && self.is_new(node)
        {
            // The flags of the attributes, in the entry.
            const AT: usize = std::mem::offset_of!(EntryOut, attr) + std::mem::offset_of!(Attr, flags);
            buf.payload_mut()[AT..AT + 4].copy_from_slice(&NEW_DIRECTORY.to_le_bytes());
        }
        Ok(made)
    }

    /// Tells whether the room can know all names in a directory that it has just made: the
    /// directory is empty since home watches it. Where a file system is exported twice, home's news
    /// tell of the room's own names, too.
    fn is_new(&self, node: &Arc<Node>) -> bool {
        if !node.is_watched() || self.export(node).shares_file_system {
            return false;
        }
        let is_empty = || {
            let path = self.path(node)?;
            let file = reopen(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            let mut names = rustix::fs::Dir::new(file)?.filter_map(Result::ok);
            Ok(names.all(|name| matches!(name.file_name().to_bytes(), b"." | b"..")))
        };
        self.authority.with_own_rights(is_empty).is_ok_and(|empty: Result<bool>| empty == Ok(true))
    }

    pub(crate) fn mknod(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let mut args = call.request.args();
        let (make, name) = (args.take::<MknodIn>()?, args.name()?);
        let dir_fd = self.watched_path(&call.node)?;
        self.assume(call)?;
        self.authority.set_umask(make.umask)?;
        let mode = Mode::from_raw_mode(make.mode & 0o7777);
        // The room's kernel encodes device numbers as `new_encode_dev` does, and so does mknod(2).
        let (major, minor) = ((make.rdev >> 8) & 0xfff, (make.rdev & 0xff) | ((make.rdev >> 12) & 0xfff00));
        let device = rustix::fs::makedev(major, minor);
        let kind = FileType::from_raw_mode(make.mode);
        rustix::fs::mknodat(&*dir_fd, name, kind, mode, device)?;
        self.made(call, &dir_fd, name, kind, buf)
    }

    pub(crate) fn symlink(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let mut args = call.request.args();
        let (name, target) = (args.name()?, args.string()?);
        let dir_fd = self.watched_path(&call.node)?;
        self.assume(call)?;
        rustix::fs::symlinkat(target, &*dir_fd, name)?;
        self.made(call, &dir_fd, name, FileType::Symlink, buf)
    }

    pub(crate) fn link(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let mut args = call.request.args();
        let (link, name) = (args.take::<LinkIn>()?, args.name()?);
        let old = self.node(call.mount, link.oldnodeid).ok_or(Errno::STALE)?;
        let old_fd = self.path(&old)?;
        let dir_fd = self.watched_path(&call.node)?;
        self.assume(call)?;
        // By the path in /proc, because AT_EMPTY_PATH needs a capability.
        rustix::fs::linkat(rustix::fs::CWD, &*proc_path(&old_fd), &*dir_fd, name, AtFlags::SYMLINK_FOLLOW)?;
        let kind = FileType::from_raw_mode(attr::stat(&*old_fd)?.stx_mode.into());
        self.made(call, &dir_fd, name, kind, buf)
    }

    pub(crate) fn unlink(&self, call: &Call<'_>, directory: bool) -> Outcome {
        let name = call.request.args().name()?;
        let dir_fd = self.path(&call.node)?;
        self.assume(call)?;
        let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&*dir_fd, name, flags)?;
        Ok(Answer::Plain)
    }

    pub(crate) fn rename(&self, call: &Call<'_>, with_flags: bool) -> Outcome {
        let mut args = call.request.args();
        let (new_dir, flags) = if with_flags {
            let rename = args.take::<Rename2In>()?;
            (rename.newdir, rename.flags)
        } else {
            (args.take::<RenameIn>()?.newdir, 0)
        };
        let (old_name, new_name) = (args.name()?, args.name()?);
        let new_dir = self.node(call.mount, new_dir).ok_or(Errno::STALE)?;
        let (old_fd, new_fd) = (self.path(&call.node)?, self.path(&new_dir)?);
        self.assume(call)?;
        let flags = RenameFlags::from_bits_retain(flags);
        rustix::fs::renameat_with(&*old_fd, old_name, &*new_fd, new_name, flags)?;
        Ok(Answer::Plain)
    }

    pub(crate) fn readlink(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let fd = self.path(&call.node)?;
        let target = rustix::fs::readlinkat(&*fd, c"", Vec::with_capacity(256))?;
        buf.extend(target.to_bytes());
        Ok(Answer::Plain)
    }
}
