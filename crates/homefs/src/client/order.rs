//! The order of replies and invalidations. Pure code.
//!
//! A reply made after an invalidation must not reach a guest before the invalidation is applied;
//! otherwise the guest would know something newer than the cached files that it sees. But the
//! kernel may block the applying thread: forgetting a name waits for the directory's lock, and
//! forgetting content waits for locked pages. A request that waits for its reply may hold both.
//! Such replies overtake invalidations: all replies about a directory in which a name is being
//! forgotten, and reads and writes of a file whose content is being forgotten.
//!
//! A request may also be made with directories locked that it does not name: see [`Locked`]. And a
//! listing may wait, with its directory locked, for pages of a file in it. So a reply about content
//! waits for invalidations of names for a limited time only (`Order::locks_pages_before_names`).
//!
//! Where a file system is mounted twice, home also reports changes that the room itself has made.
//! The invalidation of a directory that was just made arrived after the reply, when a process may
//! already have entered the directory. The directory then had no path (getcwd(2) fails with ENOENT
//! for a directory without a name). So the forgetting of a name waits for requests under way that
//! make a directory of that name, and is skipped if one has.

use crate::invalidation::{Invalidation, What};
use crate::proto::{EntryOut, MkdirIn, OUT_HEADER_BYTES, Opcode, Request, STANDIN_BIT, reply_error};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use zerocopy::FromBytes;

/// Directories that may be locked beside those that a request names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Locked {
    /// No other directories.
    #[default]
    None,
    /// Those of a link(2) or rename(2), if this thread is in one. With the directories locked, it
    /// looks at the file, or into the other directory.
    ByCallOf(u32),
    /// The directory that is removed or renamed.
    Named,
    /// Directories that are not known.
    Some,
}

/// What the kernel may hold locked while a request is unanswered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    nodes: [u64; 2],
    pages: bool,
    pub(super) locked: Locked,
    /// The thread that looks up a name; 0 for other requests.
    pub(super) lookup_tid: u32,
    /// The name of a directory that is being made.
    pub(super) name: Option<Name>,
}

/// A name in a directory: a hash of mount, directory and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(u64);

impl Name {
    fn new(mount: u16, directory: u64, name: &[u8]) -> Name {
        let mut hasher = DefaultHasher::new();
        (mount, directory, name).hash(&mut hasher);
        Name(hasher.finish())
    }

    /// Gives the name of the directory that a request makes.
    fn made_by(mount: u16, request: &Request<'_>) -> Option<Name> {
        if request.opcode != Some(Opcode::Mkdir) {
            return None;
        }
        let mut args = request.args();
        args.take::<MkdirIn>().ok()?;
        Some(Name::new(mount, request.header.nodeid, args.name().ok()?.to_bytes()))
    }
}

/// Tells whether a reply names what was made.
fn names_something(reply: &[u8]) -> bool {
    let entry = reply.get(OUT_HEADER_BYTES..).and_then(|payload| EntryOut::read_from_prefix(payload).ok());
    reply_error(reply).is_none() && entry.is_some_and(|(entry, _)| entry.nodeid != 0)
}

