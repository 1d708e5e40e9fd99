//! Messages of sockets: `struct msghdr` (recvmsg(2)) gathered from a guest's memory, and scattered
//! into it.
//!
//! In a call's data: msghdr (56 bytes), one iovec (16), then name, control, payload. Several
//! buffers of the guest's are one at home.

pub mod control;
pub mod incoming;
pub mod outgoing;
pub mod received;
pub mod series;

use crate::sandbox::guest_memory;
use crate::state::calls::marshal::PACKET_BYTES_MAX;
pub use crate::state::calls::message::control::opened_here;
pub use crate::state::calls::message::incoming::Incoming;
pub use crate::state::calls::message::outgoing::{Envelope, MessageSender, Outgoing};

use os::ptrace::HostTid;

/// Offsets in `struct msghdr` on x86-64.
const NAME: usize = 0;
pub const NAME_BYTES: usize = 8;
const IOV: usize = 16;
const IOV_COUNT: usize = 24;
const CONTROL: usize = 32;
pub const CONTROL_BYTES: usize = 40;
pub const FLAGS: usize = 48;
/// Bytes of a `struct msghdr`.
const HEADER_BYTES: usize = 56;
/// Behind the header: the one iovec, then the name.
const IOV_AT: usize = HEADER_BYTES;
pub const NAME_AT: usize = HEADER_BYTES + 16;
/// Room for a name: `struct sockaddr_storage`.
const NAME_BYTES_MAX: usize = 128;
/// Most bytes of control messages.
const CONTROL_BYTES_MAX: usize = 16 << 10;
/// Most payload of one packet: what remains beside the rest.
const PAYLOAD_BYTES_MAX: usize = PACKET_BYTES_MAX - NAME_AT - NAME_BYTES_MAX - CONTROL_BYTES_MAX - 64;
/// The most buffers of a call (UIO_MAXIOV).
const IOV_MAX: u64 = 1024;

/// A piece of a guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The address in the memory of the guest.
    pub at: u64,
    /// How much it was, bytes.
    pub bytes: u64,
}

/// A guest's `struct msghdr`.
#[derive(Clone, Debug)]
pub struct Header {
    /// Where it lies.
    pub at: u64,
    /// The address of the interface.
    pub name: Piece,
    /// The buffers of the message.
    pub pieces: Vec<Piece>,
    /// The control messages.
    pub control: Piece,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

pub fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

impl Header {
    /// Reads the header of a message.
    pub fn read(host: HostTid, at: u64) -> Result<Header, i32> {
        let mut raw = [0; HEADER_BYTES];
        guest_memory::read(host.0, at, &mut raw).map_err(|_| libc::EFAULT)?;
        let name_bytes = if word(&raw, NAME) == 0 { 0 } else { i64::from(half(&raw, NAME_BYTES) as i32) };
        if name_bytes < 0 {
            return Err(libc::EINVAL);
        }
        let control_bytes = if word(&raw, CONTROL) == 0 { 0 } else { word(&raw, CONTROL_BYTES) };
        Ok(Header {
            at,
            name: Piece { at: word(&raw, NAME), bytes: (name_bytes as u64).min(NAME_BYTES_MAX as u64) },
            pieces: pieces(host, word(&raw, IOV), word(&raw, IOV_COUNT))?,
            control: Piece { at: word(&raw, CONTROL), bytes: control_bytes },
        })
    }
}

fn pieces(host: HostTid, at: u64, count: u64) -> Result<Vec<Piece>, i32> {
    if count > IOV_MAX {
        return Err(libc::EMSGSIZE);
    }
    let mut raw = vec![0; 16 * count as usize];
    guest_memory::read(host.0, at, &mut raw).map_err(|_| libc::EFAULT)?;
    let pieces = raw.chunks_exact(16).map(|c| Piece { at: word(c, 0), bytes: word(c, 8) }).filter(|p| p.bytes > 0);
    Ok(pieces.collect())
}

/// The first `bytes` of these pieces, and what remains.
fn split(pieces: &[Piece], mut bytes: u64) -> (Vec<Piece>, Vec<Piece>) {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for piece in pieces {
        let taken = piece.bytes.min(bytes);
        bytes -= taken;
        if taken > 0 {
            first.push(Piece { bytes: taken, ..*piece });
        }
        if taken < piece.bytes {
            rest.push(Piece { at: piece.at.wrapping_add(taken), bytes: piece.bytes - taken });
        }
    }
    (first, rest)
}

fn total(pieces: &[Piece]) -> u64 {
    pieces.iter().fold(0, |sum, p| sum.saturating_add(p.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_split_anywhere() {
        let pieces = [Piece { at: 100, bytes: 10 }, Piece { at: 200, bytes: 5 }];
        for cut in 0..=15 {
            let (first, rest) = split(&pieces, cut);
            assert_eq!((total(&first), total(&rest)), (cut, 15 - cut));
        }
        assert_eq!(split(&pieces, 12).1, [Piece { at: 202, bytes: 3 }]);
    }
}
