//! Files that a deputy has open all the time, and that its program gets back as they are.

use crate::restore::locks::Locks;
use crate::room::state::Room;
use checkpoint::BodyError;
use image::{Image, Opened};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process loses its record locks of a file when it closes any descriptor of it
/// (fcntl_locking(2)): so none of what is opened now, and closed when it has been mapped or placed,
/// may be a file that the deputy has locked.
pub fn keeps_its_locks(room: &Room, pid: i32, image: &Image) -> Result<(), BodyError> {
    let files: Vec<i32> = match room.table().deputies.get(&pid) {
        Some(deputy) => deputy.standins.iter().filter(|(s, _)| s.is_file()).flat_map(|(_, fds)| fds.clone()).collect(),
        None => Vec::new(),
    };
    for fd in files {
        let info = os::process::fd_info(pid, fd)?;
        let own = format!("/proc/self/fd/{fd}").into_bytes();
        let again = |file: &&image::File| file.path == own || (file.inode == info.inode && !file.removed);
        if info.locked && image.files.iter().any(|file| again(&file)) {
            let name = os::process::link(pid, &format!("fd/{fd}"))?;
            let why = format!("it holds a lock on {} and has it mapped, or opened again", name.display());
            return Err(BodyError::NotMigratable(why));
        }
    }
    Ok(())
}

/// Files of the image, by their places, that its deputy has open already, in the same way, under
/// the number that the first of their descriptors has.
pub fn kept(image: &Image, locks: &Locks) -> BTreeMap<u32, i32> {
    let mut first = BTreeMap::new();
    for descriptor in &image.descriptors {
        if let Opened::File { file, .. } = descriptor.opened {
            first.entry(file).or_insert(descriptor.fd);
        }
    }
    first.retain(|place, fd| {
        let file = image.files.get(*place as usize).filter(|file| !file.removed && !locks.is_open(*place));
        file.is_some_and(|file| has_open(image.process.pid, *fd, file))
    });
    first
}

/// The process has this file open, by what its name leads to, under this number.
fn has_open(pid: i32, fd: i32, file: &image::File) -> bool {
    let path = Path::new(OsStr::from_bytes(&file.path));
    // What is below it says what who looks is shown; what only names a file may name a link.
    if path.starts_with("/proc") || file.flags & libc::O_PATH != 0 {
        return false;
    }
    let which = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    // Devices that are there everywhere have other numbers there.
    let named = which(path).filter(|(_, inode)| file.inode == 0 || *inode == file.inode);
    named.is_some_and(|named| which(Path::new(&format!("/proc/{pid}/fd/{fd}"))) == Some(named))
        && os::process::fd_info(pid, fd).is_ok_and(|info| checkpoint::is_open_so(&info, file.flags))
}

/// Two descriptors of the process are open on the same file in the same way.
pub fn is_same(pid: i32, a: i32, b: i32) -> bool {
    let file = |fd: i32| {
        let metadata = std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).ok()?;
        // How it was made, not how it is open: without a name.
        let flags = os::process::fd_info(pid, fd).ok()?.flags & !libc::O_CLOEXEC & !libc::O_TMPFILE;
        Some((metadata.dev(), metadata.ino(), flags))
    };
    file(a).is_some_and(|found| file(b) == Some(found))
}
