//! Open files that can be opened again by name.

use crate::error::{BodyError, stays};
use image::File;
use os::process::FdInfo;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// O_ flags that tell how a file was created, not how it is open.
const NOT_KEPT: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_CLOEXEC | libc::O_NOFOLLOW;

/// Gives the flags with which to open a file again that is open with `flags`.
fn kept(flags: i32) -> i32 {
    // The file was created without a name (O_TMPFILE): the flag would open the directory.
    let unnamed = if flags & libc::O_TMPFILE == libc::O_TMPFILE { libc::O_TMPFILE } else { 0 };
    flags & !NOT_KEPT & !unnamed
}

/// Tells whether a descriptor is open as if it had been opened with the `flags` of a [`File`].
pub fn is_open_so(info: &FdInfo, flags: i32) -> bool {
    // O_LARGEFILE, which the kernel sets by itself; libc defines it as 0 here.
    const LARGE: i32 = 0o100_000;
    kept(info.flags) | LARGE == flags | LARGE
}

/// The suffix that the kernel adds to the name of a removed file.
const REMOVED: &[u8] = b" (deleted)";

/// Tells whether the file is open for writing. While it is, no program can execute the file, and
/// the running process may close it at any time; so preparations for a running process do not open
/// it.
pub fn is_written(file: &File) -> bool {
    file.inode != 0 && file.flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Gives the flags for opening the file before its process arrives.
pub fn early_flags(file: &File) -> i32 {
    if is_written(file) { libc::O_PATH | libc::O_CLOEXEC } else { file.flags }
}

/// Gives the last name of a file that was removed; `None` if it was not. A file may really have the
/// kernel's suffix in its name, so the inode number `inode` decides.
pub fn removed(path: &Path, inode: u64) -> Option<PathBuf> {
    let called = path.as_os_str().as_bytes().strip_suffix(REMOVED)?;
    let is_called_so = path.symlink_metadata().is_ok_and(|m| m.ino() == inode);
    (!is_called_so).then(|| OsStr::from_bytes(called).into())
}

/// Describes the file of this name on which descriptor `fd` of a process is open.
///
/// `everywhere`: the file [exists on every node](is_everywhere).
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
        // The name may be a symbolic link, which is then opened itself.
        let flags = kept(info.flags) | libc::O_NOFOLLOW;
        return Ok(File { path: bytes, inode: info.inode, flags, removed: false });
    }
    // The kernel tells the inode number (since 5.14) even where this process cannot access the
    // file: the files of a room are in another namespace.
    Ok(File { path: bytes, inode: info.inode, flags: kept(info.flags), removed: false })
}

/// Describes the file of this name, open as `info` says, with a meaningless inode number.
pub fn nameable(path: &Path, info: &FdInfo) -> File {
    File { path: path.as_os_str().as_bytes().to_vec(), inode: 0, flags: kept(info.flags), removed: false }
}

/// Tells whether the descriptor is open on a directory, or with O_PATH. Nothing tells whether other
/// processes share it (of processes that share an open directory only one may read it, says
/// fork(3p)).
pub fn is_place(pid: i32, fd: i32, info: &FdInfo) -> bool {
    // A path through the descriptor fails at once if it is no directory, and for want of rights in
    // a room, whose files are in another namespace.
    let through = || std::fs::metadata(format!("/proc/{pid}/fd/{fd}/."));
    let is_directory = || through().map_or_else(|e| e.raw_os_error() == Some(libc::EACCES), |_| true);
    info.flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 || is_directory()
}

/// Tells whether descriptor `fd` is open on a device that is the same on every node: null, zero,
/// full, random, urandom (Documentation/admin-guide/devices.txt).
pub fn is_everywhere(pid: i32, fd: i32) -> bool {
    std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|m| is_there_everywhere(&m))
}

/// Tells whether a file with these metadata is such a device.
pub fn is_there_everywhere(metadata: &Metadata) -> bool {
    const EVERYWHERE: [u64; 5] = [3, 5, 7, 8, 9];
    let rdev = metadata.rdev();
    metadata.mode() & libc::S_IFMT == libc::S_IFCHR && rdev >> 8 == 1 && EVERYWHERE.contains(&(rdev & 0xff))
}

/// Gives the lowest number from which `count` descriptor numbers are free, so that the table of
/// descriptors need not grow, which the process could notice.
pub fn free_numbers(taken: impl Iterator<Item = i32>, count: usize) -> i32 {
    const LOWEST: i32 = 3;
    free_numbers_from(LOWEST, taken, count)
}

/// Gives such a number from `lowest` on. (Behind the highest used number none may be free: valgrind
/// takes the last ones that its limit allows.)
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
