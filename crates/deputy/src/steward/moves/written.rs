//! Files that a process writes to. Nobody can run them as long as they are open so anywhere (ETXTBSY in execve(2)), and the program may close them as soon as it runs elsewhere: what it has left
//! must not hold them then.

use crate::steward::shared::Shared;
use image::File;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// Those of one process: device and inode, once for each time that it has one open.
pub struct Written(Vec<(u64, u64)>);

impl Written {
    /// Those among these files.
    pub fn of(files: &[File]) -> Written {
        let which = |file: &File| std::fs::metadata(OsStr::from_bytes(&file.path)).ok().map(|m| (m.dev(), m.ino()));
        let written = files.iter().filter(|file| body::is_written(file));
        Written(written.filter_map(|file| which(file).filter(|(_, inode)| *inode == file.inode)).collect())
    }

    /// It has left this room, whose body, which still has them open, is gone only later.
    pub fn let_go(&self, room: &Shared) {
        room.files.get().into_iter().for_each(|server| server.let_go_written(&self.0));
    }
}
