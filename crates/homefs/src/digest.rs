//! Hashes of files' contents, and the conditions under which an older hash still holds.
//!
//! A write changes the inode's change time before it changes the content, and so does the first
//! store into a page of a mapping. So a file with the same times has the same content, if nobody
//! could write when it was hashed, and on two more conditions. The last change must be longer ago
//! than one tick of the clock from which the kernel takes times. And the file system must see
//! stores into mapped pages: memory file systems do not, network and user-space file systems have
//! their times from elsewhere, and files of overlay file systems may be mapped through another file
//! system.

use rustix::fs::{AtFlags, Statx, StatxFlags, Timespec};
use rustix::io::{Errno, Result};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// A hash of blake3.
pub type Hash = [u8; 32];

/// Sizes of files that are worth comparing, bytes. Smaller files are read faster than compared;
/// larger ones cost a node that does not have them too much.
pub(crate) const WORTHWHILE_BYTES: std::ops::RangeInclusive<u64> = 128 << 10..=256 << 20;
/// The age after which a change cannot be followed by another change with the same time, seconds.
/// (A tick has at most 10 ms.)
const SETTLED_S: i64 = 2;
/// The most hashes that are kept.
const MOST_KEPT: usize = 4096;
const CHUNK_BYTES: usize = 256 << 10;

/// One state of a file. Every change of the content changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    device: (u32, u32),
    ino: u64,
    pub(crate) size_bytes: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl Version {
    /// Reads the present version of a regular file.
    ///
    /// # Errors
    /// The file is not regular.
    pub(crate) fn of(file: impl AsFd) -> Result<Version> {
        let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        if u32::from(stat.stx_mode) & libc::S_IFMT != libc::S_IFREG {
            return Err(Errno::INVAL);
        }
        Ok(Version::from(&stat))
    }

    /// Tells whether the last change is so long ago that the next one will have another time.
    pub(crate) fn is_settled(&self) -> bool {
        let Timespec { tv_sec, .. } = clock_gettime(ClockId::Realtime);
        tv_sec.saturating_sub(self.changed.0) > SETTLED_S
    }
}

impl From<&Statx> for Version {
    fn from(stat: &Statx) -> Version {
        Version {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            size_bytes: stat.stx_size,
            modified: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        }
    }
}

/// Tells whether the times of the file system reflect every change (`linux/magic.h`).
pub(crate) fn tells_of_changes(file: impl AsFd) -> bool {
    const EXT4: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683e;
    const F2FS: i64 = 0xf2f5_2010;
    const EROFS: i64 = 0xe0f5_e1e2;
    const SQUASHFS: i64 = 0x7371_7368;
    rustix::fs::fstatfs(file).is_ok_and(|fs| [EXT4, XFS, BTRFS, F2FS, EROFS, SQUASHFS].contains(&fs.f_type))
}

/// The known hashes by version.
#[derive(Default)]
pub(crate) struct Digests(HashMap<Version, Hash>);

impl Digests {
    /// Gives the hash of this version; `None` if the version is gone, or `go_on` returns false.
    /// Nobody may have been able to write to the file in this version.
    pub(crate) fn of(
        &mut self,
        file: &File,
        version: &Version,
        go_on: impl Fn() -> bool,
    ) -> std::io::Result<Option<Hash>> {
        if let Some(known) = self.0.get(version) {
            return Ok(Some(*known));
        }
        let settled = version.is_settled();
        let mut hasher = blake3::Hasher::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut offset = 0;
        while offset < version.size_bytes {
            let len = (version.size_bytes - offset).min(CHUNK_BYTES as u64) as usize;
            file.read_exact_at(&mut chunk[..len], offset)?;
            hasher.update(&chunk[..len]);
            offset += len as u64;
            if !go_on() {
                return Ok(None);
            }
        }
        if Version::of(file)? != *version {
            return Ok(None);
        }
        let hash = hasher.finalize().into();
        if settled {
            if self.0.len() >= MOST_KEPT {
                self.0.clear();
            }
            self.0.insert(*version, hash);
        }
        Ok(Some(hash))
    }
}
