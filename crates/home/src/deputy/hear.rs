//! What deputies say, taken from their channels.

use crate::deputy::channel::{self, DeputyMessage};
use crate::deputy::proof::ProofError;
use std::os::fd::OwnedFd;

/// Why nothing more is heard on a channel.
#[derive(Debug)]
pub enum HearError {
    /// The deputy's end is closed.
    Closed,
    /// Another process sent the packet, or the packet makes no sense.
    NotTrusted(ProofError),
}

/// Takes what a thread of deputy `pid` says now; `None` when there is nothing more.
pub fn hear(pid: i32, channel: &OwnedFd, buffer: &mut [u8]) -> Result<Option<DeputyMessage>, HearError> {
    let nonsense = || HearError::NotTrusted(ProofError::Nonsense { pid, what: "what no deputy says" });
    let received = match packet::receive_from(channel, buffer, libc::MSG_DONTWAIT) {
        Ok(received) if received.bytes == 0 => return Err(HearError::Closed),
        Ok(received) => received,
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => return Err(nonsense()),
        Err(_) => return Err(HearError::Closed),
    };
    let sender = received.sender.map_or(0, |sender| sender.pid);
    if sender != pid {
        return Err(HearError::NotTrusted(ProofError::NotSender { pid, sender }));
    }
    channel::said(&buffer[..received.bytes]).map(Some).ok_or_else(nonsense)
}
