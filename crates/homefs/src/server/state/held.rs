//! The files that are held for a room, and the opens at home that wait for them.
//!
//! A permission mark (fanotify(7), FAN_OPEN_PERM) makes each open of a held file wait until this
//! process allows or denies it. `caching/held.rs` says why files are held.

use super::file_id::FileId;
use super::mutex::lock;
use super::proc_path::proc_path;
use crate::sys;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest time for which an open at home waits for a file that the room holds.
pub const YIELDS_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of `struct fanotify_event_metadata`.
const EVENT_BYTES: usize = 24;
const EVENTS_AT_ONCE: usize = 64;

/// Why a file is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A process at home that alone has the file mapped is to go to the room, and runs yet. An open
    /// by another process ends the holding.
    Reserved,
    /// The process of this number stands still, and the room opens the file for it.
    Arriving,
    /// Processes in the room have the file mapped.
    There,
}

/// A file that is held.
struct Held {
    stage: Stage,
    /// Processes whose opens do not end a reservation.
    owners: Vec<i32>,
    /// An O_PATH descriptor of the file.
    path: OwnedFd,
    /// The file as the room names it.
    called: FileId,
    waiting: Vec<WaitingOpen>,
}

/// An open at home that waits.
struct WaitingOpen {
    /// The descriptor of the event, by which the kernel knows the open.
    event: OwnedFd,
    since: Instant,
}

/// An open at home, which the kernel delays until it is answered.
pub(crate) struct OpenRequest {
    event: OwnedFd,
    /// The process that opens the file.
    pub(crate) pid: i32,
}

/// All files that are held.
#[derive(Default)]
pub(crate) struct HeldFiles {
    /// The queue of opens; `None` where the kernel has no permission events.
    queue: Option<OwnedFd>,
    files: Mutex<HashMap<FileId, Held>>,
}

impl HeldFiles {
    /// Creates the queue of opens. Without it no file can be held.
    pub(crate) fn new() -> HeldFiles {
        let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_UNLIMITED_MARKS;
        // SAFETY: numbers only.
        let fd = unsafe { libc::fanotify_init(flags, (libc::O_RDONLY | libc::O_CLOEXEC) as u32) };
        if fd < 0 {
            tracing::warn!(
                errno = %sys::last_errno(),
                "this kernel has no permission events; a process that maps a file shared and writable moves home"
            );
            return HeldFiles::default();
        }
        // SAFETY: a new descriptor of ours.
        HeldFiles { queue: Some(unsafe { OwnedFd::from_raw_fd(fd) }), files: Mutex::default() }
    }

    /// Duplicates the queue's descriptor, to wait on it; `None` where there is no queue.
    pub(crate) fn listener(&self) -> std::io::Result<Option<OwnedFd>> {
        self.queue.as_ref().map(OwnedFd::try_clone).transpose()
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

    /// Allows or denies an open (FAN_ALLOW, FAN_DENY).
    fn answer(&self, event: &OwnedFd, response: u32) {
        let Some(queue) = &self.queue else { return };
        let answer = [event.as_raw_fd().to_ne_bytes(), response.to_ne_bytes()].concat();
        // A process that was killed does not wait any more.
        if let Err(errno) = rustix::io::write(queue, &answer) {
            tracing::debug!(%errno, "cannot answer an open that waits for a file of a room");
        }
    }

    /// Delays all opens of this file from now on. `path` is an O_PATH descriptor of it, `called`
    /// its name in the room.
    ///
    /// # Errors
    /// The file cannot be marked.
    pub(crate) fn hold(&self, file: FileId, called: FileId, path: OwnedFd) -> Result<(), Errno> {
        self.mark(libc::FAN_MARK_ADD, &path)?;
        let held = Held { stage: Stage::There, owners: Vec::new(), path, called, waiting: Vec::new() };
        lock(&self.files).insert(file, held);
        Ok(())
    }

    /// Holds this file for processes at home that run yet.
    ///
    /// # Errors
    /// The file cannot be marked.
    pub(crate) fn reserve(&self, file: FileId, called: FileId, path: OwnedFd, owners: &[i32]) -> Result<(), Errno> {
        let mut files = lock(&self.files);
        self.mark(libc::FAN_MARK_ADD, &path)?;
        let held = Held { stage: Stage::Reserved, owners: owners.to_vec(), path, called, waiting: Vec::new() };
        files.insert(file, held);
        Ok(())
    }

    /// Tells whether a process of the room may map this file, too; `None` if the file is not held.
    pub(crate) fn may_be_mapped(&self, file: FileId) -> Option<bool> {
        lock(&self.files).get(&file).map(|held| held.stage == Stage::There && held.waiting.is_empty())
    }

    /// Why the file is held, if it is.
    pub(crate) fn stage(&self, file: FileId) -> Option<Stage> {
        lock(&self.files).get(&file).map(|held| held.stage)
    }

    /// Goes from one stage to the next. Returns false if the file is not held, or in another stage.
    pub(crate) fn advance(&self, file: FileId, from: Stage, to: Stage) -> bool {
        let mut files = lock(&self.files);
        let held = files.get_mut(&file).filter(|held| held.stage == from);
        held.map(|held| held.stage = to).is_some()
    }

    /// Tells whether an open waits for this file.
    pub(crate) fn is_awaited(&self, file: FileId) -> bool {
        lock(&self.files).get(&file).is_some_and(|held| !held.waiting.is_empty())
    }

    /// Tells whether no file is held.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.files).is_empty()
    }

