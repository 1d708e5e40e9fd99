//! Files that a process writes to. Nobody can run them as long as they are open so anywhere
//! (ETXTBSY in execve(2)), and the program may close them as soon as it runs elsewhere: what it has
//! left must not hold them then.

use crate::room::state::Room;
use homefs::server::FileId;
use image::File;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// Those of one process: device and inode, once for each time that it has one open.
pub struct Written(Vec<(u64, u64)>);

impl Written {
    /// Those among these files.
    pub fn of(files: &[File]) -> Written {
        Written(files.iter().filter_map(which).collect())
    }

    /// It has left this room, whose body, which still has them open, is gone only later.
    pub fn let_go(&self, room: &Room) {
        room.link.files().into_iter().for_each(|server| server.let_go_written(&self.0));
    }
}

/// Opens for a process of this user what it has open for writing in the room, and may have no right
/// to open again: it was made so (O_CREAT and 0444), or its rights were taken away.
pub fn open_again(room: &Room, file: &File, uid: u32) -> Option<OwnedFd> {
    let (device, inode) = which(file)?;
    // This process opens it, with root's rights: so it gives no more than the user's programs have.
    let wanted = crate::restore::reopened::flags(file).ok()?;
    let had = room.link.files()?.written_modes(FileId { device, inode }, uid);
    had.into_iter().find(|had| crate::restore::reopened::covers(had.bits() as i32, wanted))?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let named = rustix::fs::open(OsStr::from_bytes(&file.path), flags, Mode::empty()).ok()?;
    let found = rustix::fs::fstat(&named).ok()?;
    let flags = OFlags::from_bits_retain(wanted as u32);
    let open = || rustix::fs::open(format!("/proc/self/fd/{}", named.as_raw_fd()), flags, Mode::empty()).ok();
    ((found.st_dev, found.st_ino) == (device, inode)).then(open).flatten()
}

/// Device and inode of a file that is open for writing, and still has that name.
fn which(file: &File) -> Option<(u64, u64)> {
    let named = |file: &File| std::fs::metadata(OsStr::from_bytes(&file.path)).ok().map(|m| (m.dev(), m.ino()));
    let written = checkpoint::is_written(file) && !file.removed;
    written.then(|| named(file)).flatten().filter(|(_, inode)| *inode == file.inode)
}
