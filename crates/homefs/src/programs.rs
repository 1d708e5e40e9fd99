//! Programs that cannot begin in a room: those that give rights, and 32-bit programs. Guests gain
//! no rights and make no 32-bit calls, so only home's kernel can execute these programs.

use crate::sys;
use rustix::fs::{Mode, OFlags, Stat, StatVfsMountFlags};
use rustix::io::{Errno, Result};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// User id of a process.
    pub uid: u32,
    /// Group id of a process.
    pub gid: u32,
}

/// Opens a program's file with O_PATH.
///
/// # Errors
/// This process can reach no file of that name.
pub fn open(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Gives the user and the group as which this process acts.
pub fn who_asks() -> Ids {
    Ids { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// Tells whether home must execute this file for this user and group, as whom the calling thread
/// acts. Home must if the file gives rights, if it cannot be read, or if it is for another
/// processor. `file` may be an O_PATH descriptor.
pub fn begins_at_home(file: &OwnedFd, ids: Ids) -> bool {
    let Ok(path) = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())) else { return false };
    let gives_ids = rustix::fs::fstat(file).is_ok_and(|stat| gives_ids(&stat, ids));
    // Root has all capabilities without the file's (capabilities(7)).
    let gives_rights = gives_ids || ids.uid != 0 && has_capabilities(&path);
    if gives_rights {
        let mount = rustix::fs::fstatvfs(file);
        return mount.is_ok_and(|mount| !mount.f_flag.contains(StatVfsMountFlags::NOSUID));
    }
    match rustix::fs::open(&*path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => is_of_32_bits(file),
        Err(Errno::ACCESS) => sys::may(&path, libc::X_OK).is_ok(),
        Err(_) => false,
    }
}

/// Tells whether the file is set-user-ID or set-group-ID to other ids than these (bprm_fill_uid in
/// fs/exec.c).
fn gives_ids(stat: &Stat, ids: Ids) -> bool {
    let Ids { uid, gid } = ids;
    let has = |bits: Mode| Mode::from_raw_mode(stat.st_mode).contains(bits);
    has(Mode::SUID) && stat.st_uid != uid || has(Mode::SGID | Mode::XGRP) && stat.st_gid != gid
}

fn has_capabilities(path: &CString) -> bool {
    rustix::fs::getxattr_query(&**path, c"security.capability").is_ok_and(|bytes| bytes > 0)
}

/// Tells whether the file is a 32-bit ELF file (elf(5)).
pub fn is_of_32_bits(file: impl AsFd) -> bool {
    const ELFCLASS32: u8 = 1;
    let mut head = [0; 5];
    rustix::io::pread(file, &mut head, 0).is_ok_and(|bytes| bytes == head.len())
        && head == [0x7f, b'E', b'L', b'F', ELFCLASS32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_one_has_already_are_not_given() {
        let file = tempfile::tempfile().unwrap();
        let mut stat = rustix::fs::fstat(&file).unwrap();
        (stat.st_uid, stat.st_gid) = (0, 7);
        stat.st_mode = 0o104755;
        assert!(gives_ids(&stat, Ids { uid: 1000, gid: 7 }) && !gives_ids(&stat, Ids { uid: 0, gid: 1 }));
        stat.st_mode = 0o102755;
        assert!(gives_ids(&stat, Ids { uid: 1000, gid: 1 }) && !gives_ids(&stat, Ids { uid: 1000, gid: 7 }));
        // Without the execute permission of the group, the file is not set-group-ID.
        stat.st_mode = 0o102705;
        assert!(!gives_ids(&stat, Ids { uid: 1000, gid: 1 }));
        stat.st_mode = 0o100755;
        assert!(!gives_ids(&stat, Ids { uid: 1000, gid: 1 }));
    }

    #[test]
    fn the_class_of_a_program_is_known() {
        use std::io::Write;
        let of = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            is_of_32_bits(file)
        };
        assert!(of(b"\x7fELF\x01\x01\x01") && !of(b"\x7fELF\x02\x01\x01"));
        assert!(!of(b"#!/bin/sh\n") && !of(b"\x7fELF") && !of(b""));
    }
}
