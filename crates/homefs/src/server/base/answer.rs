//! A request in the server, and the answer to it.

use crate::proto::{self, Malformed, Request};
use crate::server::state::nodes::Node;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Gives the time for which the room may keep what it learns of a node: none if the node is not
/// watched.
pub(crate) fn valid_s(node: &Node) -> u64 {
    if node.is_watched() { proto::VALID_S } else { 0 }
}

/// One request in the server.
pub(crate) struct Call<'a> {
    pub(crate) mount: u16,
    pub(crate) request: Request<'a>,
    /// The node that the request names.
    pub(crate) node: Arc<Node>,
    /// Whether the request names the node by its stand-in.
    pub(crate) stands_in: bool,
    /// Whether the guest has its answer already.
    pub(crate) is_behind: bool,
    /// Number of the newest invalidation before the server looked at anything.
    pub(crate) start: u64,
}

/// What the reply tells beside its bytes. It is compared with what has changed when the reply is
/// sent.
pub(crate) enum Answer {
    /// The room's kernel keeps nothing of the reply, or ensures its validity itself.
    Plain,
    /// The reply begins with an `EntryOut`; without a node it is a cached "not found".
    Entry { dir: Arc<Node>, node: Option<Arc<Node>> },
    /// The reply begins with an `AttrOut`.
    Attr(Arc<Node>),
    /// The payload has `EntryOut`s at these offsets.
    Listing { dir: Arc<Node>, entries: Vec<(usize, Arc<Node>)> },
    /// The reply has content that must not stay in the room's cache.
    Uncached(Arc<Node>),
    /// Another thread sends the reply.
    Later,
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Refused {
        if matches!(malformed, Malformed::NameTooLong(_)) {
            return Refused(Errno::NAMETOOLONG);
        }
        tracing::warn!(%malformed, "a room sent a bad request");
        Refused(Errno::INVAL)
    }
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        Refused(errno)
    }
}

/// The error number with which a request fails.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Errno);

pub(crate) type Outcome = std::result::Result<Answer, Refused>;

impl Answer {
    /// Marks as not to be cached what has changed since number `start`.
    pub(crate) fn expire_what_changed(&self, start: u64, payload: &mut [u8]) {
        // These are offsets in `EntryOut`. In `AttrOut` the validity is the first word.
        const ENTRY_VALID: usize = std::mem::offset_of!(proto::EntryOut, entry_valid);
        const ATTR_VALID: usize = std::mem::offset_of!(proto::EntryOut, attr_valid);
        let mut zero = |at: usize| {
            if let Some(word) = payload.get_mut(at..at + 8) {
                word.fill(0);
            }
        };
        let names = |dir: &Node| dir.names_changed.load(Ordering::Relaxed) > start;
        let attr = |node: &Node| node.changed.load(Ordering::Relaxed) > start;
        let mut entry = |at: usize, dir: &Node, node: Option<&Node>| {
            if names(dir) {
                zero(at + ENTRY_VALID);
            }
            if node.is_some_and(attr) {
                zero(at + ATTR_VALID);
            }
        };
        match self {
            Answer::Entry { dir, node } => entry(0, dir, node.as_deref()),
            Answer::Listing { dir, entries } => entries.iter().for_each(|(at, node)| entry(*at, dir, Some(node))),
            Answer::Attr(node) if attr(node) => zero(0),
            _ => {}
        }
    }
}
