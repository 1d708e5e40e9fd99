//! Parses the kernel's answers about Unix sockets (linux/unix_diag.h, sock_diag(7)).

use super::bytes::{text, u32_at};
use super::inet_diag::{BY_FAMILY, Memory};
use super::netlink;

/// The family of Unix sockets.
pub const UNIX: u8 = 1;
/// Bytes of `struct unix_diag_msg`.
const MESSAGE_BYTES: usize = 16;
const NAME: u16 = 0;
const PEER: u16 = 2;
const LENGTHS: u16 = 4;
const MEMORY: u16 = 5;
/// Names of both ends: UDIAG_SHOW_NAME, UDIAG_SHOW_PEER.
const SHOW_NAMES: u32 = 1 | 4;
/// Lengths and memory of queues: UDIAG_SHOW_RQLEN, UDIAG_SHOW_MEMINFO.
const SHOW_LENGTHS: u32 = 0x10 | 0x20;

/// A Unix socket, as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// Its type: 1 is a stream, 2 datagrams, 5 packets.
    pub kind: u8,
    /// Its state: 1 is connected, 10 listens.
    pub state: u8,
    /// Inode of the socket.
    pub inode: u32,
    /// The kernel's own number.
    pub cookie: [u32; 2],
    /// Its name in the file system, or `@` and its abstract name.
    pub name: Option<String>,
    /// Inode of the socket that it is connected to.
    pub peer: Option<u32>,
    /// Unread bytes (of datagrams: those of the first); waiting connections if it listens.
    pub rx: u32,
    /// Memory of messages that the peer has not read; the limit of connections if it listens.
    pub tx: u32,
    /// Memory and limits.
    pub memory: Option<Memory>,
}

/// The question for all Unix sockets.
pub fn all() -> Vec<u8> {
    let words = [u32::MAX, 0, SHOW_NAMES | SHOW_LENGTHS, u32::MAX, u32::MAX];
    netlink::request(BY_FAMILY, netlink::DUMP, 0, &body(words))
}

/// The question for the lengths of one socket's queues.
pub fn one(socket: &UnixSocket, sequence: u32) -> Vec<u8> {
    let words = [u32::MAX, socket.inode, SHOW_LENGTHS, socket.cookie[0], socket.cookie[1]];
    netlink::request(BY_FAMILY, 0, sequence, &body(words))
}

/// Builds `struct unix_diag_req`.
fn body(words: [u32; 5]) -> Vec<u8> {
    let mut bytes = vec![UNIX, 0, 0, 0];
    words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    bytes
}

/// Reads an answer. `None`: it is too short.
pub fn read(body: &[u8]) -> Option<UnixSocket> {
    let mut socket = UnixSocket {
        kind: *body.get(1)?,
        state: *body.get(2)?,
        inode: u32_at(body, 4)?,
        cookie: [u32_at(body, 8)?, u32_at(body, 12)?],
        name: None,
        peer: None,
        rx: 0,
        tx: 0,
        memory: None,
    };
    for netlink::Attribute { kind, value } in netlink::attributes(body.get(MESSAGE_BYTES..)?) {
        match kind {
            NAME => socket.name = name(value),
            PEER => socket.peer = u32_at(value, 0).filter(|inode| *inode != 0),
            LENGTHS => (socket.rx, socket.tx) = (u32_at(value, 0)?, u32_at(value, 4)?),
            MEMORY => socket.memory = Memory::read(value),
            _ => {}
        }
    }
    Some(socket)
}

fn name(bytes: &[u8]) -> Option<String> {
    match bytes {
        [] => None,
        [0, rest @ ..] => Some(format!("@{}", String::from_utf8_lossy(rest))),
        _ => Some(text(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_is_understood() {
        let mut body = vec![UNIX, 1, 1, 0];
        [42u32, 1, 2].iter().for_each(|n| body.extend(n.to_ne_bytes()));
        body.extend(netlink::attribute(NAME, b"\0bus"));
        body.extend(netlink::attribute(PEER, &43u32.to_ne_bytes()));
        body.extend(netlink::attribute(LENGTHS, &[5u32.to_ne_bytes(), 6u32.to_ne_bytes()].concat()));
        let socket = read(&body).unwrap();
        assert_eq!((socket.inode, socket.cookie, socket.peer), (42, [1, 2], Some(43)));
        assert_eq!((socket.name.as_deref(), socket.rx, socket.tx), (Some("@bus"), 5, 6));
        assert_eq!(one(&socket, 1).len(), 40);
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
