//! What a room asks about paths below /dev and /proc, and what home says.

use serde::{Deserialize, Serialize};

/// What is asked about a path below /dev or /proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Look {
    /// Its attributes; a link is not followed.
    Node,
    /// Where the link points.
    Link,
    /// What the directory holds.
    Names,
    /// What the file holds, below /proc.
    Content,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNode {
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Number of the device, as the kernel's `new_encode_dev` packs it.
    pub rdev: u32,
    /// The number of the inode.
    pub ino: u64,
    /// The owner of the file.
    pub uid: u32,
    /// The group of the file.
    pub gid: u32,
    /// The number of hard links.
    pub nlink: u32,
    /// The size of the file, bytes.
    pub size: u64,
    /// Of last access, modification and change, seconds.
    pub times_s: [u64; 3],
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceName {
    /// The name that it has.
    pub name: Vec<u8>,
    /// The number of the inode.
    pub ino: u64,
    /// Type (`DT_` number).
    pub kind: u8,
}
