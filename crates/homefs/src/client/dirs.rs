//! Directories about which the room need not ask. The code is pure.
//!
//! **Opening.** Where home watches a directory, the room's kernel keeps its listing. Then OPENDIR
//! tells nothing, and the room answers it with a handle of its own. If the kernel reads the
//! directory all the same, home opens it under that handle.
//!
//! **Names.** A directory that the room has just made is empty, and home's news tell when others
//! make names in it. So the room knows all names in it that there can be: those that its own
//! requests have made. For any other name the answer is that there is none.

use crate::invalidation::{Invalidation, What};
use crate::proto::{CreateIn, DIR_BIT, LinkIn, MkdirIn, MknodIn, Opcode, Rename2In, RenameIn, Request};
use std::collections::{HashMap, HashSet};

/// The most directories whose names are known, and the most names in one.
const MOST_NEW: usize = 1024;
const MOST_NAMES: usize = 4096;

/// A directory: its mount, and its id there.
type Dir = (u16, u64);

/// The directories that the room knows.
#[derive(Debug, Default)]
pub(super) struct Dirs {
    watched: HashSet<Dir>,
    /// Handles of the room's own that are open, and whether home has opened them, too.
    open: HashMap<(u16, u64), bool>,
    last: u64,
    /// The names in directories that the room has made.
    new: HashMap<Dir, HashSet<Vec<u8>>>,
}

impl Dirs {
    /// Notes that home watches a directory that it has opened.
    pub(super) fn opened(&mut self, mount: u16, node: u64) {
        self.watched.insert((mount, node));
    }

    /// Gives a handle of the room's own for a directory, if home need not be asked.
    pub(super) fn open(&mut self, mount: u16, node: u64) -> Option<u64> {
        self.watched.contains(&(mount, node)).then(|| {
            self.last += 1;
            let fh = DIR_BIT | self.last;
            self.open.insert((mount, fh), false);
            fh
        })
    }

    /// Notes that a request with this handle goes to home, which may open the directory for it.
    pub(super) fn uses(&mut self, mount: u16, fh: u64) {
        if let Some(is_at_home) = self.open.get_mut(&(mount, fh)) {
            *is_at_home = true;
        }
    }

    /// Notes that the room has closed a handle. Returns whether home need not hear of that.
    pub(super) fn closed(&mut self, mount: u16, fh: u64) -> bool {
        self.open.remove(&(mount, fh)) == Some(false)
    }

    /// Notes that the room has made a directory that is empty.
    pub(super) fn made(&mut self, mount: u16, node: u64) {
        if self.new.len() < MOST_NEW {
            self.new.insert((mount, node), HashSet::new());
        }
    }

    /// Tells whether a directory has no such name.
    pub(super) fn lacks(&self, mount: u16, directory: u64, name: &[u8]) -> bool {
        self.new.get(&(mount, directory)).is_some_and(|names| !names.contains(name))
    }

    /// Notes the names that a request is about to make. Call this before home has it.
    pub(super) fn names_made_by(&mut self, mount: u16, request: &Request<'_>) {
        if self.new.is_empty() {
            return;
        }
        let (node, mut args) = (request.header.nodeid, request.args());
        match request.opcode {
            Some(Opcode::Create) if args.take::<CreateIn>().is_ok() => self.add(mount, node, args.name()),
            Some(Opcode::Mknod) if args.take::<MknodIn>().is_ok() => self.add(mount, node, args.name()),
            Some(Opcode::Mkdir) if args.take::<MkdirIn>().is_ok() => self.add(mount, node, args.name()),
            Some(Opcode::Link) if args.take::<LinkIn>().is_ok() => self.add(mount, node, args.name()),
            Some(Opcode::Symlink) => self.add(mount, node, args.name()),
            Some(Opcode::Rename) => {
                let Ok(to) = args.take::<RenameIn>() else { return };
                let _ = args.name();
                self.add(mount, to.newdir, args.name());
            }
            Some(Opcode::Rename2) => {
                let Ok(to) = args.take::<Rename2In>() else { return };
                let _ = args.name();
                self.add(mount, to.newdir, args.name());
            }
            _ => {}
        }
    }

