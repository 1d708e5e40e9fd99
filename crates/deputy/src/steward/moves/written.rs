//! Files that a process writes to. Nobody can run them as long as they are open so anywhere (ETXTBSY in execve(2)), and the program may close them as soon as it runs elsewhere: what it has left
//! must not hold them then.

use crate::steward::shared::Shared;
use image::File;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// Those of one process: device and inode, once for each time that it has one open.
pub struct Written(Vec<(u64, u64)>);

impl Written {
    /// Those among these files.
    pub fn of(files: &[File]) -> Written {
        Written(files.iter().filter_map(which).collect())
    }

    /// What the room's server has open for those of them that are open once, by their places among the files: it goes on with that, for it may have no right any more to open them.
    pub fn lent(files: &[File], room: &Shared) -> BTreeMap<u32, OwnedFd> {
        let all = Written::of(files);
        let once = |which: &(u64, u64)| all.0.iter().filter(|other| *other == which).count() == 1;
        let Some(server) = room.files.get() else { return BTreeMap::new() };
        let lent = |file: &File| which(file).filter(once).and_then(|which| server.lend_written(which, 1).pop());
        (0..).zip(files).filter_map(|(place, file)| Some((place, lent(file)?))).collect()
    }

    /// It has left this room, whose body, which still has them open, is gone only later.
    pub fn let_go(&self, room: &Shared) {
        room.files.get().into_iter().for_each(|server| server.let_go_written(&self.0));
    }
}

/// Device and inode of a file that is open for writing, and still has that name.
fn which(file: &File) -> Option<(u64, u64)> {
    let named = |file: &File| std::fs::metadata(OsStr::from_bytes(&file.path)).ok().map(|m| (m.dev(), m.ino()));
    let written = body::is_written(file) && !file.removed;
    written.then(|| named(file)).flatten().filter(|(_, inode)| *inode == file.inode)
}
