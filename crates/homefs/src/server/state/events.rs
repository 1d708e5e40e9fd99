//! Changes that others make at home: fanotify marks on the inodes that the room knows, and the
//! invalidations that follow.
//!
//! The kernel queues an event before the call that caused it returns. Whatever a process has learnt
//! of a change, it learnt after the event was queued. Emptying the queue before every message to
//! the room therefore puts the invalidation first. Changes by this process are the room's own,
//! which the room's kernel has taken into account.

use super::export::OpenExport;
use super::mutex::lock;
use super::nodes::{Node, Nodes};
use super::proc_path::proc_path;
use crate::sys;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Events of a file. Opens are added while the room has the file open for writing.
const FILE_EVENTS: u64 = libc::FAN_MODIFY | libc::FAN_ATTRIB | libc::FAN_CLOSE_WRITE;
const DIR_EVENTS: u64 = libc::FAN_ATTRIB
    | libc::FAN_CREATE
    | libc::FAN_DELETE
    | libc::FAN_MOVED_FROM
    | libc::FAN_MOVED_TO
    | libc::FAN_ONDIR;
const NAME_EVENTS: u64 = libc::FAN_CREATE | libc::FAN_DELETE | libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO;

/// Since Linux 5.17: events on names also carry the named inode.
const FAN_REPORT_TARGET_FID: u32 = 0x1000;
const INFO_FID: u8 = 1;
const INFO_DFID_NAME: u8 = 2;
const INFO_DFID: u8 = 3;
/// Bytes of an event's metadata, before its information records (`fanotify(7)`).
const METADATA_BYTES: usize = 24;

/// A change at home of which the room may have an old state.
pub(crate) enum Change {
    /// The attributes changed.
    Attr,
    /// The content changed, and with it the attributes.
    Content,
    /// A name in a directory changed.
    Name(Vec<u8>),
    /// Any name in a directory may have changed.
    AllNames,
}

/// The event queue.
pub(crate) struct Events {
    fd: OwnedFd,
}