    fn add<E>(&mut self, mount: u16, directory: u64, name: Result<&std::ffi::CStr, E>) {
        let Some(names) = self.new.get_mut(&(mount, directory)) else { return };
        match name {
            Ok(name) if names.len() < MOST_NAMES => drop(names.insert(name.to_bytes().to_vec())),
            _ => drop(self.new.remove(&(mount, directory))),
        }
    }

    /// Takes home's news: another process has changed names.
    pub(super) fn hear(&mut self, invalidation: &Invalidation) {
        match invalidation.what {
            What::Entry(_) => drop(self.new.remove(&(invalidation.mount, invalidation.node))),
            What::AllNames => self.new.clear(),
            What::Attr { .. } | What::Content { .. } => {}
        }
    }

    /// Forgets a directory that the room's kernel has forgotten.
    pub(super) fn forget(&mut self, mount: u16, node: u64) {
        self.watched.remove(&(mount, node));
        self.new.remove(&(mount, node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{IN_HEADER_BYTES, InHeader};
    use zerocopy::IntoBytes;

    fn request(opcode: Opcode, nodeid: u64, parts: &[&[u8]]) -> Vec<u8> {
        let body = parts.concat();
        let len = (IN_HEADER_BYTES + body.len()) as u32;
        let header = InHeader { len, opcode: opcode as u32, unique: 8, nodeid, ..Default::default() };
        [header.as_bytes(), &body].concat()
    }

    fn sends(dirs: &mut Dirs, bytes: &[u8]) {
        dirs.names_made_by(1, &Request::parse(bytes).unwrap());
    }

    #[test]
    fn a_watched_directory_is_opened_without_home() {
        let mut dirs = Dirs::default();
        assert_eq!(dirs.open(1, 7), None);
        dirs.opened(1, 7);
        let (one, two) = (dirs.open(1, 7).unwrap(), dirs.open(1, 7).unwrap());
        assert_ne!(one, two);
        dirs.uses(1, two);
        assert!(dirs.closed(1, one), "home never heard of it");
        assert!(!dirs.closed(1, two), "home has opened it");
        assert!(!dirs.closed(1, 5), "a handle of home's");
        dirs.forget(1, 7);
        assert_eq!(dirs.open(1, 7), None);
    }

    #[test]
    fn a_new_directory_has_the_names_that_were_made_in_it() {
        let mut dirs = Dirs::default();
        assert!(!dirs.lacks(1, 7, b"a"), "nothing is known");
        dirs.made(1, 7);
        assert!(dirs.lacks(1, 7, b"a") && !dirs.lacks(0, 7, b"a"));
        sends(&mut dirs, &request(Opcode::Create, 7, &[CreateIn::default().as_bytes(), b"a\0"]));
        sends(&mut dirs, &request(Opcode::Symlink, 7, &[b"b\0", b"target\0"]));
        sends(&mut dirs, &request(Opcode::Rename, 3, &[RenameIn { newdir: 7 }.as_bytes(), b"old\0", b"c\0"]));
        sends(&mut dirs, &request(Opcode::Link, 7, &[LinkIn { oldnodeid: 3 }.as_bytes(), b"d\0"]));
        for name in [b"a", b"b", b"c", b"d"] {
            assert!(!dirs.lacks(1, 7, name));
        }
        assert!(dirs.lacks(1, 7, b"old"));
    }

    #[test]
    fn names_that_others_make_end_the_knowledge() {
        let mut dirs = Dirs::default();
        dirs.made(1, 7);
        dirs.hear(&Invalidation { mount: 1, node: 8, what: What::Entry(b"x".to_vec()) });
        assert!(dirs.lacks(1, 7, b"a"));
        dirs.hear(&Invalidation { mount: 1, node: 7, what: What::Entry(b"x".to_vec()) });
        assert!(!dirs.lacks(1, 7, b"a"));
        dirs.made(1, 7);
        dirs.hear(&Invalidation { mount: 0, node: 0, what: What::AllNames });
        assert!(!dirs.lacks(1, 7, b"a"));
    }
}
