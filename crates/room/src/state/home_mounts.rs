//! The mounts through which the room sees its home's files.

use checkpoint::BodyError;
use os::process;
use os::ptrace::HostTid;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The mounts through which the room sees its home's files.
#[derive(Debug)]
pub struct HomeFiles {
    /// Numbers of the mounts.
    pub mounts: Vec<u64>,
    /// That of the files that are there to be mapped.
    pub memory: Option<Mount>,
    pub devices: Vec<(u32, u32)>,
}

/// A mount, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Number of the mount.
    pub mount: u64,
    /// Device number of its file system.
    pub device: (u32, u32),
}

impl HomeFiles {
    /// Files of this device are home's.
    pub fn has(&self, device: (u32, u32)) -> bool {
        self.devices.contains(&device)
    }

    /// As this process sees them.
    pub fn of(host: HostTid) -> Result<HomeFiles, BodyError> {
        let mut found = HomeFiles { mounts: Vec::new(), memory: None, devices: Vec::new() };
        for line in process::mounts(host.0)?.lines() {
            // number parent major:minor ... - type source options (proc_pid_mountinfo(5))
            let Some((mount, super_block)) = line.split_once(" - ") else { continue };
            let mut fields = mount.split(' ');
            let (number, device) = (fields.next(), fields.nth(1).and_then(|d| d.split_once(':')));
            let is_memory = fields.nth(1) == Some(room_protocol::SHARED_MEMORY);
            if let (true, Some(number), Some((major, minor))) =
                (super_block.starts_with("fuse tern "), number.and_then(|n| n.parse().ok()), device)
                && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
            {
                found.mounts.push(number);
                found.devices.push((major, minor));
                if is_memory {
                    found.memory = Some(Mount { mount: number, device: (major, minor) });
                }
            }
        }
        Ok(found)
    }
}

/// What the kernel adds to the name of a file that has none any more, and of one whose name it was
/// told to forget because something changed there. Home, which knows, compares inode numbers.
pub const REMOVED: &[u8] = b" (deleted)";

pub fn without_end(name: PathBuf) -> PathBuf {
    match name.as_os_str().as_bytes().strip_suffix(REMOVED) {
        Some(bare) => OsStr::from_bytes(bare).into(),
        None => name,
    }
}
