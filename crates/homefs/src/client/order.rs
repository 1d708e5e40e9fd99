//! Which replies wait for which invalidations. Pure.
//!
//! A reply made after an invalidation must not reach a guest before the invalidation is applied, or the guest would know
//! something newer than the cached files that it sees. But the kernel may hold the applying thread up: forgetting a name waits for
//! the directory's lock, forgetting content waits for locked pages, and both may be held by a request that waits for its reply. So such replies
//! overtake: everything on a directory of which a name is being forgotten, reads and writes of a file whose content is being forgotten. A request may also be
//! made with directories locked that it does not name: see [`Locked`].

use crate::invalidation::{Invalidation, What};
use crate::proto::{Opcode, Request, STANDIN_BIT};

/// Directories that may be locked beside those which a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locked {
    /// None.
    None,
    /// Those of a link(2) or rename(2), if this thread makes one: with them locked it looks at the file, or into the other directory.
    ByCallOf(u32),
    /// The directory that goes, or comes elsewhere.
    Named,
    /// Some.
    Some,
}

/// What the kernel may hold locked while a request is unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    nodes: [u64; 2],
    pages: bool,
    pub(super) locked: Locked,
    /// The thread that looks a name up; 0 for all other requests.
    pub(super) lookup_tid: u32,
}

impl Blocks {
    pub(super) fn of(request: &Request<'_>) -> Blocks {
        use Opcode::{
            CopyFileRange, Fallocate, Getattr, Getxattr, Lookup, Read, Readdir, Readdirplus, Rename, Rename2, Rmdir,
            Write,
        };
        let pages = matches!(request.opcode, Some(Read | Write | CopyFileRange | Fallocate | Readdir | Readdirplus));
        let lookup_tid = if request.opcode == Some(Lookup) { request.header.pid } else { 0 };
        let locked = match request.opcode {
            Some(Lookup | Getattr | Getxattr) => Locked::ByCallOf(request.header.pid),
            Some(Rmdir | Rename | Rename2) => Locked::Named,
            _ => Locked::None,
        };
        Blocks { nodes: request.nodes().map(|node| node & !STANDIN_BIT), pages, locked, lookup_tid }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Names,
    Pages,
}

#[derive(Debug)]
struct Pending {
    seq: u64,
    mount: u16,
    node: u64,
    kind: Kind,
}

impl Pending {
    fn may_wait_for(&self, mount: u16, blocks: Blocks) -> bool {
        let here = self.node != 0 && self.mount == mount;
        let concerned = here && blocks.nodes.contains(&self.node);
        match self.kind {
            Kind::Names => concerned || (here && blocks.locked == Locked::Some),
            Kind::Pages => concerned && blocks.pages,
        }
    }
}

/// Invalidations not yet applied, and the replies that wait for them.
#[derive(Debug, Default)]
pub(super) struct Order {
    applied: u64,
    pending: Vec<Pending>,
    waiting: Vec<(u64, u16, Vec<u8>)>,
    pub(super) closed: bool,
}

impl Order {
    /// Number of the newest invalidation that is applied, and all before it.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// An invalidation has arrived.
    pub(super) fn announce(&mut self, seq: u64, invalidation: &Invalidation) {
        let mount = invalidation.mount;
        let mut add = |node, kind| self.pending.push(Pending { seq, mount, node, kind });
        match invalidation.what {
            What::Entry(_) => add(invalidation.node, Kind::Names),
            What::Attr { within } if within != 0 => add(within, Kind::Names),
            What::Content { within } => {
                add(invalidation.node, Kind::Pages);
                add(within, Kind::Names);
            }
            What::Attr { .. } | What::AllNames => {}
        }
    }

    /// A reply made at `seq` would wait, but not if it had other directories locked.
    pub(super) fn depends_on_locks(&self, mount: u16, blocks: Blocks, seq: u64) -> bool {
        let pending = |blocks| self.pending.iter().any(|p| p.may_wait_for(mount, blocks));
        self.applied < seq && !pending(blocks) && pending(Blocks { locked: Locked::Some, ..blocks })
    }