impl Events {
    pub(crate) fn new() -> Result<Events, Errno> {
        let flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_UNLIMITED_MARKS
            | libc::FAN_REPORT_FID
            | libc::FAN_REPORT_DIR_FID
            | libc::FAN_REPORT_NAME
            | FAN_REPORT_TARGET_FID;
        // SAFETY: the call takes only numbers.
        let fd = unsafe { libc::fanotify_init(flags, (libc::O_RDONLY | libc::O_CLOEXEC) as u32) };
        if fd < 0 {
            return Err(sys::last_errno());
        }
        // SAFETY: a new descriptor of ours.
        Ok(Events { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    pub(crate) fn mark(&self, path_fd: &OwnedFd, is_dir: bool) -> Result<(), Errno> {
        self.change_mark(libc::FAN_MARK_ADD, path_fd, is_dir)
    }

    pub(crate) fn unmark(&self, path_fd: &OwnedFd, is_dir: bool) -> Result<(), Errno> {
        self.change_mark(libc::FAN_MARK_REMOVE, path_fd, is_dir)
    }

    /// Starts or stops to listen for opens of this file.
    pub(crate) fn mark_opens(&self, path_fd: &OwnedFd, on: bool) -> Result<(), Errno> {
        self.change_mask(if on { libc::FAN_MARK_ADD } else { libc::FAN_MARK_REMOVE }, path_fd, libc::FAN_OPEN)
    }

    fn change_mark(&self, change: u32, path_fd: &OwnedFd, is_dir: bool) -> Result<(), Errno> {
        self.change_mask(change, path_fd, if is_dir { DIR_EVENTS } else { FILE_EVENTS })
    }

    fn change_mask(&self, change: u32, path_fd: &OwnedFd, mask: u64) -> Result<(), Errno> {
        // SAFETY: the path is a C string that lives through the call.
        let done = unsafe {
            libc::fanotify_mark(self.fd.as_raw_fd(), change, mask, libc::AT_FDCWD, proc_path(path_fd).as_ptr())
        };
        if done < 0 { Err(sys::last_errno()) } else { Ok(()) }
    }

    /// Reads events without waiting; 0 if there are none.
    pub(crate) fn read(&self, buf: &mut [u8]) -> usize {
        match rustix::io::read(&self.fd, buf) {
            Ok(bytes) => bytes,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(errno) => {
                tracing::error!(%errno, "cannot read the events of home's files");
                0
            }
        }
    }

    /// Duplicates the queue's descriptor, to wait on it.
    pub(crate) fn listener(&self) -> std::io::Result<OwnedFd> {
        self.fd.try_clone()
    }
}

/// Waits until there is an event, or until `stop` is readable; returns true in the latter case.
pub(crate) fn wait(events: &OwnedFd, stop: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(events, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    match poll(&mut fds, None) {
        Ok(_) => !fds[1].revents().is_empty(),
        Err(errno) => errno != Errno::INTR,
    }
}

/// The part of an event that matters here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    mask: u64,
    pid: i32,
    /// Directory and name of the event.
    entry: Option<(Inode<'a>, &'a [u8])>,
    /// The inode itself.
    inode: Option<Inode<'a>>,
}

/// An inode as fanotify identifies it: its file system, and its handle with the type first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inode<'a> {
    fsid: [u8; 8],
    key: &'a [u8],
}

impl<'a> Event<'a> {
    /// Splits the first event off the bytes.
    pub(crate) fn split(bytes: &'a [u8]) -> Option<(Event<'a>, &'a [u8])> {
        let len = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let (event, rest) = bytes.split_at_checked(len)?;
        let head = usize::from(u16::from_ne_bytes(event.get(6..8)?.try_into().ok()?));
        let mask = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
        let pid = i32::from_ne_bytes(event.get(20..METADATA_BYTES)?.try_into().ok()?);
        let mut parsed = Event { mask, pid, entry: None, inode: None };
        let mut records = event.get(head..)?;
        while let Some((&[kind, _, l0, l1], _)) = records.split_first_chunk::<4>() {
            let Some((record, next)) = records.split_at_checked(usize::from(u16::from_ne_bytes([l0, l1]))) else {
                break;
            };
            if record.is_empty() {
                break;
            }
            parsed.take_record(kind, record.get(4..)?);
            records = next;
        }
        Some((parsed, rest))
    }

    fn take_record(&mut self, kind: u8, body: &'a [u8]) -> Option<()> {
        let (fsid, handle) = body.split_first_chunk::<8>()?;
        let bytes = u32::from_ne_bytes(handle.get(..4)?.try_into().ok()?) as usize;
        let key = handle.get(4..8 + bytes)?;
        let inode = Inode { fsid: *fsid, key };
        match kind {
            INFO_FID | INFO_DFID => self.inode = Some(inode),
            INFO_DFID_NAME => {
                let name = handle.get(8 + bytes..)?.split(|b| *b == 0).next()?;
                if name == b"." {
                    self.inode.get_or_insert(inode);
                } else {
                    self.entry = Some((inode, name));
                }
            }
            _ => {}
        }
        Some(())
    }

    fn is_overflow(&self) -> bool {
        self.mask & libc::FAN_Q_OVERFLOW != 0
    }

    /// Lists what the room must forget because of this event.
    pub(crate) fn changes(&self, exports: &[OpenExport], nodes: &Nodes, own_pid: i32) -> Vec<(Arc<Node>, Change)> {
        if self.is_overflow() {
            return everything(exports, nodes);
        }
        let mut found = Vec::new();
        for (index, export) in exports.iter().enumerate() {
            // Two mounts of one file system are two caches: changes that the room made through one
            // are new to the other.
            if self.pid == own_pid && !export.shares_file_system {
                continue;
            }
            let node =
                |inode: Inode<'_>| (inode.fsid == export.fsid).then(|| nodes.by_key(index as u16, inode.key)).flatten();
            if self.mask & NAME_EVENTS != 0
                && let Some((dir, name)) = self.entry
                && let Some(dir) = node(dir)
            {
                found.push((dir, Change::Name(name.to_vec())));
            }
            if let Some(node) = self.inode.and_then(node) {
                let opened = self.mask & libc::FAN_OPEN != 0;
                if opened {
                    node.opened_elsewhere.store(true, Ordering::Relaxed);
                }
                let content = opened || self.mask & (libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE) != 0;
                found.push((node, if content { Change::Content } else { Change::Attr }));
            }
        }
        found
    }
}

fn everything(exports: &[OpenExport], nodes: &Nodes) -> Vec<(Arc<Node>, Change)> {
    tracing::warn!("the queue of file events overflowed; the room forgets everything it has cached");
    let mut found = Vec::new();
    for (index, export) in exports.iter().enumerate() {
        found.push((export.root.clone(), Change::AllNames));
        found.extend(nodes.of_export(index as u16).into_iter().map(|node| (node, Change::Content)));
    }
    found
}

/// Marks inodes and remembers them. A second thread waits, so that no thread takes an inode for
/// watched before it is.
pub(crate) struct InodeMarks {
    events: Option<Events>,
    turn: std::sync::Mutex<()>,
}

impl InodeMarks {
    pub(crate) fn new(events: Option<Events>) -> InodeMarks {
        InodeMarks { events, turn: std::sync::Mutex::new(()) }
    }

    pub(crate) fn events(&self) -> Option<&Events> {
        self.events.as_ref()
    }

    /// Watches a node from now on. Needs the steward's own capabilities. After a failure the node
    /// is not cached.
    pub(crate) fn begin(&self, node: &Node, path_fd: &OwnedFd) {
        let Some(events) = &self.events else { return };
        let _turn = lock(&self.turn);
        match events.mark(path_fd, node.is_dir()) {
            Ok(()) => node.set_watched(),
            Err(errno) => {
                tracing::debug!(node = node.id, %errno, "the file cannot be watched, so rooms do not cache it")
            }
        }
    }

    /// Starts or stops to listen for opens by others while the room writes. Returns false if that
    /// is not possible.
    pub(crate) fn opens(&self, path_fd: &OwnedFd, on: bool) -> bool {
        self.events.as_ref().is_some_and(|events| events.mark_opens(path_fd, on).is_ok())
    }

    /// Stops watching a node, unless the inode has become known again meanwhile.
    pub(crate) fn end(&self, node: &Node, known_again: impl FnOnce() -> bool, path_fd: &OwnedFd) {
        let Some(events) = &self.events else { return };
        let _turn = lock(&self.turn);
        if !known_again() {
            let _ = events.unmark(path_fd, node.is_dir());
        }
    }
}
