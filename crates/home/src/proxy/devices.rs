//! What is below the home's /dev, for the room to see. Devices are opened by deputies, with their
//! own rights; here they are only looked at.

use room_protocol::message::{DeviceName, DeviceNode, Look};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// The most names of a directory that are told.
const NAMES_MAX: usize = 1 << 14;

/// The result of the look and its bytes, as a call would return them.
pub fn look(path: &[u8], look: Look) -> (i64, Vec<u8>) {
    match try_look(path, look) {
        Ok(bytes) => (0, bytes),
        Err(e) => (-i64::from(e.raw_os_error().unwrap_or(libc::EIO)), Vec::new()),
    }
}

fn try_look(path: &[u8], look: Look) -> std::io::Result<Vec<u8>> {
    let path = below_dev(path).ok_or_else(|| std::io::Error::from_raw_os_error(libc::EACCES))?;
    let packed = match look {
        Look::Node => postcard::to_stdvec(&node(&path)?),
        Look::Link => return Ok(std::fs::read_link(&path)?.into_os_string().into_vec()),
        Look::Names => postcard::to_stdvec(&names(&path)?),
        Look::Content => return Err(std::io::Error::from_raw_os_error(libc::EACCES)),
    };
    packed.map_err(std::io::Error::other)
}

/// The path, if it is /dev or plainly below it, through directories that everybody may look into.
fn below_dev(path: &[u8]) -> Option<PathBuf> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let plain = path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
    let open_to_all =
        |dir: &Path| dir.symlink_metadata().is_ok_and(|found| found.is_dir() && found.mode() & 0o005 == 0o005);
    let parents = path.ancestors().skip(1).take_while(|dir| dir.starts_with("/dev"));
    (plain && path.starts_with("/dev") && parents.into_iter().all(open_to_all)).then(|| path.to_owned())
}

fn node(path: &Path) -> std::io::Result<DeviceNode> {
    Ok(described(&path.symlink_metadata()?))
}

/// Attributes, as they travel.
pub fn described(found: &std::fs::Metadata) -> DeviceNode {
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    DeviceNode {
        mode: found.mode(),
        // As the kernel's new_encode_dev.
        rdev: minor & 0xff | major << 8 | (minor & !0xff) << 12,
        ino: found.ino(),
        uid: found.uid(),
        gid: found.gid(),
        nlink: found.nlink() as u32,
        size: found.size(),
        times_s: [found.atime() as u64, found.mtime() as u64, found.ctime() as u64],
    }
}

fn names(path: &Path) -> std::io::Result<Vec<DeviceName>> {
    // Types of entries as readdir(3) says them: those of st_mode, shifted.
    const TYPE_SHIFT: u32 = 12;
    if path.symlink_metadata()?.mode() & 0o005 != 0o005 {
        return Err(std::io::Error::from_raw_os_error(libc::EACCES));
    }
    let dots = [b"."; 1].into_iter().map(|dot| DeviceName { name: dot.to_vec(), ino: 1, kind: libc::DT_DIR });
    let mut found: Vec<DeviceName> = dots.collect();
    found.push(DeviceName { name: b"..".to_vec(), ino: 1, kind: libc::DT_DIR });
    for entry in std::fs::read_dir(path)?.take(NAMES_MAX) {
        let entry = entry?;
        let kind = entry.metadata().map_or(0, |m| ((m.mode() & libc::S_IFMT) >> TYPE_SHIFT) as u8);
        found.push(DeviceName { name: entry.file_name().into_vec(), ino: entry.ino(), kind });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dev_is_seen() {
        for path in [&b"/etc/shadow"[..], b"/dev/../etc", b"dev", b"/device", b"", b"/dev/./../etc/passwd"] {
            assert_eq!(look(path, Look::Node).0, -i64::from(libc::EACCES), "{path:?}");
        }
        let (done, out) = look(b"/dev/null", Look::Node);
        let null: DeviceNode = postcard::from_bytes(&out).unwrap();
        assert_eq!((done, null.mode & libc::S_IFMT, null.rdev), (0, libc::S_IFCHR, 0x103));
        let (done, out) = look(b"/dev", Look::Names);
        let names: Vec<DeviceName> = postcard::from_bytes(&out).unwrap();
        assert!(done == 0 && names.iter().any(|n| n.name == b"null" && n.kind == libc::DT_CHR));
        assert_eq!(look(b"/dev/nothing of that name", Look::Node).0, -i64::from(libc::ENOENT));
    }
}
