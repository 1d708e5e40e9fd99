//! Holding files for the room: files that its processes have mapped shared, and that no process at
//! home may open meanwhile.
//!
//! # The problem
//!
//! A store through a shared mapping in a room changes the pages of that machine. A process at home
//! that opens the file would see other content, and stores of one side would be lost. So a process
//! that maps a file shared moves home. That is too strict for files of /dev/shm (shm_open(3),
//! sem_open(3)): they exist to be mapped shared, and mostly by one family of processes. One lock of
//! Python's `multiprocessing` would bring every worker home.
//!
//! # The way taken
//!
//! The server *holds* such a file for the room if no process at home has it open. The kernel tells:
//! it grants a write lease only on a file with a single opener. A permission mark (fanotify(7),
//! FAN_OPEN_PERM) then makes every open at home wait. When the first one waits, the server tells
//! the room. The room writes its pages back, the processes that have the file mapped move home, and
//! then the server allows the open. If the processes cannot move, the open fails with EPERM after
//! [`YIELDS_WITHIN`](crate::server::YIELDS_WITHIN). No two processes see different content.
//!
//! If the server ends, the kernel allows all opens. The room ends too, with all its mappings.

use crate::server::Server;
use crate::server::state::file_id::FileId;
use crate::server::state::handles::{Kind, Open};
use crate::server::state::nodes::{Node, reopen};
use crate::sys;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The time between two checks for opens that have waited too long.
const PATROL: Duration = Duration::from_millis(500);

impl Server {
    /// Makes all opens at home of this file wait. The file is below the mount point `path`, and the
    /// room has it open. Returns false if other processes have it open, or may have.
    pub fn hold(&self, path: &Path, inode: u64) -> bool {
        let Some(file) = self.file_in(path, inode) else { return false };
        if let Some(is_awaited) = self.held.is_awaited(file) {
            // The processes that have it mapped move home; the next one must, too.
            return !is_awaited;
        }
        let written = self.handles.written(file);
        let Some((_, open)) = written.first() else { return false };
        self.authority.with_own_rights(|| self.hold_opened(file, open)) == Ok(true)
    }

    /// Identifies a file of the export with this mount point.
    fn file_in(&self, path: &Path, inode: u64) -> Option<FileId> {
        let export = self.exports.iter().find(|export| export.path == path)?;
        let device = rustix::fs::fstat(&export.tree).ok()?.st_dev;
        Some(FileId { device, inode })
    }

    fn hold_opened(&self, file: FileId, open: &Arc<Open>) -> bool {
        // The room reads an uncached file from home again and again.
        if !matches!(open.kind, Kind::Writer { cached: true, .. }) {
            return false;
        }
        let Ok(path) = reopen(&open.file, OFlags::PATH) else { return false };
        if self.held.hold(file, path, &open.node).is_err() {
            return false;
        }
        // Processes that opened the file before the mark was set did not wait. So this is checked
        // after the mark.
        let ours = self.handles.written(file).len();
        let is_alone = sys::has_one_opener(open.file.as_fd()) || (ours > 1 && !is_open_elsewhere(file, self.own_pid));
        if !is_alone {
            self.held.release(file);
        }
        is_alone
    }

    /// Ends the holding of a file: no process in the room has it mapped any more, and the room's
    /// stores have been written back.
    pub fn let_go_held(&self, path: &Path, inode: u64) {
        if let Some(file) = self.file_in(path, inode) {
            let _ = self.authority.with_own_rights(|| self.held.release(file));
        }
    }

    /// Notes that the room has closed one of its open files of a node.
    pub(crate) fn closed_held(&self, node: &Arc<Node>) {
        if let Some(file) = self.held.of_node(node)
            && self.handles.written(file).is_empty()
        {
            let _ = self.authority.with_own_rights(|| self.held.release(file));
        }
    }

    /// Starts the thread that receives opens of held files.
    pub(crate) fn start_held(server: &Arc<Server>) -> std::io::Result<()> {
        let Some(queue) = server.held.listener()? else { return Ok(()) };
        let stop = server.stop.try_clone()?;
        let weak = Arc::downgrade(server);
        std::thread::Builder::new().name("held-files".into()).spawn(move || {
            while !wait(&queue, &stop) {
                let Some(server) = weak.upgrade() else { return };
                server.take_open_requests();
                server.held.refuse_overdue();
            }
        })?;
        Ok(())
    }

    fn take_open_requests(&self) {
        for request in self.held.requests() {
            // This process opens files for the room only.
            if request.pid == self.own_pid {
                self.held.allow(&request);
            } else if let Some(file) = self.held.enqueue(request) {
                self.outlet.wanted(file.inode);
            }
        }
    }
}

/// Tells whether a process of home other than this one has the file open or mapped. The kernel
/// counts openers only, so it cannot tell several open files of the room from those of others.
fn is_open_elsewhere(file: FileId, own_pid: i32) -> bool {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut others =
        pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).filter(|pid| *pid != own_pid);
    others.any(|pid| has_open(pid, file) || has_mapped(pid, file))
}

fn has_open(pid: i32, file: FileId) -> bool {
    let mut descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.any(|entry| {
        let stat = std::fs::metadata(entry.path());
        stat.is_ok_and(|stat| FileId { device: stat.dev(), inode: stat.ino() } == file)
    })
}

fn has_mapped(pid: i32, file: FileId) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let (major, minor) = (rustix::fs::major(file.device), rustix::fs::minor(file.device));
    let shown = format!(" {major:02x}:{minor:02x} {} ", file.inode);
    maps.lines().any(|line| line.contains(&shown))
}

/// Waits until there is an open, until `stop` is readable, or for one [`PATROL`]; returns true if
/// `stop` is readable.
fn wait(queue: &OwnedFd, stop: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(queue, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    let patrol = Timespec { tv_sec: 0, tv_nsec: PATROL.subsec_nanos().into() };
    match poll(&mut fds, Some(&patrol)) {
        Ok(_) => !fds[1].revents().is_empty(),
        Err(errno) => errno != Errno::INTR,
    }
}
