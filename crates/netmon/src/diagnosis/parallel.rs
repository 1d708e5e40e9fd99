//! Queues of PVM and MPI.

use super::{Full, UNREAD_US, process};
use crate::book::Entry;
use crate::layer::{daemon, rank, task};
use crate::record::Cause;

/// Messages that a task of PVM does not receive.
pub fn task_queue(entry: &Entry) -> Option<Full> {
    let messages = entry.cell(task::RX_MESSAGES);
    // A queue that gets shorter is read.
    let is_unread = messages.low > 0 && messages.low >= messages.before;
    is_unread.then(|| Full {
        column: task::RX_MESSAGES,
        for_us: UNREAD_US,
        cause: Cause::ReceiverDoesNotRead,
        text: format!(
            "{} does not receive (pvm_recv) the {} messages, {} bytes, that wait in its memory; this queue has no limit and takes memory",
            process(entry),
            messages.number(),
            entry.cell(task::RX_BYTES).number()
        ),
    })
}

/// Messages that a rank of MPI does not receive.
pub fn rank_queue(entry: &Entry) -> Option<Full> {
    let messages = entry.cell(rank::UNEXPECTED_MESSAGES);
    // A queue that gets shorter is read.
    let is_unread = messages.low > 0 && messages.low >= messages.before;
    is_unread.then(|| Full {
        column: rank::UNEXPECTED_MESSAGES,
        for_us: UNREAD_US,
        cause: Cause::ReceiverDoesNotRead,
        text: format!(
            "{} has no receive (MPI_Recv, MPI_Irecv) for the {} messages that wait in its memory; post receives earlier, or have senders wait (MPI_Ssend)",
            process(entry),
            messages.number()
        ),
    })
}

/// Packets that a daemon of PVM holds.
pub fn daemon_queue(entry: &Entry) -> Option<Full> {
    let packets = entry.cell(daemon::PACKETS);
    let (cause, text) = match entry.object.detail("receiver") {
        Some("task") => {
            (Cause::ReceiverDoesNotRead, "the task does not take its packets from its PVM daemon".to_owned())
        }
        _ => {
            let text = "the PVM daemon holds packets for this host; let tasks talk directly (PvmRouteDirect), or look at the link to the host";
            (Cause::DaemonBottleneck, text.to_owned())
        }
    };
    (packets.low > 0).then_some(Full { column: daemon::PACKETS, for_us: UNREAD_US, cause, text })
}