    /// A reply made at `seq` has arrived: true if it is kept here until that is applied, false if it is to be given to the kernel now.
    pub(super) fn must_wait(&mut self, mount: u16, blocks: Blocks, seq: u64, bytes: &[u8]) -> bool {
        if self.applied >= seq || self.pending.iter().any(|p| p.may_wait_for(mount, blocks)) {
            return false;
        }
        self.waiting.push((seq, mount, bytes.to_vec()));
        true
    }

    /// All up to `seq` is applied: the replies that waited for no more than that.
    pub(super) fn advance(&mut self, seq: u64) -> Vec<(u16, Vec<u8>)> {
        self.applied = seq;
        self.pending.retain(|p| p.seq > seq);
        self.waiting.extract_if(.., |(s, ..)| *s <= seq).map(|(_, mount, bytes)| (mount, bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Blocks = Blocks { nodes: [7, 0], pages: true, locked: Locked::None, lookup_tid: 0 };
    const STAT: Blocks = Blocks { nodes: [7, 0], pages: false, locked: Locked::None, lookup_tid: 0 };
    const OTHER: Blocks = Blocks { nodes: [8, 0], pages: true, locked: Locked::None, lookup_tid: 0 };

    fn entry() -> What {
        What::Entry(b"x".to_vec())
    }

    fn pending(what: What) -> Order {
        let mut order = Order::default();
        order.announce(1, &Invalidation { mount: 0, node: 7, what });
        order
    }

    #[test]
    fn what_may_hold_an_invalidation_up_overtakes_it() {
        assert!(!pending(What::Content { within: 0 }).must_wait(0, READ, 1, b""));
        assert!(!pending(entry()).must_wait(0, STAT, 1, b""));
        assert!(!pending(What::Attr { within: 8 }).must_wait(0, OTHER, 1, b""));
        assert!(!pending(What::Content { within: 8 }).must_wait(0, OTHER, 1, b""));
        assert!(!pending(entry()).must_wait(
            0,
            Blocks { nodes: [3, 7], pages: false, locked: Locked::None, lookup_tid: 0 },
            1,
            b""
        ));
    }

    #[test]
    fn other_directories_may_be_locked() {
        let locked = Blocks { locked: Locked::Some, ..OTHER };
        assert!(pending(entry()).depends_on_locks(0, OTHER, 1) && !pending(entry()).must_wait(0, locked, 1, b""));
        assert!(!pending(entry()).depends_on_locks(0, STAT, 1), "overtakes anyway");
        assert!(!pending(entry()).depends_on_locks(1, OTHER, 1) && pending(entry()).must_wait(1, locked, 1, b""));
        assert!(!pending(What::Content { within: 0 }).depends_on_locks(0, OTHER, 1), "content needs no directory");
    }

    #[test]
    fn all_else_waits() {
        assert!(pending(What::Content { within: 0 }).must_wait(0, STAT, 1, b""));
        assert!(pending(What::Attr { within: 0 }).must_wait(0, READ, 1, b""));
        assert!(pending(entry()).must_wait(0, OTHER, 1, b""));
        assert!(pending(entry()).must_wait(1, STAT, 1, b""), "another mount");
        assert!(!pending(entry()).must_wait(0, OTHER, 0, b""), "made before");
    }

    #[test]
    fn released_in_order_when_applied() {
        let mut order = pending(entry());
        order.announce(2, &Invalidation { mount: 0, node: 9, what: What::Attr { within: 0 } });
        assert!(order.must_wait(0, OTHER, 2, b"second"));
        assert!(order.must_wait(0, OTHER, 1, b"first"));
        assert_eq!(order.advance(1), [(0, b"first".to_vec())]);
        assert_eq!(order.advance(2), [(0, b"second".to_vec())]);
        assert!(!order.must_wait(0, OTHER, 2, b""));
    }
}
