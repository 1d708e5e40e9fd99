//! Flag bits of the FUSE protocol.

/// `FUSE_*` bits of INIT: the low word is `flags`, the high word `flags2`.
#[expect(missing_docs, reason = "the kernel's names; fuse.h says what they do")]
pub mod init {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const HANDLE_KILLPRIV: u64 = 1 << 19;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const ABORT_ERROR: u64 = 1 << 21;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const SETXATTR_EXT: u64 = 1 << 29;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const CREATE_SUPP_GROUP: u64 = 1 << 34;
    pub const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const HAS_RESEND: u64 = 1 << 39;
}

/// `FOPEN_*` flags of replies to OPEN, CREATE and OPENDIR.
#[expect(missing_docs, reason = "the kernel's names; fuse.h says what they do")]
pub mod fopen {
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const NONSEEKABLE: u32 = 1 << 2;
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const STREAM: u32 = 1 << 4;
    pub const NOFLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    /// Between a room and its home only: the room may answer writes before home has made them.
    pub const BEHIND: u32 = 1 << 31;
}

/// `FATTR_*` flags, which tell the valid fields of [`SetattrIn`](super::SetattrIn).
#[expect(missing_docs, reason = "the kernel's names; fuse.h says what they do")]
pub mod fattr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const LOCKOWNER: u32 = 1 << 9;
    pub const CTIME: u32 = 1 << 10;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// OPEN is for executing the file (include/linux/fs.h).
pub const FMODE_EXEC: u32 = 0x20;
/// An error number that no kernel uses, between a room and its home only: only home can execute the
/// file.
pub const BEGINS_AT_HOME: i32 = 510;
/// GETATTR concerns an open file.
pub const GETATTR_FH: u32 = 1 << 0;
/// RELEASE ends the open file's flock.
pub const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
/// The lock is a flock, not a POSIX lock.
pub const LK_FLOCK: u32 = 1 << 0;
/// Marks a lock as one of the open file (F_OFD_SETLK), between a room and its home only, because
/// the kernel does not tell.
pub const LK_OF_OPEN_FILE: u32 = 1 << 31;
/// FSYNC: the data only.
pub const FSYNC_FDATASYNC: u32 = 1 << 0;
/// WRITE writes back pages of the kernel's cache.
pub const WRITE_CACHE: u32 = 1 << 0;
/// The room must not answer writes of this file system before home has made them, because too
/// little space is free. The mark stands in the unused word of the reply to WRITE, between a room
/// and its home only.
pub const SPACE_IS_SCARCE: u32 = 1;
/// SETXATTR of an ACL: clear the set-group-id bit.
pub const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
/// INVAL_ENTRY: look the name up again at its next use, do not forget it.
pub const EXPIRE_ONLY: u32 = 1 << 0;
/// POLL: send a notification when the state changes.
pub const POLL_SCHEDULE_NOTIFY: u32 = 1 << 0;
/// The file type bits in a mode.
pub const S_IFMT: u32 = libc::S_IFMT;
