//! Which of the home's file systems are seen in a room (proc_pid_mountinfo(5)).

use room_protocol::message::HomeDevice;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where it is mounted.
    pub path: PathBuf,
    /// Nothing can be written through this mount.
    pub read_only: bool,
}

/// File systems that a room has of its own, or that are about the home's kernel alone.
const NOT_SEEN: [&str; 22] = [
    "autofs",
    "bdev",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "cpuset",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// Places that a room has of its own.
const OWN_PLACES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Where files lie that are there to be mapped (shm_open(3), sem_open(3)): an ordinary file system
/// below /dev.
pub const SHARED_MEMORY: &str = room_protocol::SHARED_MEMORY;

/// Whether a path of home's leads to something else in a room, which has a place of its own there.
pub fn is_hidden(path: &Path) -> bool {
    OWN_PLACES.iter().any(|place| path.starts_with(place)) && !path.starts_with(SHARED_MEMORY)
}

/// The home's file systems as a room that is made now would see them.
///
/// # Errors
/// Those of reading /proc/self/mountinfo.
pub fn seen_now() -> os::Result<Vec<Seen>> {
    let info = std::fs::read_to_string("/proc/self/mountinfo");
    info.map(|info| seen(&info)).map_err(|e| os::Error::new("reading /proc/self/mountinfo", e))
}

/// The numbers of all mounts that can be seen now.
///
/// # Errors
/// Those of reading /proc/self/mountinfo.
pub fn devices_now() -> os::Result<Vec<HomeDevice>> {
    let info = std::fs::read_to_string("/proc/self/mountinfo");
    info.map(|info| devices(&info)).map_err(|e| os::Error::new("reading /proc/self/mountinfo", e))
}

/// Whether a file on this device lies on one of these, in a directory.
pub fn shows(seen: &[Seen], device: u64) -> bool {
    let is_there = |seen: &&Seen| std::fs::metadata(&seen.path).is_ok_and(|m| m.is_dir() && m.dev() == device);
    seen.iter().any(|seen| is_there(&seen) && !is_hidden(&seen.path))
}

/// The home's file systems, `/` first, each before those that are mounted in it. What another mount
/// covers is not among them.
pub fn seen(mountinfo: &str) -> Vec<Seen> {
    let mut found: Vec<Seen> = Vec::new();
    for line in mountinfo.lines() {
        let Some((path, read_only, kind)) = parse(line) else { continue };
        // A later mount on the same place, or above it, covers the earlier one.
        found.retain(|s| !s.path.starts_with(&path));
        let own = OWN_PLACES.iter().any(|p| path.starts_with(p)) && path != Path::new(SHARED_MEMORY);
        if !own && !NOT_SEEN.contains(&kind) && (path.is_dir() || path.is_file()) {
            found.push(Seen { path, read_only });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn parse(line: &str) -> Option<(PathBuf, bool, &str)> {
    let (mount, super_block) = line.split_once(" - ")?;
    let fields: Vec<&str> = mount.split(' ').collect();
    let read_only = fields.get(5)?.split(',').any(|o| o == "ro");
    Some((
        PathBuf::from(std::ffi::OsString::from_vec(os::mount::unescape(fields.get(4)?))),
        read_only,
        super_block.split(' ').next()?,
    ))
}

/// The numbers of all mounts that can be seen. Of those at one place the last counts.
pub fn devices(mountinfo: &str) -> Vec<HomeDevice> {
    let mut found: Vec<HomeDevice> = Vec::new();
    for line in mountinfo.lines() {
        let (Some((path, ..)), Some(number)) = (parse(line), line.split(' ').next()) else { continue };
        let (Ok(number), Ok(root)) = (number.parse(), path.symlink_metadata()) else { continue };
        found.retain(|other| other.path != bytes(&path));
        found.push(HomeDevice { path: bytes(&path), device: root.dev(), mount: number });
    }
    found
}

/// As bytes, for the wire.
pub fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_file_systems_only() {
        let text = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /proc rw - proc proc rw\n3 1 0:6 / /dev rw - devtmpfs d rw\n\
                    4 3 0:7 / /dev/shm rw - tmpfs t rw\n5 1 0:8 / /tmp ro,nosuid - tmpfs t rw\n";
        let paths: Vec<_> = seen(text).into_iter().map(|s| (s.path.display().to_string(), s.read_only)).collect();
        assert_eq!(paths, [("/".into(), false), ("/dev/shm".into(), false), ("/tmp".into(), true)]);
    }

    #[test]
    fn covered_mounts_are_not_seen() {
        let text = "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /usr ro - ext4 b rw\n3 1 8:3 / / rw - ext4 c rw\n";
        assert_eq!(seen(text).len(), 1);
    }

    #[test]
    fn numbers_of_mounts() {
        let text =
            "31 0 8:1 / / rw - ext4 a rw\n32 31 0:5 / /proc rw - proc p rw\n33 31 0:5 / /nowhere rw - proc p rw\nodd\n";
        let found: Vec<_> = devices(text).into_iter().map(|d| (d.path, d.mount)).collect();
        assert_eq!(found, [(b"/".to_vec(), 31), (b"/proc".to_vec(), 32)]);
    }
}
