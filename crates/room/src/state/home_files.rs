//! Which files of guests are home's.

use os::ptrace::HostTid;

/// Whether a guest's descriptor is of a file in one of home's file systems, but not /proc. (The
/// mounts tell the warden no more of them than what they are: their type is for the room's users to
/// ask.)
pub fn is_in_home_file_system(host: HostTid, fd: i32) -> bool {
    const FUSE_SUPER_MAGIC: i64 = 0x6573_5546; // linux/magic.h
    let link = os::process::link(host.0, &format!("fd/{fd}"));
    link.is_ok_and(|path| !path.starts_with("/proc"))
        && rustix::fs::statfs(format!("/proc/{}/fd/{fd}", host.0)).is_ok_and(|fs| fs.f_type == FUSE_SUPER_MAGIC)
}
