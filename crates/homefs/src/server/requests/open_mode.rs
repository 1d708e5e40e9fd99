//! The way in which a file is opened at home.

use crate::server::state::nodes::reopen;
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;

/// Flags of an open that matter at home. O_APPEND is applied to each write; the room's kernel
/// handles O_DIRECT.
const KEPT_FLAGS: OFlags = OFlags::TRUNC.union(OFlags::SYNC).union(OFlags::DSYNC);

/// The way in which a file is to be opened.
#[derive(Clone, Copy)]
pub(crate) struct OpenMode {
    pub(crate) flags: OFlags,
    pub(crate) writes: bool,
}

impl OpenMode {
    pub(crate) fn of(raw: u32) -> OpenMode {
        let all = OFlags::from_bits_retain(raw);
        let access = all & OFlags::ACCMODE;
        OpenMode { flags: (all & (KEPT_FLAGS | OFlags::APPEND)) | access, writes: access != OFlags::RDONLY }
    }

    pub(crate) fn truncates(self) -> bool {
        self.flags.contains(OFlags::TRUNC)
    }

    pub(crate) fn only_appends(self) -> bool {
        self.flags & (OFlags::APPEND | OFlags::ACCMODE) == OFlags::APPEND | OFlags::WRONLY
    }

    /// Opens with this thread's rights. If another process has a lease, this fails with EAGAIN
    /// unless `waits`.
    pub(crate) fn reopen(self, path: &OwnedFd, waits: bool) -> Result<OwnedFd> {
        let pause = if waits { OFlags::empty() } else { OFlags::NONBLOCK };
        match reopen(path, (self.flags - OFlags::APPEND) | pause) {
            // The file is append-only (chattr +a).
            Err(Errno::PERM) if self.flags.contains(OFlags::APPEND) => reopen(path, self.flags | pause),
            other => other,
        }
    }
}
