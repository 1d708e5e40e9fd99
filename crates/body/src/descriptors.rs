//! Open files that can be opened again by their name.

use crate::error::{BodyError, stays};
use image::File;
use os::process::FdInfo;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// O_ flags that say how a file was made, not how it is open.
const NOT_KEPT: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_CLOEXEC | libc::O_NOFOLLOW;

/// Flags to open a file with that is open with these.
fn kept(flags: i32) -> i32 {
    // It was made without a name: the directory is not to be opened.
    let unnamed = if flags & libc::O_TMPFILE == libc::O_TMPFILE { libc::O_TMPFILE } else { 0 };
    flags & !NOT_KEPT & !unnamed
}

/// A descriptor is open as one is that was opened with these flags of a [`File`].
pub fn is_open_so(info: &FdInfo, flags: i32) -> bool {
    // Which the kernel sets by itself: O_LARGEFILE is 0 for libc here.
    const LARGE: i32 = 0o100_000;
    kept(info.flags) | LARGE == flags | LARGE
}

/// What the kernel says behind the name of a file that has none any more.
const REMOVED: &[u8] = b" (deleted)";

/// It is open for writing. As long as it is anywhere nobody can run it, and the program may close it at any time: so what is made ready for one that runs only names it.
pub fn is_written(file: &File) -> bool {
    file.inode != 0 && file.flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Flags with which it is opened for a program that still runs elsewhere.
pub fn early_flags(file: &File) -> i32 {
    if is_written(file) { libc::O_PATH | libc::O_CLOEXEC } else { file.flags }
}

/// What a file was called that the kernel says was removed, if it was: a file may be called so, too (`inode`: its number).
pub fn removed(path: &Path, inode: u64) -> Option<PathBuf> {
    let called = path.as_os_str().as_bytes().strip_suffix(REMOVED)?;
    let is_called_so = path.symlink_metadata().is_ok_and(|m| m.ino() == inode);
    (!is_called_so).then(|| OsStr::from_bytes(called).into())
}

/// The file of this name that descriptor `fd` of a process is open on.
///
/// `everywhere`: it [is there everywhere](is_everywhere).
pub fn open_file(fd: i32, info: &FdInfo, path: &Path, everywhere: bool) -> Result<File, BodyError> {
    let bytes = path.as_os_str().as_bytes().to_vec();
    let name = path.display();
    if info.locked {
        return stays(format!("it holds a lock on {name} (descriptor {fd})"));
    }
    if !bytes.starts_with(b"/") {
        return stays(format!("descriptor {fd} is open on a file that has no name ({name})"));
    }
    if everywhere {
        return Ok(File { path: bytes, inode: 0, flags: kept(info.flags), removed: false });
    }
    if info.flags & libc::O_PATH != 0 {
        // It may be a link: that is opened itself.
        let flags = kept(info.flags) | libc::O_NOFOLLOW;
        return Ok(File { path: bytes, inode: info.inode, flags, removed: false });
    }
    // The kernel says the number (since 5.14) also where it would not let us look at the file: a room's files are not this namespace's.
    Ok(File { path: bytes, inode: info.inode, flags: kept(info.flags), removed: false })
}

/// The file of this name, open as `info` says; its inode number means nothing.
pub fn nameable(path: &Path, info: &FdInfo) -> File {
    File { path: path.as_os_str().as_bytes().to_vec(), inode: 0, flags: kept(info.flags), removed: false }
}

/// The descriptor is open on a directory, or only names a file: nobody can tell whether others have it too (of those who have a directory in common only one may read it, says fork(3p)).
pub fn is_place(pid: i32, fd: i32, info: &FdInfo) -> bool {
    // A way through it ends at once where it is none, and for want of rights in a room's, which are not this namespace's.
    let through = || std::fs::metadata(format!("/proc/{pid}/fd/{fd}/."));
    let is_directory = || through().map_or_else(|e| e.raw_os_error() == Some(libc::EACCES), |_| true);
    info.flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 || is_directory()
}

/// Devices that are the same everywhere: null, zero, full, random, urandom (Documentation/admin-guide/devices.txt).
pub fn is_everywhere(pid: i32, fd: i32) -> bool {
    std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|m| is_there_everywhere(&m))
}

/// The same of a file that was looked at.
pub fn is_there_everywhere(metadata: &Metadata) -> bool {
    const EVERYWHERE: [u64; 5] = [3, 5, 7, 8, 9];
    let rdev = metadata.rdev();
    metadata.mode() & libc::S_IFMT == libc::S_IFCHR && rdev >> 8 == 1 && EVERYWHERE.contains(&(rdev & 0xff))
}

/// The lowest number from which `count` numbers are free: so the table of descriptors need not grow, which could be seen.
pub fn free_numbers(taken: impl Iterator<Item = i32>, count: usize) -> i32 {
    const LOWEST: i32 = 3;
    free_numbers_from(LOWEST, taken, count)
}

/// The same, from a lowest one. (Behind the highest there may be none: valgrind has the last ones of all that its limit allows.)
pub fn free_numbers_from(lowest: i32, taken: impl Iterator<Item = i32>, count: usize) -> i32 {
    let mut taken: Vec<i32> = taken.collect();
    taken.sort_unstable();
    let mut from = lowest;
    for number in taken {
        if number >= from + count as i32 {
            break;
        }
        from = from.max(number + 1);
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_used() {
        assert_eq!(free_numbers([0, 1, 2, 5, 6, 251].into_iter(), 2), 3);
        assert_eq!(free_numbers([251, 0, 1, 2, 5, 6].into_iter(), 3), 7);
        assert_eq!(free_numbers([3, 4].into_iter(), 1), 5);
        assert_eq!(free_numbers_from(64, [3, 65, 100].into_iter(), 4), 66);
    }
}
