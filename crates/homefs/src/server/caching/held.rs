//! Holding files for the room: files that its processes have mapped shared, and that no process at
//! home may open meanwhile.
//!
//! # The problem
//!
//! A store through a shared mapping in a room changes the pages of that machine. A process at home
//! that opens the file would see other content, and stores of one side would be lost. Yet most
//! files that programs map so are opened by one family of processes alone: semaphores and shared
//! memory by name, the output of a linker, Java's and Go's counters, the index of a database.
//!
//! # The way taken
//!
//! The server *holds* such a file for the room if no process at home has it open. The kernel tells:
//! it grants a write lease only on a file with a single opener. Where the room itself may have
//! opened the file several times, the server looks through all processes. A permission mark
//! (fanotify(7), FAN_OPEN_PERM) makes every open at home wait. When the first one waits, the server
//! tells the room. The room writes its pages back, the processes that have the file mapped move
//! home, and then the server allows the open. If the processes cannot move, the open fails with
//! EPERM after [`YIELDS_WITHIN`](crate::server::YIELDS_WITHIN). No two processes see different
//! content.
//!
//! If the server ends, the kernel allows all opens. The room ends too, with all its mappings.
//!
//! A lease for writing instead of a mark would not do: an opener with O_NONBLOCK gets EAGAIN, the
//! kernel ends the lease after a while whatever has become of the mapping, and no lease is granted
//! to a room that has opened the file twice.
//!
//! The look through the processes does not see descriptors that are on their way in messages.

use crate::server::Server;
use crate::server::state::file_id::FileId;
use crate::server::state::handles::{Kind, Open};
use crate::server::state::held::Stage;
use crate::server::state::mutex::lock;
use crate::server::state::nodes::reopen;
use crate::sys;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The time between two checks for opens that have waited too long.
const PATROL: Duration = Duration::from_millis(500);

impl Server {
    /// Makes all opens at home of a file wait. The room has it open, and names it by the device
    /// number of its file system's root at home, and its inode number. Returns false if other
    /// processes have it open, or may have.
    pub fn hold(&self, called: FileId) -> bool {
        if let Some(may) = self.held.called(called).and_then(|file| self.held.may_be_mapped(file)) {
            // If a process waits for it, those that have it mapped move home; the next one must,
            // too.
            return may;
        }
        let is_there = |export: u16| self.root_device(export) == Some(called.device);
        let written = self.handles.written_in(is_there, called.inode);
        let Some((_, first)) = written.first() else { return false };
        let Ok(file) = FileId::of(&first.file) else { return false };
        // Several file systems may lie below one root (subvolumes). The room's kernel maps no file
        // that was opened uncached.
        let is_fit =
            |open: &Open| matches!(open.kind, Kind::Writer { cached: true, .. }) && FileId::of(&open.file) == Ok(file);
        if !written.iter().all(|(_, open)| is_fit(open)) {
            return false;
        }
        self.authority.with_own_rights(|| self.hold_opened(file, called, first)) == Ok(true)
    }

    /// The same, by the file's path at home and its inode number.
    pub fn hold_at(&self, path: &Path, inode: u64) -> bool {
        self.called_at(path, inode).is_some_and(|called| self.hold(called))
    }

    fn root_device(&self, export: u16) -> Option<u64> {
        let tree = &self.exports.get(usize::from(export))?.tree;
        rustix::fs::fstat(tree).ok().map(|stat| stat.st_dev)
    }

    /// Gives the room's name of the file with this path at home.
    pub(crate) fn called_at(&self, path: &Path, inode: u64) -> Option<FileId> {
        let above = self.exports.iter().filter(|export| path.starts_with(&export.path));
        let export = above.max_by_key(|export| export.path.as_os_str().len())?;
        let device = rustix::fs::fstat(&export.tree).ok()?.st_dev;
        Some(FileId { device, inode })
    }

