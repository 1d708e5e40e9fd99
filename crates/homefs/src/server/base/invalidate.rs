//! Telling the room what it must forget. Invalidations are numbered, and no message to the room
//! overtakes those before it.

use super::server::Server;
use crate::invalidation::{Invalidation, What};
use crate::server::state::events::{Change, Event};
use crate::server::state::mutex::lock;
use crate::server::state::nodes::Node;
use std::sync::atomic::Ordering;

impl Server {
    /// Sends the invalidations of all changes at home up to now, and gives the number of the newest
    /// one. Call it before any other message to the room: the room must have applied that
    /// invalidation before a guest sees the message.
    pub fn flush_events(&self) -> u64 {
        self.drain(&mut lock(&self.order))
    }

    /// Sends the invalidations of all changes; the caller holds `order`, which has the buffer.
    pub(crate) fn drain(&self, buf: &mut [u8]) -> u64 {
        if let Some(events) = self.watch.events() {
            loop {
                let len = events.read(buf);
                if len == 0 {
                    break;
                }
                self.send_events(&buf[..len]);
            }
        }
        self.seq.load(Ordering::Relaxed)
    }

    fn send_events(&self, mut bytes: &[u8]) {
        while let Some((event, rest)) = Event::split(bytes) {
            for (node, change) in event.changes(&self.exports, &self.nodes, self.own_pid) {
                self.emit_in_order(&node, change);
            }
            bytes = rest;
        }
    }

    /// Tells the room to forget something, and gives the number of the invalidation.
    pub(crate) fn emit(&self, node: &Node, change: Change) -> u64 {
        let _order = lock(&self.order);
        self.emit_in_order(node, change)
    }

    /// Tells the room to forget something; the caller holds `order`.
    pub(crate) fn emit_in_order(&self, node: &Node, change: Change) -> u64 {
        match change {
            Change::Name(name) => self.send_invalidation(node, What::Entry(name)),
            Change::AllNames => self.send_invalidation(node, What::AllNames),
            Change::Attr | Change::Content => {
                let named_in = std::mem::take(&mut *lock(&node.named_in));
                // Apart from hard links there is at most one directory.
                let (last, others) = named_in.split_last().map_or((0, &[][..]), |(last, others)| (*last, others));
                for &within in others {
                    self.send_invalidation(node, What::Attr { within });
                }
                let content = matches!(change, Change::Content);
                self.send_invalidation(
                    node,
                    if content { What::Content { within: last } } else { What::Attr { within: last } },
                )
            }
        }
    }

    fn send_invalidation(&self, node: &Node, what: What) -> u64 {
        let seq = self.seq.load(Ordering::Relaxed) + 1;
        node.changed.store(seq, Ordering::Relaxed);
        if matches!(what, What::Entry(_) | What::AllNames) {
            node.names_changed.store(seq, Ordering::Relaxed);
        }
        self.seq.store(seq, Ordering::Release);
        self.outlet.invalidate(seq, &Invalidation { mount: node.export, node: self.room_id(node), what });
        seq
    }

    /// Gives the id by which the room's kernel knows a node.
    pub(crate) fn room_id(&self, node: &Node) -> u64 {
        let is_root = std::ptr::eq(node, &*self.exports[usize::from(node.export)].root);
        if is_root { crate::proto::ROOT_ID } else { node.id }
    }

    /// Notes that the room is about to be told of a node in a directory; the caller holds `order`.
    pub(crate) fn note_naming(&self, dir: &Node, node: &Node) {
        let dir = self.room_id(dir);
        let mut named_in = lock(&node.named_in);
        if !named_in.contains(&dir) {
            named_in.push(dir);
        }
    }
}