    /// Ends the holding of a file, and allows all opens that wait for it.
    pub(crate) fn release(&self, file: FileId) {
        let Some(held) = lock(&self.files).remove(&file) else { return };
        if let Err(errno) = self.mark(libc::FAN_MARK_REMOVE, &held.path) {
            tracing::warn!(%errno, "cannot unmark a file that a room had mapped");
        }
        held.waiting.iter().for_each(|open| self.answer(&open.event, libc::FAN_ALLOW));
    }

    /// Denies the opens that have waited longer than [`YIELDS_WITHIN`].
    pub(crate) fn refuse_overdue(&self) {
        let mut files = lock(&self.files);
        for held in files.values_mut() {
            for open in held.waiting.extract_if(.., |open| open.since.elapsed() > YIELDS_WITHIN) {
                tracing::warn!("denied an open of a file: the processes that have it mapped did not come home");
                self.answer(&open.event, libc::FAN_DENY);
            }
        }
    }

    /// Reads opens from the queue, without waiting.
    pub(crate) fn requests(&self) -> Vec<OpenRequest> {
        let Some(queue) = &self.queue else { return Vec::new() };
        let mut events = [0; EVENT_BYTES * EVENTS_AT_ONCE];
        let Ok(bytes) = rustix::io::read(queue, &mut events) else { return Vec::new() };
        let requests = events[..bytes].chunks_exact(EVENT_BYTES).filter_map(|event| {
            // Descriptor and PID follow the length, the version, a reserved byte, the length of the
            // metadata, and the mask.
            let number = |at: usize| event[at..at + 4].try_into().map_or(-1, i32::from_ne_bytes);
            let (fd, pid) = (number(16), number(20));
            // SAFETY: the kernel has made this descriptor for this process.
            (fd >= 0).then(|| OpenRequest { event: unsafe { OwnedFd::from_raw_fd(fd) }, pid })
        });
        requests.collect()
    }

    /// Allows an open.
    pub(crate) fn allow(&self, request: &OpenRequest) {
        self.answer(&request.event, libc::FAN_ALLOW);
    }

    /// Finds a held file by its name in the room.
    pub(crate) fn called(&self, called: FileId) -> Option<FileId> {
        lock(&self.files).iter().find(|(_, held)| held.called == called).map(|(id, _)| *id)
    }

    /// Lets an open wait if its file is held, or allows it. Gives the room's name of the file if
    /// this open is the first that waits for it: the room must be told.
    pub(crate) fn enqueue(&self, request: OpenRequest) -> Option<FileId> {
        let file = FileId::of(&request.event).ok()?;
        let mut files = lock(&self.files);
        let Some(held) = files.get_mut(&file) else {
            drop(files);
            self.allow(&request);
            return None;
        };
        if held.stage == Stage::Reserved {
            let is_owner = held.owners.contains(&request.pid);
            drop(files);
            if !is_owner {
                self.release(file);
            }
            self.allow(&request);
            return None;
        }
        let is_first = held.waiting.is_empty() && held.stage == Stage::There;
        held.waiting.push(WaitingOpen { event: request.event, since: Instant::now() });
        is_first.then_some(held.called)
    }
}
