//! Which mounts of the home are to be seen in rooms.

use crate::server::ExportPath;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// File systems that hold files. All others are interfaces to this machine's kernel (proc, sysfs, cgroup, devpts...), which rooms get otherwise.
const FILE_SYSTEMS: [&str; 31] = [
    "9p", "bcachefs", "btrfs", "ceph", "cifs", "ecryptfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuse",
    "fuseblk", "hfsplus", "iso9660", "jfs", "nfs", "nfs4", "ntfs3", "overlay", "ramfs", "smb3", "squashfs", "tmpfs",
    "ubifs", "udf", "vfat", "virtiofs", "xfs", "zfs",
];

/// Where a machine's kernel shows itself, whatever is mounted there (`/sys/fs/cgroup` is a tmpfs).
const KERNEL_TREES: [&str; 2] = ["/proc", "/sys"];

/// One line of `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountLine {
    id: u64,
    path: PathBuf,
    file_system: String,
}

/// The directories of this process' mount namespace to be exported, parents first: every visible mount of a file system that holds
/// files. `/dev` is left out, what is mounted in it (`/dev/shm`) is not; so are single files mounted over others.
pub fn exports() -> io::Result<Vec<ExportPath>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    let mut found: Vec<_> =
        text.split(|b| *b == b'\n').filter_map(parse).filter(is_wanted).filter(is_visible).collect();
    found.sort_by_key(|mount| mount.path.components().count());
    Ok(found.into_iter().map(|mount| ExportPath { path: mount.path }).collect())
}

fn parse(line: &[u8]) -> Option<MountLine> {
    let mut fields = line.split(|b| *b == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let path = PathBuf::from(OsString::from_vec(unescape(fields.nth(3)?)));
    let file_system = String::from_utf8(fields.skip_while(|f| *f != b"-").nth(1)?.to_vec()).ok()?;
    Some(MountLine { id, path, file_system })
}

/// Space, tab, newline and backslash come as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.first_chunk::<3>().filter(|d| *first == b'\\' && d.iter().all(|c| (b'0'..=b'7').contains(c)));
        rest = match digits {
            Some(d) => {
                plain.push(d.iter().fold(0u8, |n, c| (n << 3) | (c - b'0')));
                &tail[3..]
            }
            None => {
                plain.push(*first);
                tail
            }
        };
    }
    plain
}

fn is_wanted(mount: &MountLine) -> bool {
    let kind = mount.file_system.split('.').next().unwrap_or("");
    FILE_SYSTEMS.contains(&kind)
        && mount.path != Path::new("/dev")
        && !KERNEL_TREES.iter().any(|tree| mount.path.starts_with(tree))
}

/// The path leads to this mount, not to one on top of it, and to a directory.
fn is_visible(mount: &MountLine) -> bool {
    rustix::fs::statx(CWD, &mount.path, AtFlags::NO_AUTOMOUNT, StatxFlags::MNT_ID | StatxFlags::TYPE)
        .is_ok_and(|stat| stat.stx_mnt_id == mount.id && u32::from(stat.stx_mode) & libc::S_IFMT == libc::S_IFDIR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line =
            b"36 35 98:0 /root /mnt/with\\040space rw,noatime shared:1 master:2 - fuse.sshfs /dev/x rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!(
            (mount.id, mount.path.to_str().unwrap(), &*mount.file_system),
            (36, "/mnt/with space", "fuse.sshfs")
        );
        assert!(is_wanted(&mount));
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn this_machine_has_a_root_and_no_proc() {
        let found = exports().unwrap();
        assert_eq!(found[0].path, Path::new("/"));
        assert!(
            found
                .iter()
                .all(|e| !e.path.starts_with("/proc") && !e.path.starts_with("/sys") && e.path != Path::new("/dev"))
        );
    }
}
