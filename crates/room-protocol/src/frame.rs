//! The frame: a fixed little-endian header, then a body.

use thiserror::Error;

/// The largest body of a frame. A FUSE write of 1 MiB and its headers fit.
pub const FRAME_BYTES_MAX: usize = (1 << 20) + (64 << 10);

/// What a frame's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// A raw FUSE request (to home) or reply (to room) of home file system number `mount`.
    Fuse = 1,
    /// An invalidation with number `seq` (to room), encoded by `homefs`.
    Invalidate = 2,
    /// "All invalidations up to `seq` are applied" (to home); no body.
    Applied = 3,
    /// A [`crate::ToHome`] or [`crate::ToRoom`] message.
    Message = 4,
    /// What may be read from the hosting node's own files (to room), or no longer; encoded by
    /// `homefs`.
    Offer = 5,
    /// A part of a process' image: PID (4 bytes), then bytes; parts follow each other.
    Image = 6,
    /// Pages of a process, as [`crate::page_frames`] has them.
    Pages = 7,
    /// Runs of pages that follow when the process goes on at the other end, as
    /// [`crate::page_frames`] has them.
    Later = 8,
    /// Pages of a process that goes on at the other end already, likewise.
    Pushed = 9,
    /// Runs of pages of which was said that they follow, and that the process never had, likewise.
    Vacant = 10,
    /// Any frame of pages, packed, as [`crate::packed`] has it.
    Packed = 11,
    /// Runs of pages that the other end has from an earlier stay of the process, as it said
    /// ([`crate::ToHome::PeerPages`]), or in advance ([`Kind::Advance`]), and that are the same
    /// still; as [`crate::page_frames`] has them.
    PeerPages = 12,
    /// Runs of pages that come, and of which nearly all will; likewise.
    HugePageHints = 13,
    /// Pages of a body that runs still (to home), which may be the same when it stops: then it is
    /// [`Kind::PeerPages`] that says so; as [`crate::page_frames`] has them.
    Advance = 14,
    /// A process (4 bytes): whoever sends it wants to hear when all that it sent of that before is
    /// in place ([`crate::message::onward::Wanted::InPlace`]). From one room to another.
    Await = 15,
    /// Bytes of a stream, or a statement about it, encoded by `relay`.
    Stream = 16,
    /// A raw FUSE request (to home) that the room answers itself. Home serves the request before it
    /// takes the next frame.
    Behind = 17,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of body that follow.
    pub body_bytes: u32,
    /// What the body is.
    pub kind: Kind,
    /// Number of the home file system, for [`Kind::Fuse`] and [`Kind::Behind`].
    pub mount: u16,
    /// To room: number of the newest invalidation sent before this frame. To home: number that is
    /// applied, for [`Kind::Applied`].
    pub seq: u64,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeadError {
    /// The kind is none that this version knows.
    #[error("frame of unknown kind {0}")]
    Kind(u16),
    /// The body would be larger than allowed.
    #[error("frame of {0} bytes is larger than {FRAME_BYTES_MAX}")]
    Size(u32),
}

impl Head {
    /// Bytes of a header on the wire.
    pub const BYTES: usize = 16;

    /// Gives the header as bytes.
    pub fn encode(&self) -> [u8; Head::BYTES] {
        let mut out = [0; Head::BYTES];
        out[..4].copy_from_slice(&self.body_bytes.to_le_bytes());
        out[4..6].copy_from_slice(&(self.kind as u16).to_le_bytes());
        out[6..8].copy_from_slice(&self.mount.to_le_bytes());
        out[8..].copy_from_slice(&self.seq.to_le_bytes());
        out
    }

    /// Reads a header.
    pub fn decode(bytes: &[u8; Head::BYTES]) -> Result<Head, HeadError> {
        let [a, b, c, d, k0, k1, m0, m1, seq @ ..] = *bytes;
        let body_bytes = u32::from_le_bytes([a, b, c, d]);
        let kind = match u16::from_le_bytes([k0, k1]) {
            1 => Kind::Fuse,
            2 => Kind::Invalidate,
            3 => Kind::Applied,
            4 => Kind::Message,
            5 => Kind::Offer,
            6 => Kind::Image,
            7 => Kind::Pages,
            8 => Kind::Later,
            9 => Kind::Pushed,
            10 => Kind::Vacant,
            11 => Kind::Packed,
            12 => Kind::PeerPages,
            13 => Kind::HugePageHints,
            14 => Kind::Advance,
            15 => Kind::Await,
            16 => Kind::Stream,
            17 => Kind::Behind,
            other => return Err(HeadError::Kind(other)),
        };
        if body_bytes as usize > FRAME_BYTES_MAX {
            return Err(HeadError::Size(body_bytes));
        }
        Ok(Head { body_bytes, kind, mount: u16::from_le_bytes([m0, m1]), seq: u64::from_le_bytes(seq) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let head = Head { body_bytes: 77, kind: Kind::Invalidate, mount: 3, seq: u64::MAX - 1 };
        assert_eq!(Head::decode(&head.encode()), Ok(head));
    }

    #[test]
    fn refuses_what_is_unknown_or_too_large() {
        let mut bytes = Head { body_bytes: 1, kind: Kind::Fuse, mount: 0, seq: 0 }.encode();
        bytes[4] = 99;
        assert_eq!(Head::decode(&bytes), Err(HeadError::Kind(99)));
        bytes[4] = 1;
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Head::decode(&bytes), Err(HeadError::Size(u32::MAX)));
    }
}
