//! Mounts (mount(2), the new mount interface of 5.2, pivot_root(2)).

use crate::error::check;
use crate::{Error, Result};
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

fn c(path: &Path) -> Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::new(format!("using path {path:?}"), std::io::Error::from_raw_os_error(libc::EINVAL)))
}

/// Mounts a file system, as mount(2) does.
pub fn mount(source: &str, target: &Path, fstype: &str, flags: u64, options: &str) -> Result<()> {
    let doing = || format!("mounting {fstype} {source} on {}", target.display());
    let bad = |_| Error::new(doing(), std::io::Error::from_raw_os_error(libc::EINVAL));
    let (s, t, f, o) = (
        CString::new(source).map_err(bad)?,
        c(target)?,
        CString::new(fstype).map_err(bad)?,
        CString::new(options).map_err(bad)?,
    );
    // SAFETY: four live strings.
    check(unsafe { libc::mount(s.as_ptr(), t.as_ptr(), f.as_ptr(), flags, o.as_ptr().cast()) }, doing).map(drop)
}

/// Keeps mounts and unmounts of this namespace from all others.
pub fn make_private() -> Result<()> {
    mount("none", Path::new("/"), "none", libc::MS_REC | libc::MS_PRIVATE, "")
}

/// Shows `source` at `target` too.
pub fn bind(source: &Path, target: &Path) -> Result<()> {
    mount(&source.to_string_lossy(), target, "none", libc::MS_BIND, "")
}

/// Opens a /dev/fuse connection.
pub fn open_fuse() -> Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| Error::new("opening /dev/fuse", e))
}

/// Mount options of a FUSE connection whose permissions the kernel checks and which every user of
/// the room may use; `target` is what it covers, a directory or a file.
pub fn fuse_options(device: RawFd, target: &Path) -> String {
    let root_mode = if target.is_file() { libc::S_IFREG } else { libc::S_IFDIR };
    format!("fd={device},rootmode={root_mode:o},user_id=0,group_id=0,default_permissions,allow_other,max_read=1048576")
}

/// Mounts a FUSE connection nowhere: the result is its root directory.
pub fn fuse_detached(device: BorrowedFd<'_>, source: &str) -> Result<OwnedFd> {
    use rustix::mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount,
        fsopen,
    };
    let failed =
        |what: &'static str| move |e: rustix::io::Errno| Error::new(format!("mounting the stand-ins: {what}"), e);
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed("fsopen"))?;
    let ctx = std::os::fd::AsFd::as_fd(&context);
    for (key, value) in [
        ("source", source),
        ("fd", &device.as_raw_fd().to_string()),
        ("rootmode", "40000"),
        ("user_id", "0"),
        ("group_id", "0"),
    ] {
        fsconfig_set_string(ctx, key, value).map_err(failed("fsconfig"))?;
    }
    fsconfig_set_flag(ctx, "default_permissions").map_err(failed("fsconfig"))?;
    fsconfig_set_flag(ctx, "allow_other").map_err(failed("fsconfig"))?;
    fsconfig_create(ctx).map_err(failed("fsconfig"))?;
    fsmount(ctx, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC)
        .map_err(failed("fsmount"))
}

/// Puts a mount that is mounted nowhere at this place.
pub fn attach(mount: BorrowedFd<'_>, target: &Path) -> Result<()> {
    use rustix::mount::{MoveMountFlags, move_mount};
    move_mount(mount, "", rustix::fs::CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|e| Error::new(format!("mounting on {}", target.display()), e))
}

/// Number of the mount that a descriptor lies on, as in /proc/PID/fdinfo.
pub fn mount_id(fd: BorrowedFd<'_>) -> Result<u64> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let x = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
        .map_err(|e| Error::new("asking for a mount's number", e))?;
    Ok(x.stx_mnt_id)
}

/// Makes `root` the root of this mount namespace; nothing of the old tree stays reachable.
pub fn enter_root(root: &Path) -> Result<()> {
    std::env::set_current_dir(root).map_err(|e| Error::new(format!("entering {}", root.display()), e))?;
    let here = c".";
    // SAFETY: live strings. With both arguments ".", the old root lies over the new one until it is
    // detached (pivot_root(2), NOTES).
    unsafe {
        check(libc::syscall(libc::SYS_pivot_root, here.as_ptr(), here.as_ptr()), || {
            format!("making {} the root", root.display())
        })?;
        check(libc::umount2(here.as_ptr(), libc::MNT_DETACH), || "leaving the old root".into())?;
    }
    std::env::set_current_dir("/").map_err(|e| Error::new("entering /", e))
}

/// Opens the mount namespace of this process, for setns(2).
pub fn own_mounts() -> Result<OwnedFd> {
    let path = "/proc/self/ns/mnt";
    std::fs::File::open(path).map(OwnedFd::from).map_err(|e| Error::new(format!("opening {path}"), e))
}

/// Opens a directory or file only as a place (O_PATH).
pub fn open_path(path: &Path) -> Result<OwnedFd> {
    let name = c(path)?;
    // SAFETY: a live string; returns a new descriptor.
    let fd = check(unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) }, || {
        format!("opening {}", path.display())
    })?;
    // SAFETY: the kernel just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives a path of mountinfo: space, tab, newline and backslash are written as three octal digits
/// (proc_pid_mountinfo(5)).
pub fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = (*first == b'\\' && tail.len() >= 3)
            .then(|| std::str::from_utf8(&tail[..3]).ok().and_then(|d| u8::from_str_radix(d, 8).ok()))
            .flatten();
        out.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_characters() {
        assert_eq!(unescape("/a\\040b\\134"), b"/a b\\");
    }
}
