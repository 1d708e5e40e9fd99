//! The kernel's FUSE protocol (`include/uapi/linux/fuse.h`, `fuse(4)`), as plain structs and
//! numbers: the messages of `/dev/fuse`.
//!
//! Structs have the kernel's names without the `fuse_` prefix. Both ends are little-endian, so
//! nothing is converted.

mod flags;
mod notify;
mod reply;
mod request;
mod structs;

pub use flags::*;
pub use notify::*;
pub use reply::*;
pub use request::*;
pub use structs::*;

/// The reply to statfs(2) of a file system that stores nothing, such as proc(5).
pub const NO_BLOCKS: Kstatfs = Kstatfs {
    blocks: 0,
    bfree: 0,
    bavail: 0,
    files: 0,
    ffree: 0,
    bsize: 4096,
    namelen: 255,
    frsize: 4096,
    padding: 0,
    spare: [0; 6],
};

/// The major protocol version.
pub const KERNEL_VERSION: u32 = 7;
/// The newest minor version whose layouts are known here.
pub const KERNEL_MINOR_VERSION: u32 = 45;
/// The oldest minor version that is accepted: Linux 6.1.
pub const OLDEST_MINOR_VERSION: u32 = 37;
/// The node id of a mount's root directory.
pub const ROOT_ID: u64 = 1;
/// Bytes before the arguments of every request.
pub const IN_HEADER_BYTES: usize = size_of::<InHeader>();
/// Bytes before the payload of every reply and notification.
pub const OUT_HEADER_BYTES: usize = size_of::<OutHeader>();
/// The most bytes of data in one READ or WRITE.
pub const MAX_IO_BYTES: usize = 1 << 20;
/// The largest request that the kernel sends after [`init_reply`](crate::proto::InitOut) asked for
/// [`MAX_IO_BYTES`].
pub const MAX_REQUEST_BYTES: usize = MAX_IO_BYTES + 4096;
/// The longest file name (NAME_MAX of every Linux file system).
pub const NAME_MAX: usize = 255;

/// The bit that marks the node id of a FIFO's stand-in. Only the room's client gives out such ids
/// (ids of nodes are small numbers).
pub const STANDIN_BIT: u64 = 1 << 63;
/// The time for which the room's kernel may use what it was told, seconds. It is told of changes.
pub const VALID_S: u64 = 3600;
/// Marks the handle of a directory that the room has opened without home. Home opens the directory
/// under this handle when a request needs that.
pub const DIR_BIT: u64 = 1 << 62;
/// Bit in [`Attr::flags`], between a room and its home only: the directory was just made and is
/// empty, and home watches it.
pub const NEW_DIRECTORY: u32 = 1 << 31;
/// Size that a FIFO's stand-in reports, bytes. Writers of more than this in one call block each
/// other in the room's kernel. Programs that read whole files allocate this much memory.
pub const STANDIN_BYTES: u64 = 4 << 20;

/// The operations, with the numbers of the request header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "the kernel's names; fuse(4) says what they do")]
pub enum Opcode {
    Lookup = 1,
    Forget = 2,
    Getattr = 3,
    Setattr = 4,
    Readlink = 5,
    Symlink = 6,
    Mknod = 8,
    Mkdir = 9,
    Unlink = 10,
    Rmdir = 11,
    Rename = 12,
    Link = 13,
    Open = 14,
    Read = 15,
    Write = 16,
    Statfs = 17,
    Release = 18,
    Fsync = 20,
    Setxattr = 21,
    Getxattr = 22,
    Listxattr = 23,
    Removexattr = 24,
    Flush = 25,
    Init = 26,
    Opendir = 27,
    Readdir = 28,
    Releasedir = 29,
    Fsyncdir = 30,
    Getlk = 31,
    Setlk = 32,
    Setlkw = 33,
    Access = 34,
    Create = 35,
    Interrupt = 36,
    Bmap = 37,
    Destroy = 38,
    Ioctl = 39,
    Poll = 40,
    NotifyReply = 41,
    BatchForget = 42,
    Fallocate = 43,
    Readdirplus = 44,
    Rename2 = 45,
    Lseek = 46,
    CopyFileRange = 47,
    Setupmapping = 48,
    Removemapping = 49,
    Syncfs = 50,
    Tmpfile = 51,
    Statx = 52,
}

impl Opcode {
    /// Gives the operation with this number, if it is known.
    pub fn from_number(number: u32) -> Option<Opcode> {
        use Opcode::*;
        const ALL: [Opcode; 50] = [
            Lookup,
            Forget,
            Getattr,
            Setattr,
            Readlink,
            Symlink,
            Mknod,
            Mkdir,
            Unlink,
            Rmdir,
            Rename,
            Link,
            Open,
            Read,
            Write,
            Statfs,
            Release,
            Fsync,
            Setxattr,
            Getxattr,
            Listxattr,
            Removexattr,
            Flush,
            Init,
            Opendir,
            Readdir,
            Releasedir,
            Fsyncdir,
            Getlk,
            Setlk,
            Setlkw,
            Access,
            Create,
            Interrupt,
            Bmap,
            Destroy,
            Ioctl,
            Poll,
            NotifyReply,
            BatchForget,
            Fallocate,
            Readdirplus,
            Rename2,
            Lseek,
            CopyFileRange,
            Setupmapping,
            Removemapping,
            Syncfs,
            Tmpfile,
            Statx,
        ];
        ALL.into_iter().find(|op| *op as u32 == number)
    }

    /// Tells whether the kernel expects no reply to the operation.
    pub fn is_one_way(self) -> bool {
        matches!(self, Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt)
    }
}
