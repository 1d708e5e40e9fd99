//! The structs of the protocol. Their sizes are asserted against the kernel's.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! wire {
    ($($(#[$doc:meta])* $name:ident = $bytes:literal { $($field:ident: $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        #[expect(missing_docs, reason = "the kernel's names; fuse.h says what they mean")]
        pub struct $name { $(pub $field: $ty),* }
        const _: () = assert!(size_of::<$name>() == $bytes);
    )*};
}

wire! {
    /// The beginning of every request.
    InHeader = 40 {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16
    }
    /// The beginning of every reply (`error` is 0 or a negated errno) and, with `unique` 0, of
    /// every notification (`error` is its code).
    OutHeader = 16 {
        len: u32, error: i32, unique: u64
    }
    /// Attributes of a file; ids are those of the connection's user namespace.
    Attr = 88 {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32,
        ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32
    }
    /// The reply to operations that give a name: LOOKUP, MKDIR, LINK and others. Node id 0 with a
    /// validity is a cached "not found".
    EntryOut = 128 {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32,
        attr: Attr
    }
    /// The reply to GETATTR and SETATTR.
    AttrOut = 104 {
        attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr
    }
    /// FORGET: the number of lookups of the node that are dropped.
    ForgetIn = 8 {
        nlookup: u64
    }
    /// One item of BATCH_FORGET.
    ForgetOne = 16 {
        nodeid: u64, nlookup: u64
    }
    /// BATCH_FORGET; `count` structs [`ForgetOne`] follow.
    BatchForgetIn = 8 {
        count: u32, dummy: u32
    }
    /// The arguments of GETATTR.
    GetattrIn = 16 {
        getattr_flags: u32, dummy: u32, fh: u64
    }
    /// MKNOD; a name follows.
    MknodIn = 16 {
        mode: u32, rdev: u32, umask: u32, padding: u32
    }
    /// MKDIR; a name follows.
    MkdirIn = 8 {
        mode: u32, umask: u32
    }
    /// RENAME; two names follow.
    RenameIn = 8 {
        newdir: u64
    }
    /// RENAME2; two names follow.
    Rename2In = 16 {
        newdir: u64, flags: u32, padding: u32
    }
    /// LINK; a name follows.
    LinkIn = 8 {
        oldnodeid: u64
    }
    /// SETATTR; see [`fattr`](super::fattr).
    SetattrIn = 88 {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64, atimensec:
        u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32
    }
    /// OPEN and OPENDIR.
    OpenIn = 8 {
        flags: u32, open_flags: u32
    }
    /// CREATE and TMPFILE; a name follows.
    CreateIn = 16 {
        flags: u32, mode: u32, umask: u32, open_flags: u32
    }
    /// The reply to OPEN, OPENDIR and, after an [`EntryOut`], CREATE.
    OpenOut = 16 {
        fh: u64, open_flags: u32, backing_id: i32
    }
    /// RELEASE and RELEASEDIR, which close a file.
    ReleaseIn = 24 {
        fh: u64, flags: u32, release_flags: u32, lock_owner: u64
    }
    /// FLUSH: one descriptor of the open file was closed.
    FlushIn = 24 {
        fh: u64, unused: u32, padding: u32, lock_owner: u64
    }
    /// READ, READDIR and READDIRPLUS.
    ReadIn = 40 {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32
    }
    /// WRITE; the data follow.
    WriteIn = 40 {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32
    }
    /// The reply to WRITE and COPY_FILE_RANGE.
    WriteOut = 8 {
        size: u32, padding: u32
    }
    /// The reply to STATFS.
    Kstatfs = 80 {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32, padding:
        u32, spare: [u32; 6]
    }
    /// FSYNC and FSYNCDIR.
    FsyncIn = 16 {
        fh: u64, fsync_flags: u32, padding: u32
    }
    /// SETXATTR; name and value follow.
    SetxattrIn = 16 {
        size: u32, flags: u32, setxattr_flags: u32, padding: u32
    }
    /// GETXATTR (a name follows) and LISTXATTR.
    GetxattrIn = 8 {
        size: u32, padding: u32
    }
    /// The reply to GETXATTR and LISTXATTR with `size` 0.
    GetxattrOut = 8 {
        size: u32, padding: u32
    }
    /// A lock of a byte range; `end` is inclusive, `pid` a process.
    FileLock = 24 {
        start: u64, end: u64, kind: u32, pid: u32
    }
    /// GETLK, SETLK and SETLKW.
    LkIn = 48 {
        fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32
    }
    /// The reply to GETLK.
    LkOut = 24 {
        lk: FileLock
    }
    /// The arguments of ACCESS.
    AccessIn = 8 {
        mask: u32, padding: u32
    }
    /// The part of INIT that is used.
    InitIn = 64 {
        major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11]
    }
    /// The reply to INIT.
    InitOut = 64 {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11]
    }
    /// INTERRUPT of an earlier request.
    InterruptIn = 8 {
        unique: u64
    }
    /// IOCTL; `in_size` bytes follow.
    IoctlIn = 32 {
        fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32
    }
    /// The reply to IOCTL.
    IoctlOut = 16 {
        result: i32, flags: u32, in_iovs: u32, out_iovs: u32
    }
    /// The arguments of POLL.
    PollIn = 24 {
        fh: u64, kh: u64, flags: u32, events: u32
    }
    /// The reply to POLL.
    PollOut = 8 {
        revents: u32, padding: u32
    }
    /// The arguments of FALLOCATE.
    FallocateIn = 32 {
        fh: u64, offset: u64, length: u64, mode: u32, padding: u32
    }
    /// LSEEK: SEEK_HOLE and SEEK_DATA.
    LseekIn = 24 {
        fh: u64, offset: u64, whence: u32, padding: u32
    }
    /// The reply to LSEEK.
    LseekOut = 8 {
        offset: u64
    }
    /// The arguments of COPY_FILE_RANGE.
    CopyFileRangeIn = 56 {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64
    }
    /// The arguments of STATX.
    StatxIn = 24 {
        getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32
    }
    /// A time in [`Statx`].
    SxTime = 16 {
        sec: i64, nsec: u32, reserved: i32
    }
    /// Attributes in the layout of `statx(2)`.
    Statx = 256 {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, spare0: [u16; 1], ino:
        u64, size: u64, blocks: u64, attributes_mask: u64, atime: SxTime, btime: SxTime, ctime: SxTime, mtime: SxTime,
        rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14]
    }
    /// The reply to STATX.
    StatxOut = 288 {
        attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx
    }
    /// One entry of READDIR; the name follows, padded to 8 bytes.
    Dirent = 24 {
        ino: u64, off: u64, namelen: u32, kind: u32
    }
    /// Notification: forget attributes, and cached content from `off` on (negative: none) for `len`
    /// bytes (0: all).
    NotifyInvalInode = 24 {
        ino: u64, off: i64, len: i64
    }
    /// Notification: forget a name, which follows with a NUL.
    NotifyInvalEntry = 16 {
        parent: u64, namelen: u32, flags: u32
    }
    /// Notification: a polled file changed.
    NotifyPollWakeup = 8 {
        kh: u64
    }
}
