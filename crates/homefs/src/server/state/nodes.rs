//! The nodes that the room's kernel knows: node id to inode.
//!
//! A node is known by its file handle, which needs no descriptor and survives renames. An O_PATH
//! descriptor is kept while the node is in use, for a bounded number of nodes. Node ids count up
//! and are never reused. On file systems without handles the descriptor stays open, and keeps the
//! inode number from being reused.

use super::content::Content;
use super::creds::Authority;
use super::mutex::lock;
use super::proc_path::proc_path;
use crate::proto::Attr;
use crate::sys;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// One inode that the room knows.
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) export: u16,
    pub(crate) file_type: FileType,
    /// File handle, or a substitute where there are none.
    key: Box<[u8]>,
    pinned: bool,
    fd: Mutex<Option<Arc<OwnedFd>>>,
    fd_used: AtomicBool,
    /// Lookups that the room's kernel has not forgotten; changed under the table's lock.
    lookups: AtomicU64,
    /// Whether a mark watches the inode, so that its state may be cached.
    watched: AtomicBool,
    /// Number of the newest invalidation of its attributes or content.
    pub(crate) changed: AtomicU64,
    /// Number of the newest invalidation of a name in it.
    pub(crate) names_changed: AtomicU64,
    /// Whether another process has opened it since the room opened it for writing.
    pub(crate) opened_elsewhere: AtomicBool,
    /// Directories through which the room was told of the node since it was last told to forget
    /// something of it. Changed under `order`.
    pub(crate) named_in: Mutex<Vec<u64>>,
    pub(crate) content: Mutex<Content>,
    /// Whether the file has no name, and may get one.
    pub(crate) may_be_named: AtomicBool,
}

impl Node {
    pub(crate) fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    pub(crate) fn is_file(&self) -> bool {
        self.file_type == FileType::RegularFile
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire)
    }

    /// Tells whether another process has opened it since the room opened it for writing.
    pub(crate) fn is_opened_elsewhere(&self) -> bool {
        self.opened_elsewhere.load(Ordering::Relaxed)
    }

    pub(crate) fn set_watched(&self) {
        self.watched.store(true, Ordering::Release);
    }

    /// Gives the attributes as the room is told them. A kernel refuses to link a file that has no
    /// links, unless the file was created without a name. The room's kernel does not know that of a
    /// file that has moved there, so the attributes report at least one link.
    pub(crate) fn shown(&self, attr: Attr) -> Attr {
        let named = self.may_be_named.load(Ordering::Relaxed) && self.file_type == FileType::RegularFile;
        Attr { nlink: if named { attr.nlink.max(1) } else { attr.nlink }, ..attr }
    }
}

#[derive(Default)]
struct Maps {
    by_id: HashMap<u64, Arc<Node>>,
    by_key: HashMap<(u16, Box<[u8]>), Arc<Node>>,
}

/// All nodes that a room knows.
pub(crate) struct Nodes {
    maps: Mutex<Maps>,
    next_id: AtomicU64,
    kept: Mutex<VecDeque<Weak<Node>>>,
    /// The most O_PATH descriptors that are kept.
    most_kept: usize,
    authority: Authority,
}

impl Nodes {
    pub(crate) fn new(authority: Authority, most_kept: usize) -> Nodes {
        Nodes {
            most_kept,
            maps: Mutex::default(),
            next_id: AtomicU64::new(crate::proto::ROOT_ID + 1),
            kept: Mutex::default(),
            authority,
        }
    }

