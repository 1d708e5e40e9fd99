//! The open files of a process, whatever descriptor numbers refer to them.

use crate::BodyError;
use image::Opened;
use os::process::{self, FdInfo};
use std::cmp::Ordering;
use std::collections::HashMap;

/// A file, by mount and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileKey {
    mount: u64,
    inode: u64,
}

/// The open files of a process that were seen: each once, in the kernel's order, by mount and inode
/// (only within these can the open files of one process be told apart).
///
/// The first descriptor of an open file decides whether it moves or stays at home, for all its
/// descriptors. A process that shares it may have ended before the next descriptor is examined. If
/// the file stayed by one descriptor and moved by another, there would be two offsets, one of them
/// wrong.
#[derive(Debug)]
pub struct OpenFiles {
    pid: i32,
    found: HashMap<FileKey, Vec<(i32, Opened)>>,
}

impl OpenFiles {
    /// Creates the empty set for this process.
    pub fn of(pid: i32) -> OpenFiles {
        OpenFiles { pid, found: HashMap::new() }
    }

    /// Gives the decision for this descriptor. `decide` makes it if no earlier descriptor refers to
    /// the same open file.
    pub fn opened(
        &mut self,
        fd: i32,
        info: &FdInfo,
        decide: impl FnOnce() -> Result<Opened, BodyError>,
    ) -> Result<Opened, BodyError> {
        let pid = self.pid;
        self.ordered(
            FileKey { mount: info.mount_id, inode: info.inode },
            fd,
            |other| process::order_of_files(pid, other, fd),
            decide,
        )
    }

    fn ordered(
        &mut self,
        key: FileKey,
        fd: i32,
        order: impl Fn(i32) -> Ordering,
        decide: impl FnOnce() -> Result<Opened, BodyError>,
    ) -> Result<Opened, BodyError> {
        let found = self.found.entry(key).or_default();
        match found.binary_search_by(|(other, _)| order(*other)) {
            Ok(same) => Ok(match found[same].1 {
                Opened::Home(_) => Opened::Home(fd),
                opened => opened,
            }),
            Err(place) => {
                let opened = decide()?;
                found.insert(place, (fd, opened));
                Ok(opened)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has failed: a child that shared standard output and standard error ended between the checks
    /// of the two. One stayed at home, the other moved. When they came home again, the offset of
    /// the second was set, which had not moved, so output of the meantime was overwritten.
    #[test]
    fn one_file_is_not_here_and_there() {
        const KEY: FileKey = FileKey { mount: 1, inode: 2 };
        let mut files = OpenFiles::of(7);
        let mut at_home = |fd, decide: Opened| files.ordered(KEY, fd, |_| Ordering::Equal, || Ok(decide)).unwrap();
        let alone = Opened::File { file: 3, offset: 40 };
        assert_eq!((at_home(1, Opened::Home(1)), at_home(2, alone)), (Opened::Home(1), Opened::Home(2)));
        let mut next = |order| files.ordered(KEY, 5, |_| order, || Ok(alone)).unwrap();
        assert_eq!((next(Ordering::Less), next(Ordering::Greater)), (alone, alone));
    }
}
