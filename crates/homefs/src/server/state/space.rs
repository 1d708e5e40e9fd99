//! Whether writes to a file system can fail for other reasons than a defect of its disk, and how
//! much space is free. While much is free, the room may tell its guests of writes before home has
//! made them (`client::behind`).

use crate::sys;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Free space from which on writes may be behind. Others write to the disk, too, so this is a
/// multiple of what a few hundred rooms may have under way.
const ENOUGH_BYTES: u64 = 1 << 30;
/// Free inodes from which on files may be made behind.
const ENOUGH_INODES: u64 = 1 << 10;
/// How long a look at the free space is good for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// File systems (`statfs(2)`) whose writes of regular files fail only if the space is used up.
const PLAIN: [u64; 6] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // f2fs
    0x794c_7630, // overlayfs
    0x9123_683e, // btrfs
];

/// The space of one file system.
#[derive(Debug)]
pub(crate) struct Space {
    /// Whether only a lack of space makes writes fail.
    is_plain: bool,
    began: Instant,
    /// The time of the last look, in microseconds after `began`.
    looked_us: AtomicU64,
    is_scarce: AtomicBool,
}

impl Space {
    /// Looks at the file system of an open file.
    pub(crate) fn of(file: impl AsFd) -> Space {
        let file = file.as_fd();
        let kind = rustix::fs::fstatfs(file).map(|stat| stat.f_type as u64).ok();
        let is_plain = kind.is_some_and(|kind| PLAIN.contains(&kind)) && !has_quotas(file);
        let space =
            Space { is_plain, began: Instant::now(), looked_us: AtomicU64::new(0), is_scarce: AtomicBool::new(false) };
        space.look(file);
        space
    }

    /// Tells whether a write may fail, because little space is free or because the file system has
    /// other reasons.
    pub(crate) fn is_scarce(&self, file: impl AsFd) -> bool {
        if !self.is_plain {
            return true;
        }
        let now_us = self.began.elapsed().as_micros() as u64;
        let looked_us = self.looked_us.load(Ordering::Relaxed);
        if now_us.saturating_sub(looked_us) >= LOOK_EVERY.as_micros() as u64 {
            self.looked_us.store(now_us, Ordering::Relaxed);
            self.look(file.as_fd());
        }
        self.is_scarce.load(Ordering::Relaxed)
    }

    fn look(&self, file: BorrowedFd<'_>) {
        let is_enough = rustix::fs::fstatfs(file).is_ok_and(|stat| {
            let bytes = stat.f_bavail.saturating_mul(stat.f_bsize as u64);
            // File systems that make inodes as they need them tell none.
            bytes >= ENOUGH_BYTES && (stat.f_files == 0 || stat.f_ffree >= ENOUGH_INODES)
        });
        self.is_scarce.store(!is_enough, Ordering::Relaxed);
    }
}

/// Tells whether the space of users, groups, projects or subvolumes is limited.
fn has_quotas(file: BorrowedFd<'_>) -> bool {
    sys::enforces_quotas(file) || btrfs_has_quotas()
}

/// Tells whether any btrfs of this machine has quota groups. The kernel does not tell it of an open
/// file without more rights.
fn btrfs_has_quotas() -> bool {
    let systems = std::fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten();
    systems.map(|entry| entry.path().join("qgroups")).any(|groups| groups.exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_file_system_of_the_kernel_is_not_plain() {
        assert!(Space::of(File::open("/proc").unwrap()).is_scarce(File::open("/proc").unwrap()));
    }

    #[test]
    fn a_file_system_with_much_space_is_not_scarce() {
        let temporary = File::open("/dev/shm").unwrap();
        let free = rustix::fs::fstatfs(&temporary).unwrap();
        let space = Space::of(&temporary);
        assert_eq!(space.is_scarce(&temporary), free.f_bavail * (free.f_bsize as u64) < ENOUGH_BYTES);
    }
}