    /// Gives the node of this open inode, created if it is new, and counts one more lookup.
    pub(crate) fn intern(&self, export: u16, fd: OwnedFd, file_type: FileType) -> Result<(Arc<Node>, Arc<OwnedFd>)> {
        let (key, pinned) = match sys::handle_of(fd.as_fd()) {
            Ok(key) => (key, false),
            Err(Errno::OPNOTSUPP | Errno::OVERFLOW) => {
                let stat = rustix::fs::fstat(&fd)?;
                ([&b"ino "[..], &stat.st_dev.to_le_bytes(), &stat.st_ino.to_le_bytes()].concat().into(), true)
            }
            Err(errno) => return Err(errno),
        };
        let mut maps = lock(&self.maps);
        if let Some(known) = maps.by_key.get(&(export, key.clone())) {
            known.lookups.fetch_add(1, Ordering::Relaxed);
            let known = known.clone();
            drop(maps);
            let fd = self.keep(&known, fd);
            return Ok((known, fd));
        }
        let node = Arc::new(Node {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            export,
            file_type,
            key: key.clone(),
            pinned,
            fd: Mutex::default(),
            fd_used: AtomicBool::new(false),
            lookups: AtomicU64::new(1),
            watched: AtomicBool::new(false),
            changed: AtomicU64::new(0),
            names_changed: AtomicU64::new(0),
            opened_elsewhere: AtomicBool::new(false),
            named_in: Mutex::default(),
            content: Mutex::default(),
            may_be_named: AtomicBool::new(false),
        });
        maps.by_id.insert(node.id, node.clone());
        maps.by_key.insert((export, key), node.clone());
        drop(maps);
        let fd = self.keep(&node, fd);
        Ok((node, fd))
    }

    /// Gives a number that no node has or will have.
    pub(crate) fn unused_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn by_id(&self, id: u64) -> Option<Arc<Node>> {
        lock(&self.maps).by_id.get(&id).cloned()
    }

    pub(crate) fn by_key(&self, export: u16, key: &[u8]) -> Option<Arc<Node>> {
        lock(&self.maps).by_key.get(&(export, key.into())).cloned()
    }

    /// Tells whether the inode of a forgotten node is known again, by another node.
    pub(crate) fn is_known_again(&self, node: &Node) -> bool {
        lock(&self.maps).by_key.contains_key(&(node.export, node.key.clone()))
    }

    /// Lists all nodes of an export.
    pub(crate) fn of_export(&self, export: u16) -> Vec<Arc<Node>> {
        lock(&self.maps).by_id.values().filter(|n| n.export == export).cloned().collect()
    }

    /// Drops lookups of a node. With the last one, the room's kernel does not know the node any
    /// more.
    pub(crate) fn forget(&self, node: &Node, count: u64) {
        let mut maps = lock(&self.maps);
        let left = node.lookups.load(Ordering::Relaxed).saturating_sub(count);
        node.lookups.store(left, Ordering::Relaxed);
        if left == 0 {
            maps.by_id.remove(&node.id);
            maps.by_key.remove(&(node.export, node.key.clone()));
        }
    }

    /// Gives an O_PATH descriptor of the node; `any` is a descriptor on its file system.
    pub(crate) fn path_fd(&self, node: &Arc<Node>, any: &OwnedFd) -> Result<Arc<OwnedFd>> {
        if let Some(fd) = lock(&node.fd).as_ref() {
            node.fd_used.store(true, Ordering::Relaxed);
            return Ok(fd.clone());
        }
        self.authority.resume()?;
        let fd = sys::open_handle(any.as_fd(), &node.key, libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC)?;
        Ok(self.keep(node, fd))
    }

    fn keep(&self, node: &Arc<Node>, fd: OwnedFd) -> Arc<OwnedFd> {
        let kept = {
            let mut slot = lock(&node.fd);
            node.fd_used.store(true, Ordering::Relaxed);
            if let Some(there) = slot.as_ref() {
                return there.clone();
            }
            slot.insert(Arc::new(fd)).clone()
        };
        if !node.pinned {
            let mut queue = lock(&self.kept);
            queue.push_back(Arc::downgrade(node));
            self.evict(&mut queue);
        }
        kept
    }

    /// Evicts descriptors by second chance: one that was used since the last check stays.
    fn evict(&self, queue: &mut VecDeque<Weak<Node>>) {
        while queue.len() > self.most_kept {
            let Some(oldest) = queue.pop_front() else { return };
            let Some(node) = oldest.upgrade() else { continue };
            if node.fd_used.swap(false, Ordering::Relaxed) {
                queue.push_back(oldest);
            } else {
                lock(&node.fd).take();
            }
        }
    }
}

/// Opens the file of an O_PATH descriptor with this thread's rights.
pub(crate) fn reopen(path_fd: &OwnedFd, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::open(&*proc_path(path_fd), flags | OFlags::CLOEXEC, Mode::empty())
}
