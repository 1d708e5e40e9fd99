//! The mounts through which the room sees its home's files.

use checkpoint::BodyError;
use os::areas::Area;
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
    /// The mount of the files that are there to be mapped.
    pub memory: Option<Mount>,
    /// Device numbers of their file systems, major and minor.
    pub devices: Vec<(u32, u32)>,
}

/// A mount, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Number of the mount.
    pub mount: u64,
    /// Device number of its file system, major and minor.
    pub device: (u32, u32),
}

impl HomeFiles {
    /// Returns whether a memory area shows one of home's files.
    pub fn show_in(&self, area: &Area) -> bool {
        self.devices.contains(&area.device)
    }

    /// Gives the device number of one of these mounts, as `st_dev` has it.
    pub fn device(&self, mount: u64) -> Option<u64> {
        let at = self.mounts.iter().position(|known| *known == mount)?;
        self.devices.get(at).map(|(major, minor)| rustix::fs::makedev(*major, *minor))
    }

    /// Reads them from the mounts that this process sees.
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

/// Suffix that the kernel adds to the name of a file that was removed, and of one whose name the
/// kernel was told to forget because something changed there. Home, which knows, compares inode
/// numbers.
pub const REMOVED: &[u8] = b" (deleted)";

/// Strips [`REMOVED`] from a name.
pub fn without_end(name: PathBuf) -> PathBuf {
    match name.as_os_str().as_bytes().strip_suffix(REMOVED) {
        Some(bare) => OsStr::from_bytes(bare).into(),
        None => name,
    }
}
