//! Open files, whatever numbers of a process show them.

use crate::BodyError;
use image::Opened;
use os::process::{self, FdInfo};
use std::cmp::Ordering;
use std::collections::HashMap;

/// Those of a process that were seen: each once, in the kernel's order of them, by mount and inode (only within these may one process' files be told apart from others').
///
/// What becomes of one is decided at its first number, and holds for all: whoever shares it may be gone when the next is looked at, and what stayed home by one number and went along by another
/// would have two offsets, one of which is wrong.
#[derive(Debug)]
pub struct OpenFiles {
    pid: i32,
    found: HashMap<(u64, u64), Vec<(i32, Opened)>>,
}

impl OpenFiles {
    /// Of this process, none yet.
    pub fn of(pid: i32) -> OpenFiles {
        OpenFiles { pid, found: HashMap::new() }
    }

    /// What is behind this number: decided, if no other number showed the same before.
    pub fn opened(
        &mut self,
        fd: i32,
        info: &FdInfo,
        decide: impl FnOnce() -> Result<Opened, BodyError>,
    ) -> Result<Opened, BodyError> {
        let pid = self.pid;
        self.ordered((info.mount_id, info.inode), fd, |other| process::order_of_files(pid, other, fd), decide)
    }

    fn ordered(
        &mut self,
        key: (u64, u64),
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

    /// Failed before: a child that shared standard output and errors ended between the looks at both. One stayed home, the other went along, and when they came home again
    /// the offset of the second was set, which nobody had moved: what was written meanwhile was written over.
    #[test]
    fn one_file_is_not_here_and_there() {
        let mut files = OpenFiles::of(7);
        let mut at_home = |fd, decide: Opened| files.ordered((1, 2), fd, |_| Ordering::Equal, || Ok(decide)).unwrap();
        let alone = Opened::File { file: 3, offset: 40 };
        assert_eq!((at_home(1, Opened::Home(1)), at_home(2, alone)), (Opened::Home(1), Opened::Home(2)));
        let mut next = |order| files.ordered((1, 2), 5, |_| order, || Ok(alone)).unwrap();
        assert_eq!((next(Ordering::Less), next(Ordering::Greater)), (alone, alone));
    }
}
