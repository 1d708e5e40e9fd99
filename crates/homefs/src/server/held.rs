//! Files that programs of the room have mapped, shared, and that nobody at home may open meanwhile.
//!
//! # The problem
//! What is stored through a mapping in a room is in the pages of that machine: a process at home
//! that opens the file sees something else, and its stores are lost. So a process that maps a file
//! shared goes home. But files of /dev/shm are there for nothing else (shm_open(3), sem_open(3)),
//! and most of them are one family's: a lock of Python's `multiprocessing` would bring every worker
//! home.
//!
//! # The way taken
//! Such a file is *held* for the room, if nobody else has it open: the kernel grants a write lease
//! on a file that has one opener alone, and a permission mark (fanotify(7), FAN_OPEN_PERM) has
//! everybody else wait in open(2) from then on. When somebody waits, the room is told: it writes
//! its pages back, those who have the file mapped come home, and then the others open it. If they
//! cannot come, the others' open fails (EPERM) after [`YIELDS_WITHIN`]: no two see different
//! things.
//!
//! If this server ends, the kernel lets all go on; the room, and all that it has mapped, ends too.

use super::handles::{Kind, Open};
use super::nodes::{Node, reopen};
use super::{FileId, Server, lock, proc_path, sys};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How long somebody at home waits for those in the room to come.
pub const YIELDS_WITHIN: Duration = Duration::from_secs(30);
/// The time between two checks for opens that have waited too long.
const PATROL: Duration = Duration::from_millis(500);
/// Bytes of `struct fanotify_event_metadata`.
const EVENT_BYTES: usize = 24;
const EVENTS_AT_ONCE: usize = 64;

/// A file that is held.
struct Held {
    /// An O_PATH descriptor of the file.
    path: OwnedFd,
    node: Weak<Node>,
    /// Somebody's open waits: the event's descriptor, by which the kernel knows it, and since when.
    waiting: Vec<(OwnedFd, Instant)>,
}

/// All files that are held.
#[derive(Default)]
pub(super) struct HeldFiles {
    /// The queue of those who wait; `None` where the kernel gives none.
    queue: Option<OwnedFd>,
    files: Mutex<HashMap<FileId, Held>>,
}

impl HeldFiles {
    pub(super) fn new() -> HeldFiles {
        let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_UNLIMITED_MARKS;
        // SAFETY: numbers only.
        let fd = unsafe { libc::fanotify_init(flags, (libc::O_RDONLY | libc::O_CLOEXEC) as u32) };
        if fd < 0 {
            tracing::warn!(errno = %sys::last_errno(), "no permission events here: who maps a file of /dev/shm goes home");
            return HeldFiles::default();
        }
        // SAFETY: a new descriptor of ours.
        HeldFiles { queue: Some(unsafe { OwnedFd::from_raw_fd(fd) }), files: Mutex::default() }
    }

    fn mark(&self, change: u32, path: &OwnedFd) -> Result<(), Errno> {
        let queue = self.queue.as_ref().ok_or(Errno::NOSYS)?;
        // SAFETY: the path is a C string that lives through the call.
        let done = unsafe {
            libc::fanotify_mark(
                queue.as_raw_fd(),
                change,
                libc::FAN_OPEN_PERM,
                libc::AT_FDCWD,
                proc_path(path).as_ptr(),
            )
        };
        if done < 0 { Err(sys::last_errno()) } else { Ok(()) }
    }

    /// Lets somebody's open go on, or fail.
    fn answer(&self, event: &OwnedFd, response: u32) {
        let Some(queue) = &self.queue else { return };
        let answer = [event.as_raw_fd().to_ne_bytes(), response.to_ne_bytes()].concat();
        // One that was killed waits no more.
        if let Err(errno) = rustix::io::write(queue, &answer) {
            tracing::debug!(%errno, "an open that waits for a file of a room cannot be answered");
        }
    }

    fn is_of(&self, node: &Arc<Node>) -> Option<FileId> {
        lock(&self.files).iter().find(|(_, held)| held.node.as_ptr() == Arc::as_ptr(node)).map(|(id, _)| *id)
    }

    /// Nobody waits for the file any more.
    fn let_go(&self, file: FileId) {
        let Some(held) = lock(&self.files).remove(&file) else { return };
        if let Err(errno) = self.mark(libc::FAN_MARK_REMOVE, &held.path) {
            tracing::warn!(%errno, "a file that a room had mapped is still watched");
        }
        held.waiting.iter().for_each(|(event, _)| self.answer(event, libc::FAN_ALLOW));
    }

    /// Those that have waited too long do not get the file.
    fn refuse_overdue(&self) {
        let mut files = lock(&self.files);
        for held in files.values_mut() {
            for (event, _) in held.waiting.extract_if(.., |(_, since)| since.elapsed() > YIELDS_WITHIN) {
                tracing::warn!("a file of /dev/shm that a room has mapped was asked for, and did not come home");
                self.answer(&event, libc::FAN_DENY);
            }
        }
    }

