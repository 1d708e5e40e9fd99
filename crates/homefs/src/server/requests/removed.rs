//! Removed files: a room is told a made-up name for a moment, and home finds the open files of a
//! room again.

use crate::proto::EntryOut;
use crate::removed;
use crate::server::Server;
use crate::server::state::export::OpenExport;
use crate::server::state::nodes::Node;
use crate::server::state::removed::NamedFile;
use crate::sys;
use rustix::fs::{Mode, OFlags};
use rustix::io::Result;
use std::ffi::{CStr, OsStr};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const PATH: i32 = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;

impl Server {
    /// Makes a name by which the room can open this file (O_PATH) until [`Server::unname`]; `None`
    /// if the room does not see its file system. `called` is the last name of the file.
    /// `may_be_named`: the file was created without a name (O_TMPFILE), and may get one.
    pub fn name_removed(&self, file: OwnedFd, called: &[u8], may_be_named: bool) -> Option<PathBuf> {
        let device = rustix::fs::fstat(&file).ok()?.st_dev;
        let here = |tree: &OwnedFd| rustix::fs::fstat(tree).is_ok_and(|s| s.st_dev == device);
        // Of several mounts of one file system, the one of the last name: the file could not be
        // linked into another.
        let within = |e: &OpenExport| Path::new(OsStr::from_bytes(called)).starts_with(&e.path);
        let fits = |e: &&OpenExport| (within(e), e.path.as_os_str().len());
        let export = self.exports.iter().filter(|e| e.root.is_dir() && here(&e.tree)).max_by_key(fits)?;
        let half = || u128::from(RandomState::new().build_hasher().finish());
        let name = removed::name(half() << 64 | half(), called);
        let path = export.path.join(OsStr::from_bytes(&name));
        // The file is opened in the export's own mount, the only one into which it could be linked.
        let again = sys::handle_of(file.as_fd()).and_then(|key| sys::open_handle(export.any.as_fd(), &key, PATH));
        self.removed.insert(name, NamedFile { file: Arc::new(again.unwrap_or(file)), may_be_named });
        Some(path)
    }

    /// Removes a made-up name.
    pub fn unname(&self, path: &Path) {
        if let Some(name) = path.file_name() {
            self.removed.remove(name.as_bytes());
        }
    }

    /// Finds the file of a made-up name in this directory.
    pub(crate) fn removed_child(&self, dir: &Arc<Node>, name: &CStr) -> Option<Result<(Arc<Node>, EntryOut)>> {
        if !removed::is_made_up(name.to_bytes()) || !Arc::ptr_eq(dir, &self.export(dir).root) {
            return None;
        }
        let lent = self.removed.get(name.to_bytes())?;
        let enter = || {
            let (node, mut entry) = self.entry_of(dir, rustix::io::fcntl_dupfd_cloexec(&*lent.file, 0)?)?;
            node.may_be_named.fetch_or(lent.may_be_named, Ordering::Relaxed);
            (entry.entry_valid, entry.attr) = (0, node.shown(entry.attr));
            Ok((node, entry))
        };
        Some(enter())
    }

    /// Opens a file that the room has open, by its inode number and a path on its file system. The
    /// name may be gone, or be another file's. The result is O_PATH, in the mount that home's
    /// processes see.
    pub fn open_in_room(&self, path: &Path, inode: u64) -> Option<OwnedFd> {
        let all = self.exports.iter().enumerate().filter(|(_, e)| path.starts_with(&e.path));
        let (number, export) = all.max_by_key(|(_, e)| e.path.as_os_str().len())?;
        let found = self.handles.find(number as u16, inode)?.file.clone();
        let mount = rustix::fs::open(&export.path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let again = mount.and_then(|mount| sys::open_handle(mount.as_fd(), &sys::handle_of(found.as_fd())?, PATH));
        again.ok().or_else(|| found.try_clone().ok())
    }
}
