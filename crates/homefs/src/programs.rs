//! Programs that cannot begin in a room, whose guests gain no rights and make no 32-bit calls: only home's kernel can execute them.

use crate::sys;
use rustix::fs::{Mode, OFlags, Stat, StatVfsMountFlags};
use rustix::io::{Errno, Result};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// Such a file, not to be read.
///
/// # Errors
/// There is none of that name that this process may reach.
pub fn open(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// The user and the group that this process acts as.
pub fn who_asks() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Whether home must execute this file for this user and group, as whom the calling thread acts: that gives rights, or takes none to read it, or it is for another processor.
/// `file` may be an O_PATH descriptor.
pub fn begins_at_home(file: &OwnedFd, (uid, gid): (u32, u32)) -> bool {
    let Ok(path) = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())) else { return false };
    let gives_ids = rustix::fs::fstat(file).is_ok_and(|stat| gives_ids(&stat, (uid, gid)));
    // Root has them all without (capabilities(7)).
    let gives_rights = gives_ids || uid != 0 && has_capabilities(&path);
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

/// Set-user-id or set-group-id, to others than these (bprm_fill_uid in fs/exec.c).
fn gives_ids(stat: &Stat, (uid, gid): (u32, u32)) -> bool {
    let has = |bits: Mode| Mode::from_raw_mode(stat.st_mode).contains(bits);
    has(Mode::SUID) && stat.st_uid != uid || has(Mode::SGID | Mode::XGRP) && stat.st_gid != gid
}

fn has_capabilities(path: &CString) -> bool {
    rustix::fs::getxattr_query(&**path, c"security.capability").is_ok_and(|bytes| bytes > 0)
}

/// Whether it is an ELF file of that class (elf(5)).
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
        assert!(gives_ids(&stat, (1000, 7)) && !gives_ids(&stat, (0, 1)));
        stat.st_mode = 0o102755;
        assert!(gives_ids(&stat, (1000, 1)) && !gives_ids(&stat, (1000, 7)));
        // Without the right of the group to execute it, it is not set-group-id.
        stat.st_mode = 0o102705;
        assert!(!gives_ids(&stat, (1000, 1)));
        stat.st_mode = 0o100755;
        assert!(!gives_ids(&stat, (1000, 1)));
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
