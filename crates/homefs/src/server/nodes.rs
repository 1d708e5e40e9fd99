//! The nodes that the room's kernel knows: node id to inode.
//!
//! A node is remembered by its file handle, which costs no descriptor and survives renames; an O_PATH descriptor is kept
//! while it is in use, a bounded number of them. Node ids count up and are never used again. Where a file system has no handles
//! the descriptor stays, and keeps the inode's number from being used again.

use super::content::Content;
use super::creds::Authority;
use super::sys;
use super::{lock, proc_path};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// One inode known to the room.
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) export: u16,
    pub(super) file_type: FileType,
    /// Handle, or what stands for it where there are none.
    key: Box<[u8]>,
    pinned: bool,
    fd: Mutex<Option<Arc<OwnedFd>>>,
    fd_used: AtomicBool,
    /// Lookups that the room's kernel has not forgotten; changed under the table's lock.
    lookups: AtomicU64,
    /// A mark watches the inode: what is known of it may be cached.
    watched: AtomicBool,
    /// Newest invalidation of its attributes or content.
    pub(super) changed: AtomicU64,
    /// Newest invalidation of a name in it.
    pub(super) names_changed: AtomicU64,
    /// Somebody else has opened it since the room opened it for writing.
    pub(super) opened_elsewhere: AtomicBool,
    /// Directories through which the room was told of the node since it was last told to forget something of it. Changed in order.
    pub(super) named_in: Mutex<Vec<u64>>,
    pub(super) content: Mutex<Content>,
    /// It has no name, and may get one.
    pub(super) may_be_named: AtomicBool,
}

impl Node {
    pub(super) fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    pub(super) fn is_file(&self) -> bool {
        self.file_type == FileType::RegularFile
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire)
    }

    pub(super) fn set_watched(&self) {
        self.watched.store(true, Ordering::Release);
    }
}

#[derive(Default)]
struct Maps {
    by_id: HashMap<u64, Arc<Node>>,
    by_key: HashMap<(u16, Box<[u8]>), Arc<Node>>,
}

/// All nodes of a room.
pub(super) struct Nodes {
    maps: Mutex<Maps>,
    next_id: AtomicU64,
    kept: Mutex<VecDeque<Weak<Node>>>,
    /// O_PATH descriptors kept at most.
    most_kept: usize,
    authority: Authority,
}

impl Nodes {
    pub(super) fn new(authority: Authority, most_kept: usize) -> Nodes {
        Nodes {
            most_kept,
            maps: Mutex::default(),
            next_id: AtomicU64::new(crate::proto::ROOT_ID + 1),
            kept: Mutex::default(),
            authority,
        }
    }

    /// The node of this open inode, made if it is new, with one lookup more.
    pub(super) fn intern(&self, export: u16, fd: OwnedFd, file_type: FileType) -> Result<(Arc<Node>, Arc<OwnedFd>)> {
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

    /// A number that no node has or will have.
    pub(super) fn unused_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn by_id(&self, id: u64) -> Option<Arc<Node>> {
        lock(&self.maps).by_id.get(&id).cloned()
    }

    pub(super) fn by_key(&self, export: u16, key: &[u8]) -> Option<Arc<Node>> {
        lock(&self.maps).by_key.get(&(export, key.into())).cloned()
    }

    /// The inode of a forgotten node is known again, by another node.
    pub(super) fn is_known_again(&self, node: &Node) -> bool {
        lock(&self.maps).by_key.contains_key(&(node.export, node.key.clone()))
    }

    /// All nodes of an export.
    pub(super) fn of_export(&self, export: u16) -> Vec<Arc<Node>> {
        lock(&self.maps).by_id.values().filter(|n| n.export == export).cloned().collect()
    }

    /// The room's kernel drops lookups of a node; with the last one it knows nothing of it any more.
    pub(super) fn forget(&self, node: &Node, count: u64) {
        let mut maps = lock(&self.maps);
        let left = node.lookups.load(Ordering::Relaxed).saturating_sub(count);
        node.lookups.store(left, Ordering::Relaxed);
        if left == 0 {
            maps.by_id.remove(&node.id);
            maps.by_key.remove(&(node.export, node.key.clone()));
        }
    }

    /// An O_PATH descriptor of the node; `any` is a descriptor on its file system.
    pub(super) fn path_fd(&self, node: &Arc<Node>, any: &OwnedFd) -> Result<Arc<OwnedFd>> {
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

    /// Second chance: a descriptor used since it was last looked at stays.
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

/// Opens what an O_PATH descriptor names, with this thread's rights.
pub(super) fn reopen(path_fd: &OwnedFd, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::open(&*proc_path(path_fd), flags | OFlags::CLOEXEC, Mode::empty())
}
