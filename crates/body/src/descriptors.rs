//! Open files that can be opened again by their name.

use crate::error::{BodyError, stays};
use image::File;
use os::process::FdInfo;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// O_ flags that say how a file was made, not how it is open.
const NOT_KEPT: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_CLOEXEC | libc::O_NOFOLLOW;

/// The file of this name that descriptor `fd` of process `pid` is open on.
pub fn open_file(pid: i32, fd: i32, info: &FdInfo, path: &Path) -> Result<File, BodyError> {
    let bytes = path.as_os_str().as_bytes().to_vec();
    let name = path.display();
    if info.locked {
        return stays(format!("it holds a lock on {name} (descriptor {fd})"));
    }
    if bytes.ends_with(b" (deleted)") || !bytes.starts_with(b"/") {
        return stays(format!("descriptor {fd} is open on a file that has no name ({name})"));
    }
    if is_everywhere(pid, fd) {
        return Ok(File { path: bytes, inode: 0, flags: info.flags & !NOT_KEPT });
    }
    if info.flags & libc::O_PATH != 0 {
        // It may be a link: that is opened itself.
        let flags = info.flags & !NOT_KEPT | libc::O_NOFOLLOW;
        return Ok(File { path: bytes, inode: info.inode, flags });
    }
    // The kernel says the number (since 5.14) also where it would not let us look at the file: a room's files are not this namespace's.
    Ok(File { path: bytes, inode: info.inode, flags: info.flags & !NOT_KEPT })
}

/// The file of this name, open as `info` says; its inode number means nothing.
pub fn nameable(path: &Path, info: &FdInfo) -> File {
    File { path: path.as_os_str().as_bytes().to_vec(), inode: 0, flags: info.flags & !NOT_KEPT }
}

/// Devices that are the same everywhere: null, zero, full, random, urandom (Documentation/admin-guide/devices.txt).
pub fn is_everywhere(pid: i32, fd: i32) -> bool {
    const EVERYWHERE: [u64; 5] = [3, 5, 7, 8, 9];
    std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|m| {
        let rdev = m.rdev();
        m.mode() & libc::S_IFMT == libc::S_IFCHR && rdev >> 8 == 1 && EVERYWHERE.contains(&(rdev & 0xff))
    })
}

/// The lowest number from which `count` numbers are free: so the table of descriptors need not grow, which could be seen.
pub fn free_numbers(taken: impl Iterator<Item = i32>, count: usize) -> i32 {
    const LOWEST: i32 = 3;
    let mut taken: Vec<i32> = taken.collect();
    taken.sort_unstable();
    let mut from = LOWEST;
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
    }
}