impl Blocks {
    pub(super) fn of(mount: u16, request: &Request<'_>) -> Blocks {
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
        let name = Name::made_by(mount, request);
        Blocks { nodes: request.nodes().map(|node| node & !STANDIN_BIT), pages, locked, lookup_tid, name }
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
    /// The name that is to be forgotten.
    name: Option<Name>,
    /// Whether a later reply has told what the name means.
    is_known: bool,
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

/// What to do with a name that is to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameAction {
    /// Forget the name.
    Forget,
    /// Keep the name: a later reply has told its meaning.
    Keep,
    /// Wait: a request under way names it.
    Wait,
}

/// Invalidations that are not applied yet, and the replies that wait for them.
#[derive(Debug, Default)]
pub(super) struct ReplyOrder {
    applied: u64,
    pending: Vec<Pending>,
    /// The number of requests under way that make a directory of a name.
    asked: HashMap<Name, u32>,
    waiting: Vec<(u64, u16, Vec<u8>)>,
    pub(super) closed: bool,
}

impl ReplyOrder {
    /// Gives the number up to which all invalidations are applied.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// Takes an invalidation that has arrived.
    pub(super) fn announce(&mut self, seq: u64, invalidation: &Invalidation) {
        let mount = invalidation.mount;
        let name = match &invalidation.what {
            What::Entry(name) => Some(Name::new(mount, invalidation.node, name)),
            _ => None,
        };
        let mut add = |node, kind| self.pending.push(Pending { seq, mount, node, kind, name, is_known: false });
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

    /// Tells whether a reply made at `seq` waits only if its request has no other directories
    /// locked.
    pub(super) fn depends_on_locks(&self, mount: u16, blocks: Blocks, seq: u64) -> bool {
        let pending = |blocks| self.pending.iter().any(|p| p.may_wait_for(mount, blocks));
        self.applied < seq && !pending(blocks) && pending(Blocks { locked: Locked::Some, ..blocks })
    }

    /// Tells whether a reply made at `seq` must be given to the kernel at once.
    pub(super) fn overtakes(&self, mount: u16, blocks: Blocks, seq: u64) -> bool {
        self.applied >= seq || self.pending.iter().any(|p| p.may_wait_for(mount, blocks))
    }

    /// Tells whether a reply made at `seq` waits for the forgetting of a name while pages are
    /// locked. A listing of the name's directory may wait for those pages with the directory
    /// locked, because the kernel drops the pages of files whose size has changed.
    pub(super) fn locks_pages_before_names(&self, mount: u16, blocks: Blocks, seq: u64) -> bool {
        let names = |p: &Pending| p.mount == mount && p.node != 0 && p.seq <= seq && matches!(p.kind, Kind::Names);
        blocks.pages && self.applied < seq && self.pending.iter().any(names)
    }

    /// Takes a reply made at `seq`. Returns true if it is kept here until `seq` is applied, false
    /// if it is to be given to the kernel at once.
    pub(super) fn must_wait(&mut self, mount: u16, blocks: Blocks, seq: u64, bytes: &[u8]) -> bool {
        if self.overtakes(mount, blocks, seq) {
            return false;
        }
        self.waiting.push((seq, mount, bytes.to_vec()));
        true
    }

    /// Notes that a request that makes a directory of this name is sent to home.
    pub(super) fn asks(&mut self, name: Name) {
        *self.asked.entry(name).or_default() += 1;
    }

    /// Notes that the request is answered. `reply`, made at `seq`, has been given to the kernel if
    /// it is present. Returns true if an invalidation may have waited for that.
    pub(super) fn answered(&mut self, name: Name, reply: Option<(u64, &[u8])>) -> bool {
        if let Some(count) = self.asked.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.asked.remove(&name);
            }
        }
        let mut concerned: Vec<&mut Pending> = self.pending.iter_mut().filter(|p| p.name == Some(name)).collect();
        // More than one invalidation means that another process has changed the name, too.
        if let ([one], Some((seq, bytes))) = (&mut concerned[..], reply) {
            one.is_known = one.seq <= seq && names_something(bytes);
        }
        !concerned.is_empty()
    }

    /// Decides about the name of invalidation `seq`.
    pub(super) fn turn(&self, seq: u64) -> NameAction {
        match self.pending.iter().find_map(|p| p.name.filter(|_| p.seq == seq).map(|name| (name, p.is_known))) {
            Some((_, true)) => NameAction::Keep,
            Some((name, false)) if self.asked.contains_key(&name) => NameAction::Wait,
            _ => NameAction::Forget,
        }
    }

