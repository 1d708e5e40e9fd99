//! Which files processes have open. A machine's processes may have tens of thousands of descriptors: one call for each must do.

use crate::{Error, Result, process};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatxFlags, open, statx};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

/// Which file a descriptor leads to; the same for whoever has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileId {
    /// An inode of a device.
    Inode {
        /// As of st_dev, major and minor number.
        device: (u32, u32),
        /// As of st_ino.
        number: u64,
    },
    /// A file at which only its user may look (FUSE without allow_other): as /proc/PID/fdinfo shows it.
    Shown {
        /// Number of the mount.
        mount: u64,
        /// Number of the inode; 0 on kernels that do not say it.
        number: u64,
    },
}

/// The file that a descriptor leads to.
pub fn file_of(pid: i32, fd: i32) -> Result<FileId> {
    let directory = directory(pid)?;
    let name = std::ffi::CString::new(fd.to_string()).unwrap_or_default();
    file_at(pid, directory.as_fd(), &name, fd)
}

/// The files of all descriptors that a process has; those that it closes meanwhile are left out.
pub fn files_of(pid: i32) -> Result<Vec<(i32, FileId)>> {
    let directory = directory(pid)?;
    let entries = Dir::read_from(&directory).map_err(|e| failed(pid, e))?;
    let file = |name: &CStr| {
        let fd = name.to_str().ok()?.parse().ok()?;
        Some((fd, file_at(pid, directory.as_fd(), name, fd).ok()?))
    };
    Ok(entries.flatten().filter_map(|entry| file(entry.file_name())).collect())
}

fn directory(pid: i32) -> Result<std::os::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(format!("/proc/{pid}/fd"), flags, Mode::empty()).map_err(|e| failed(pid, e))
}

fn failed(pid: i32, e: rustix::io::Errno) -> Error {
    Error::new(format!("looking at the descriptors of process {pid}"), e)
}

/// What is known of it will do: nobody is asked, neither another machine nor another process.
fn file_at(pid: i32, directory: BorrowedFd<'_>, name: &CStr, fd: i32) -> Result<FileId> {
    let known = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    match statx(directory, name, known, StatxFlags::INO) {
        Ok(seen) => Ok(FileId::Inode { device: (seen.stx_dev_major, seen.stx_dev_minor), number: seen.stx_ino }),
        Err(rustix::io::Errno::NOENT) => Err(failed(pid, rustix::io::Errno::NOENT)),
        Err(_) => process::fd_info(pid, fd).map(|i| FileId::Shown { mount: i.mount_id, number: i.inode }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn one_file_is_one_through_whatever_descriptor() {
        let me = std::process::id() as i32;
        let (file, again) =
            (std::fs::File::open("/proc/self/exe").unwrap(), std::fs::File::open("/proc/self/exe").unwrap());
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (other, _end) = rustix::pipe::pipe().unwrap();
        let of = |fd: &dyn AsRawFd| file_of(me, fd.as_raw_fd()).unwrap();
        assert_eq!(of(&file), of(&again));
        assert_eq!(of(&read), of(&write));
        assert_ne!(of(&read), of(&other));
        let all = files_of(me).unwrap();
        assert!(all.contains(&(read.as_raw_fd(), of(&write))), "{all:?}");
    }

    #[test]
    fn a_number_that_is_closed_is_an_error() {
        assert!(file_of(std::process::id() as i32, 1 << 20).is_err());
        assert!(files_of(i32::MAX).is_err());
    }
}
