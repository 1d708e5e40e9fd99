//! Exports: mounted file systems, each without what is mounted below it.

use super::nodes::{Node, Nodes, reopen};
use super::space::Space;
use crate::server::error::ServeError;
use crate::sys;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A mount of home that rooms can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Mount point, an absolute path.
    pub path: PathBuf,
}

pub(crate) struct OpenExport {
    /// Mount point of the export.
    pub(crate) path: PathBuf,
    /// A private copy of the mount, O_PATH: a directory, or the file that is mounted on another.
    /// Paths in it never leave the file system, and reach what other mounts cover.
    pub(crate) tree: Arc<OwnedFd>,
    /// The same opened for reading, through which handles are opened.
    pub(crate) any: OwnedFd,
    pub(crate) root: Arc<Node>,
    pub(crate) fsid: [u8; 8],
    /// Whether another export shows the same file system.
    pub(crate) shares_file_system: bool,
    pub(crate) space: Space,
}

pub(crate) fn open_all(exports: &[Export], nodes: &Nodes) -> Result<Vec<OpenExport>, ServeError> {
    let mut open = Vec::new();
    for (index, export) in exports.iter().enumerate() {
        let failed =
            |what| move |source: Errno| ServeError::Export { path: export.path.clone(), what, source: source.into() };
        let index = u16::try_from(index).map_err(|_| failed("counting the exports")(Errno::OVERFLOW))?;
        open.push(open_one(export, index, nodes, failed)?);
    }
    for i in 0..open.len() {
        open[i].shares_file_system = (0..open.len()).any(|j| j != i && open[j].fsid == open[i].fsid);
    }
    Ok(open)
}

fn open_one<F: FnOnce(Errno) -> ServeError>(
    export: &Export,
    index: u16,
    nodes: &Nodes,
    failed: impl Fn(&'static str) -> F,
) -> Result<OpenExport, ServeError> {
    let path =
        CString::new(export.path.as_os_str().as_bytes()).map_err(|_| failed("reading its path")(Errno::INVAL))?;
    let tree = sys::clone_mount(&path).map_err(failed("copying the mount (open_tree)"))?;
    let stat = rustix::fs::fstat(&tree).map_err(failed("reading its root's type"))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !matches!(kind, FileType::Directory | FileType::RegularFile) {
        return Err(failed("opening its root: neither a directory nor a regular file")(Errno::INVAL));
    }
    let any = reopen(&tree, OFlags::RDONLY).map_err(failed("opening its root"))?;
    let root_fd = rustix::io::fcntl_dupfd_cloexec(&tree, 0).map_err(failed("opening its root"))?;
    let (root, _) = nodes.intern(index, root_fd, kind).map_err(failed("reading its root's handle"))?;
    let stat = rustix::fs::fstatfs(&any).map_err(failed("reading its file system id (fstatfs)"))?;
    // SAFETY: fsid_t is two ints without padding.
    let fsid = unsafe { std::mem::transmute_copy(&stat.f_fsid) };
    let space = Space::of(&any);
    Ok(OpenExport {
        path: export.path.clone(),
        tree: Arc::new(tree),
        any,
        root,
        fsid,
        shares_file_system: false,
        space,
    })
}