    /// Notes that all invalidations up to `seq` are applied. Gives the replies that waited for
    /// them.
    pub(super) fn advance(&mut self, seq: u64) -> Vec<(u16, Vec<u8>)> {
        self.applied = seq;
        self.pending.retain(|p| p.seq > seq);
        self.waiting.extract_if(.., |(s, ..)| *s <= seq).map(|(_, mount, bytes)| (mount, bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Blocks = Blocks { nodes: [7, 0], pages: true, locked: Locked::None, lookup_tid: 0, name: None };
    const STAT: Blocks = Blocks { nodes: [7, 0], pages: false, locked: Locked::None, lookup_tid: 0, name: None };
    const OTHER: Blocks = Blocks { nodes: [8, 0], pages: true, locked: Locked::None, lookup_tid: 0, name: None };

    fn entry() -> What {
        What::Entry(b"x".to_vec())
    }

    fn pending(what: What) -> ReplyOrder {
        let mut order = ReplyOrder::default();
        order.announce(1, &Invalidation { mount: 0, node: 7, what });
        order
    }

    #[test]
    fn replies_that_block_an_invalidation_overtake_it() {
        assert!(!pending(What::Content { within: 0 }).must_wait(0, READ, 1, b""));
        assert!(!pending(entry()).must_wait(0, STAT, 1, b""));
        assert!(!pending(What::Attr { within: 8 }).must_wait(0, OTHER, 1, b""));
        assert!(!pending(What::Content { within: 8 }).must_wait(0, OTHER, 1, b""));
        assert!(!pending(entry()).must_wait(
            0,
            Blocks { nodes: [3, 7], pages: false, locked: Locked::None, lookup_tid: 0, name: None },
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

    /// Builds a reply to a lookup.
    fn entry_reply(node: u64) -> Vec<u8> {
        let mut reply = crate::proto::ReplyBuf::default();
        reply.clear();
        reply.push(&EntryOut { nodeid: node, ..EntryOut::default() });
        reply.finish(5).to_vec()
    }

    #[test]
    fn pages_may_be_waited_for_with_a_directory_locked() {
        let read = Blocks { nodes: [8, 0], ..READ };
        assert!(pending(entry()).locks_pages_before_names(0, read, 1));
        assert!(!pending(entry()).locks_pages_before_names(0, read, 0), "made before");
        assert!(!pending(entry()).locks_pages_before_names(1, read, 1), "another mount");
        assert!(!pending(entry()).locks_pages_before_names(0, STAT, 1), "no pages");
        assert!(!pending(What::Content { within: 0 }).locks_pages_before_names(0, read, 1), "no name");
    }

    #[test]
    fn a_directory_that_was_just_made_is_not_forgotten() {
        let name = Name::new(0, 7, b"x");
        let after = |seq, reply: &[u8]| {
            let mut order = ReplyOrder::default();
            order.asks(name);
            order.announce(3, &Invalidation { mount: 0, node: 7, what: entry() });
            assert_eq!(order.turn(3), NameAction::Wait);
            assert!(order.answered(name, Some((seq, reply))));
            order.turn(3)
        };
        assert_eq!(after(3, &entry_reply(9)), NameAction::Keep);
        assert_eq!(after(2, &entry_reply(9)), NameAction::Forget, "made before");
        assert_eq!(after(3, &entry_reply(0)), NameAction::Forget, "it names nothing");
        assert_eq!(after(3, &crate::proto::status(5, libc::EEXIST)), NameAction::Forget);
        let mut order = pending(entry());
        assert_eq!(order.turn(1), NameAction::Forget, "nobody asks");
        order.asks(Name::new(0, 7, b"y"));
        assert!(!order.answered(Name::new(0, 7, b"y"), Some((1, &entry_reply(9)))));
        assert_eq!(order.turn(1), NameAction::Forget, "another name");
        order.asks(name);
        order.asks(name);
        assert!(order.answered(name, None), "the kernel did not take it");
        assert_eq!(order.turn(1), NameAction::Wait, "one more is under way");
        assert!(order.answered(name, Some((1, &entry_reply(9)))));
        assert_eq!(order.turn(1), NameAction::Keep);
        let mut order = pending(entry());
        order.announce(2, &Invalidation { mount: 0, node: 7, what: entry() });
        order.asks(name);
        assert!(order.answered(name, Some((2, &entry_reply(9)))));
        assert_eq!(
            (order.turn(1), order.turn(2)),
            (NameAction::Forget, NameAction::Forget),
            "somebody else was there, too"
        );
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