    fn hold_opened(&self, file: FileId, called: FileId, open: &Arc<Open>) -> bool {
        let Ok(path) = reopen(&open.file, OFlags::PATH) else { return false };
        if self.held.hold(file, called, path).is_err() {
            return false;
        }
        // Processes that opened the file before the mark was set did not wait. So this is checked
        // after the mark.
        let is_alone = sys::has_one_opener(open.file.as_fd()) || open_elsewhere(file, &[self.own_pid]).is_none();
        if !is_alone {
            self.held.release(file);
            return false;
        }
        // Processes that had it open before have it no more.
        open.node.opened_elsewhere.store(false, Ordering::Relaxed);
        lock(&open.node.content).shared = false;
        true
    }

    /// Ends the holding of a file: no process in the room has it mapped any more, and the room's
    /// stores have been written back.
    pub fn let_go_held(&self, called: FileId) {
        if let Some(file) = self.held.called(called) {
            let _ = self.authority.with_own_rights(|| self.held.release(file));
        }
    }

    /// The same, by the file's path at home and its inode number. Returns whether it was held.
    pub fn let_go_held_at(&self, path: &Path, inode: u64) -> bool {
        let held = self.called_at(path, inode).filter(|called| self.held.called(*called).is_some());
        held.into_iter().for_each(|called| self.let_go_held(called));
        held.is_some()
    }

    /// Tells which file the room closes, if files are held.
    pub(crate) fn may_be_held(&self, open: &Open) -> Option<FileId> {
        (!self.held.is_empty()).then(|| FileId::of(&open.file).ok()).flatten()
    }

    /// Notes that the room has closed one of its open files of this file.
    pub(crate) fn closed_held(&self, file: FileId) {
        if self.held.stage(file) == Some(Stage::There) && self.handles.written(file).is_empty() {
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
            } else if let Some(called) = self.held.enqueue(request) {
                self.outlet.wanted(called);
            }
        }
    }
}

/// Finds a process of home, other than these, that has the file open or mapped. The kernel
/// counts openers only, so it cannot tell the server's own open files (several of the room, those
/// for locks, those that are being opened or closed) from those of others.
pub(crate) fn open_elsewhere(file: FileId, but: &[i32]) -> Option<i32> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    all.filter(|pid| !but.contains(pid)).find(|pid| has(*pid, file))
}

/// Tells whether a process has the file open or mapped.
pub(crate) fn has(pid: i32, file: FileId) -> bool {
    has_open(pid, file) || has_mapped(pid, file)
}

fn has_open(pid: i32, file: FileId) -> bool {
    // Another steward has tables of descriptors that are those of single threads.
    if !is_terns(pid) {
        return shows_in(&format!("/proc/{pid}/fd"), file);
    }
    let mut threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.any(|thread| shows_in(&format!("{}/fd", thread.path().display()), file))
}

/// Tells whether a process runs this very program: it is another room's steward, perhaps.
pub(crate) fn is_terns(pid: i32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok() == std::fs::read_link("/proc/self/exe").ok()
}

/// Tells whether a descriptor only names its file (O_PATH), as stewards do with files that their
/// rooms know.
fn only_names(descriptor: &std::path::Path) -> bool {
    let Some((table, number)) = descriptor.parent().and_then(Path::parent).zip(descriptor.file_name()) else {
        return false;
    };
    let text = std::fs::read_to_string(table.join("fdinfo").join(number)).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & libc::O_PATH != 0)
}

/// Tells whether a descriptor in this directory of /proc is open on the file.
fn shows_in(descriptors: &str, file: FileId) -> bool {
    let mut descriptors = std::fs::read_dir(descriptors).into_iter().flatten().flatten();
    descriptors.any(|entry| {
        let stat = std::fs::metadata(entry.path());
        stat.is_ok_and(|stat| FileId { device: stat.dev(), inode: stat.ino() } == file) && !only_names(&entry.path())
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
