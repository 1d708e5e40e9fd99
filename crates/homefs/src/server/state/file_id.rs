//! Identity of files.

use rustix::io::Result;
use std::os::fd::OwnedFd;

/// A file, by its file system and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number of the file.
    pub inode: u64,
}

impl FileId {
    /// Identifies an open file.
    pub(crate) fn of(file: &OwnedFd) -> Result<FileId> {
        rustix::fs::fstat(file).map(|stat| FileId { device: stat.st_dev, inode: stat.st_ino })
    }
}