    /// Somebody opens a file: whether those who have it are to be told, because it is the first.
    fn asked(&self, event: OwnedFd) -> Option<FileId> {
        let file = FileId::of(&event).ok()?;
        let mut files = lock(&self.files);
        let Some(held) = files.get_mut(&file) else {
            drop(files);
            self.answer(&event, libc::FAN_ALLOW);
            return None;
        };
        let is_first = held.waiting.is_empty();
        held.waiting.push((event, Instant::now()));
        is_first.then_some(file)
    }
}

impl FileId {
    fn of(file: &OwnedFd) -> Result<FileId, Errno> {
        rustix::fs::fstat(file).map(|stat| FileId { device: stat.st_dev, inode: stat.st_ino })
    }
}

impl Server {
    /// Has everybody else wait who opens this file, which lies below `path` and which the room has
    /// open; `false` if others have it already, or may have.
    pub fn hold(&self, path: &Path, inode: u64) -> bool {
        let Some(export) = self.exports.iter().find(|export| export.path == path) else { return false };
        let Ok(device) = rustix::fs::fstat(&export.tree).map(|stat| stat.st_dev) else { return false };
        let file = FileId { device, inode };
        if let Some(held) = lock(&self.held.files).get(&file) {
            // Those who have it mapped are on their way home: the next one goes, too.
            return held.waiting.is_empty();
        }
        let written = self.handles.written(device, inode);
        let Some((_, open)) = written.first() else { return false };
        self.authority.with_own_rights(|| self.hold_opened(file, open)) == Ok(true)
    }

    fn hold_opened(&self, file: FileId, open: &Arc<Open>) -> bool {
        // What is not cached here reads the room again, and again, from home.
        if !matches!(open.kind, Kind::Writer { cached: true, .. }) {
            return false;
        }
        let Ok(path) = reopen(&open.file, OFlags::PATH) else { return false };
        if self.held.mark(libc::FAN_MARK_ADD, &path).is_err() {
            return false;
        }
        let held = Held { path, node: Arc::downgrade(&open.node), waiting: Vec::new() };
        lock(&self.held.files).insert(file, held);
        // Who has opened it before waited for nothing.
        let ours = self.handles.written(file.device, file.inode).len();
        let is_alone = sys::has_one_opener(open.file.as_fd()) || (ours > 1 && !is_open_elsewhere(file, self.own_pid));
        if !is_alone {
            self.held.let_go(file);
        }
        is_alone
    }

    /// Nobody in the room has this file mapped any more, and what they have stored is here.
    pub fn let_go_held(&self, path: &Path, inode: u64) {
        let Some(export) = self.exports.iter().find(|export| export.path == path) else { return };
        if let Ok(stat) = rustix::fs::fstat(&export.tree) {
            let file = FileId { device: stat.st_dev, inode };
            let _ = self.authority.with_own_rights(|| self.held.let_go(file));
        }
    }

    /// The room has closed one of its open files of a node.
    pub(super) fn closed_held(&self, node: &Arc<Node>) {
        if let Some(file) = self.held.is_of(node)
            && self.handles.written(file.device, file.inode).is_empty()
        {
            let _ = self.authority.with_own_rights(|| self.held.let_go(file));
        }
    }

    /// Starts the thread that hears who waits.
    pub(super) fn start_held(server: &Arc<Server>) -> std::io::Result<()> {
        let Some(queue) = server.held.queue.as_ref().map(OwnedFd::try_clone).transpose()? else { return Ok(()) };
        let stop = server.stop.try_clone()?;
        let weak = Arc::downgrade(server);
        std::thread::Builder::new().name("held-files".into()).spawn(move || {
            while !wait(&queue, &stop) {
                let Some(server) = weak.upgrade() else { return };
                server.hear_asked();
                server.held.refuse_overdue();
            }
        })?;
        Ok(())
    }

    fn hear_asked(&self) {
        let Some(queue) = &self.held.queue else { return };
        let mut events = [0; EVENT_BYTES * EVENTS_AT_ONCE];
        let Ok(bytes) = rustix::io::read(queue, &mut events) else { return };
        for event in events[..bytes].chunks_exact(EVENT_BYTES) {
            // Behind length, version, reserved byte, length of the metadata and the mask: the
            // descriptor and who asks.
            let number = |at: usize| event[at..at + 4].try_into().map_or(-1, i32::from_ne_bytes);
            let (fd, pid) = (number(16), number(20));
            if fd < 0 {
                continue;
            }
            // SAFETY: the kernel has made it for us.
            let event = unsafe { OwnedFd::from_raw_fd(fd) };
            // What this process opens it opens for the room.
            if pid == self.own_pid {
                self.held.answer(&event, libc::FAN_ALLOW);
            } else if let Some(file) = self.held.asked(event) {
                self.outlet.wanted(file.inode);
            }
        }
    }
}

/// Whether a process of home's besides this one has the file open, or mapped. The kernel counts
/// openers only: it cannot tell several open files of the room's from others'.
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

/// Waits until there is an event, for a while, or something comes on `stop`; true in the latter
/// case.
fn wait(queue: &OwnedFd, stop: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(queue, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    let patrol = Timespec { tv_sec: 0, tv_nsec: PATROL.subsec_nanos().into() };
    match poll(&mut fds, Some(&patrol)) {
        Ok(_) => !fds[1].revents().is_empty(),
        Err(errno) => errno != Errno::INTR,
    }
}
