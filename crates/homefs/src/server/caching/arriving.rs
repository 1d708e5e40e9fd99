//! Holding files for a process at home that has them mapped shared and writable, and that goes to
//! the room.
//!
//! The process itself keeps the kernel from granting a lease, and it stores in the file until it is
//! stopped. So the file is *reserved* while the process runs: any open by another process ends
//! that, and the move must begin anew. When the process stands still, other opens wait, and what
//! the room reads it may keep. The room maps the file, and the process goes on there.

use crate::server::Server;
use crate::server::caching::held::{has, is_terns, open_elsewhere};
use crate::server::state::file_id::FileId;
use crate::server::state::held::Stage;
use crate::server::state::mutex::lock;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest time in which a room that a process has left closes what the process had open there.
const CLOSES_WITHIN: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A file that is held for a process on its way to the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    file: FileId,
    called: FileId,
}

/// The reason why a file cannot be held for a process.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReserveError {
    /// Another process has the file open or mapped.
    #[error("process {0} has it open, too")]
    OpenBy(i32),
    /// Processes of the room have the file mapped, or the name is another file's.
    #[error("it is in use there, or is no file that the node sees")]
    Unfit,
    /// The file cannot be opened by its name, or not be marked.
    #[error("it cannot be held: {0}")]
    Failed(#[from] Errno),
}

impl Server {
    /// Reserves a file for processes at home that have it mapped, and that are to go to the room.
    ///
    /// # Errors
    /// Other processes have it open, or it cannot be marked. Then it is not held.
    pub fn reserve(&self, path: &Path, inode: u64, owners: &[i32]) -> Result<Reserved, ReserveError> {
        let called = self.called_at(path, inode).ok_or(ReserveError::Unfit)?;
        let marked = self.authority.with_own_rights(|| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let named = rustix::fs::open(path, flags, Mode::empty())?;
            let file = FileId::of(&named)?;
            if file.inode != inode || self.held.stage(file).is_some() {
                return Err(ReserveError::Unfit);
            }
            self.held.reserve(file, called, named, owners)?;
            Ok(Reserved { file, called })
        });
        let reserved = marked??;
        let but = [owners, &[self.own_pid]].concat();
        let (begun, mut found) = (Instant::now(), open_elsewhere(reserved.file, &but));
        while found.is_some_and(is_terns) && begun.elapsed() < CLOSES_WITHIN {
            std::thread::sleep(LOOK_AGAIN);
            found = open_elsewhere(reserved.file, &but);
        }
        match found {
            Some(pid) => {
                self.call_off(&reserved);
                Err(ReserveError::OpenBy(pid))
            }
            None => Ok(reserved),
        }
    }

    /// The owners stand still: from now on other opens wait, and the room may open the file. `new`:
    /// processes that were made since the file was reserved. Returns false if another process has
    /// opened the file, or has it from an owner.
    pub fn settle(&self, reserved: &Reserved, new: &[i32]) -> bool {
        let file = reserved.file;
        if new.iter().any(|pid| has(*pid, file)) || !self.held.advance(file, Stage::Reserved, Stage::Arriving) {
            return false;
        }
        // Handles that the room has already see what is stored from now on.
        for (_, open) in self.handles.written(file) {
            open.node.opened_elsewhere.store(false, Ordering::Relaxed);
            lock(&open.node.content).shared = false;
        }
        true
    }

    /// The owners run in the room.
    pub fn arrived(&self, reserved: &Reserved) {
        self.held.advance(reserved.file, Stage::Arriving, Stage::There);
        if self.held.is_awaited(reserved.file) {
            self.outlet.wanted(reserved.called);
        }
    }

    /// The owners stay at home.
    pub fn call_off(&self, reserved: &Reserved) {
        if self.held.stage(reserved.file).is_some_and(|stage| stage != Stage::There) {
            let _ = self.authority.with_own_rights(|| self.held.release(reserved.file));
        }
    }

    /// Tells whether the file of this O_PATH descriptor is held for a process that stands still.
    pub(crate) fn is_arriving(&self, path: &OwnedFd) -> bool {
        !self.held.is_empty() && FileId::of(path).is_ok_and(|file| self.held.stage(file) == Some(Stage::Arriving))
    }
}
