//! Messages of rtnetlink (man 7 rtnetlink): built here, sent in batches, and every answer checked.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::{Context, Result};

/// Bytes of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// The most messages that are sent before their answers are read, so that the answers fit the
/// socket's receive buffer.
const BATCH: usize = 128;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;

/// A message under construction.
pub struct Message {
    bytes: Vec<u8>,
    /// The purpose of the message, which completes "cannot ...".
    what: String,
}

impl Message {
    /// Starts a message of type `kind` (`RTM_*`) with the fixed part `body`. `flags` are `NLM_F_*`
    /// beyond REQUEST and ACK.
    pub fn new(what: impl Into<String>, kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        let mut message = Self { bytes, what: what.into() };
        message.pad();
        message
    }

    /// Appends an attribute.
    pub fn attr(mut self, kind: u16, value: &[u8]) -> Self {
        self.bytes.extend(((value.len() + 4) as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.pad();
        self
    }

    /// Appends a string attribute with its terminating NUL.
    pub fn text(self, kind: u16, value: &str) -> Self {
        self.attr(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Appends a 32-bit attribute.
    pub fn u32(self, kind: u16, value: u32) -> Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    /// Appends bytes without an attribute header (the fixed part inside `VETH_INFO_PEER`).
    pub fn raw(mut self, value: &[u8]) -> Self {
        self.bytes.extend(value);
        self.pad();
        self
    }

    /// Appends an attribute that holds what `fill` appends.
    pub fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        let mut filled = fill(self);
        let length = (filled.bytes.len() - start) as u16;
        filled.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        filled
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self, sequence: u32) -> (Vec<u8>, String) {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        (self.bytes, self.what)
    }
}

/// A route socket in the network namespace that the thread had when it opened the socket.
pub struct Socket(OwnedFd);

impl Socket {
    /// Opens a route socket.
    pub fn open() -> Result<Self> {
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .context(|| "open a route netlink socket")?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0)).context(|| "bind a route netlink socket")?;
        Ok(Self(socket))
    }

    /// Sends all messages, in order. Fails with the first refusal; later messages of the same batch
    /// may have been carried out.
    pub fn send(&self, messages: Vec<Message>) -> Result<()> {
        let mut messages = messages.into_iter().peekable();
        while messages.peek().is_some() {
            self.send_batch(messages.by_ref().take(BATCH))?;
        }
        Ok(())
    }

    fn send_batch(&self, batch: impl Iterator<Item = Message>) -> Result<()> {
        let (parts, whats): (Vec<_>, Vec<_>) = batch.zip(1..).map(|(m, sequence)| m.finish(sequence)).unzip();
        rustix::net::send(&self.0, &parts.concat(), SendFlags::empty()).context(|| "send netlink messages")?;
        let mut refused: Option<(usize, i32)> = None;
        let mut answered = 0;
        let mut buffer = vec![0; 64 << 10];
        while answered < whats.len() {
            let (length, _) = rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty())
                .context(|| "receive netlink answers")?;
            for (sequence, errno) in answers(&buffer[..length]) {
                answered += 1;
                if errno != 0 && refused.is_none() {
                    refused = Some((sequence as usize, errno));
                }
            }
        }
        match refused {
            None => Ok(()),
            Some((sequence, errno)) => {
                let what = whats.get(sequence.wrapping_sub(1)).cloned().unwrap_or_default();
                Err(io::Error::from_raw_os_error(errno)).context(|| what)
            }
        }
    }
}

/// Reads the sequence number and errno (0 for success) of every acknowledgement in a datagram.
fn answers(mut bytes: &[u8]) -> Vec<(u32, i32)> {
    let mut found = Vec::new();
    while bytes.len() >= HEADER_BYTES + 4 {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let length = word(0) as usize;
        if length < HEADER_BYTES || length > bytes.len() {
            break;
        }
        if u16::from_ne_bytes([bytes[4], bytes[5]]) == NLMSG_ERROR {
            found.push((word(8), (word(HEADER_BYTES) as i32).wrapping_neg()));
        }
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_laid_out_as_the_kernel_wants() {
        let message = Message::new("x", 16, 0, &[1, 2, 3, 4]).text(3, "br0").nest(18, |m| m.attr(1, b"a"));
        let (bytes, _) = message.finish(7);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes());
        assert_eq!(bytes[8..12], 7u32.to_ne_bytes());
        assert_eq!(bytes[16..20], [1, 2, 3, 4]);
        assert_eq!(bytes[20..28], [8, 0, 3, 0, b'b', b'r', b'0', 0]);
        assert_eq!(bytes[28..40], [12, 0, 18, 0, 5, 0, 1, 0, b'a', 0, 0, 0]);
    }

    #[test]
    fn broken_answers_are_not_believed() {
        assert!(answers(&[0; 40]).is_empty());
        assert!(answers(&[0xff; 40]).is_empty());
        assert!(answers(&[1; 3]).is_empty());
    }
}
