//! Queues of processes that are away: streams, and the links that these go by.

use super::{Full, STAYS_US, UNREAD_US, is_at_limit, process};
use crate::book::{Book, Entry};
use crate::layer::{Layer, link, stream};
use crate::record::Cause;

/// Names the node of an object of tern's.
fn node(entry: &Entry) -> &str {
    entry.object.detail("node").unwrap_or("its node")
}

/// The bytes of all streams that are on their way to a node. They are at their limit because the
/// link carries no more, or because processes there do not read.
pub fn relay_queue(entry: &Entry) -> Option<Full> {
    if !is_at_limit(entry, link::RELAY_BYTES) {
        return None;
    }
    let node = node(entry);
    let (cause, text) = if entry.cell(link::UNSENT_BYTES).low > 0 {
        (Cause::RelaySaturated, saturated(node))
    } else {
        let text = format!("processes on {node} do not read their connections (the streams of this link say which)");
        (Cause::ReceiverDoesNotRead, text)
    };
    Some(Full { column: link::RELAY_BYTES, for_us: STAYS_US, cause, text })
}

fn saturated(node: &str) -> String {
    format!(
        "the relay to {node} is saturated: more comes for processes there than its link carries; move them home or to the node of their peers (tern move), or use a faster link"
    )
}

/// Says why bytes for a process that is away wait at home. ternd is asked as often as queues are
/// looked at, so a process counts as reading if it has done so within a second.
pub fn held_by_relay(stream: &Entry, now_us: u64) -> (Cause, String) {
    if now_us.saturating_sub(stream.cell(stream::TAKEN_BYTES).changed_us) < UNREAD_US {
        return (Cause::RelaySaturated, saturated(node(stream)));
    }
    let text = format!("{}, which runs on {}, does not read", process(stream), node(stream));
    (Cause::ReceiverDoesNotRead, text)
}

/// Finds the stream whose bytes pass through this socket at home.
pub fn stream_of<'a>(entry: &Entry, book: &'a Book) -> Option<&'a Entry> {
    let local = entry.object.detail("local")?;
    book.present(Layer::Stream).find(|stream| {
        stream.object.detail("local") == Some(local)
            && stream.object.detail("remote") == entry.object.detail("remote")
            && entry.object.detail("protocol") == Some("tcp")
    })
}

/// The bytes of one stream that are on their way to its process.
pub fn stream_queue(entry: &Entry, now_us: u64) -> Option<Full> {
    if !is_at_limit(entry, stream::TO_ROOM_BYTES) {
        return None;
    }
    let (cause, text) = held_by_relay(entry, now_us);
    Some(Full { column: stream::TO_ROOM_BYTES, for_us: STAYS_US, cause, text })
}

/// Bytes of a process that is away, for which the socket at home has no room.
pub fn stream_out_queue(entry: &Entry) -> Option<Full> {
    (entry.cell(stream::WAITING_BYTES).low > 0).then(|| Full {
        column: stream::WAITING_BYTES,
        for_us: UNREAD_US,
        cause: Cause::ReceiverDoesNotRead,
        text: format!(
            "the process at the other end of this connection ({}) does not read, or reads too little",
            entry.object.detail("remote").unwrap_or("not known")
        ),
    })
}
