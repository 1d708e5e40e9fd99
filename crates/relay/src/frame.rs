//! Frames between the two ends of a stream, as bytes. Pure; every input is hostile.

use thiserror::Error;

/// Which stream a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    /// The stand-in that the stream is to the room's home.
    pub standin: u32,
    /// How often the stand-in has become a stream. Frames of an earlier time are late.
    pub epoch: u32,
}

impl StreamId {
    /// Gives the stand-in and the epoch as one number.
    pub fn packed(self) -> u64 {
        u64::from(self.standin) << 32 | u64::from(self.epoch)
    }

    fn unpacked(number: u64) -> StreamId {
        StreamId { standin: (number >> 32) as u32, epoch: number as u32 }
    }
}

/// One statement about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Bytes of the stream.
    Data {
        /// The number of bytes before these.
        offset: u64,
        /// The bytes that follow those.
        bytes: &'a [u8],
    },
    /// The last bytes that the process wrote before it leaves the room. They come whatever the
    /// credit is.
    Last {
        /// The number of bytes before these.
        offset: u64,
        /// The bytes that follow those.
        bytes: &'a [u8],
    },
    /// The reader has taken all bytes before this number.
    Taken(u64),
    /// No bytes follow behind this number.
    End(u64),
    /// The true socket has an error, or says something that a pair of sockets cannot: the calls on
    /// it are to be made at home.
    Fault,
    /// The room opens the stream: from here on at most this number of bytes is under way in each
    /// direction.
    Open(u32),
    /// The room is to send nothing more of the stream until [`Frame::Join`] or [`Frame::Release`].
    Hold,
    /// The room sends nothing behind this number of bytes.
    Held(u64),
    /// The peer of the stream is this stream of the same room, and home holds nothing of either:
    /// from here on their bytes stay in the room.
    Join(StreamId),
    /// The room, or the room of the stream's peer, may send again.
    Release,
    /// The way by which the room reaches the room of the stream's peer.
    Way(u64),
    /// The peer of the stream is this stream of the room that [`Frame::Way`] leads to, and home
    /// holds nothing of either: from here on their bytes go by that way. The room tells the other
    /// one to go on ([`Frame::Release`]).
    Across(StreamId),
    /// As [`Frame::Across`], but the room sends nothing until the other one says so.
    Await(StreamId),
    /// The room has done [`Frame::Await`].
    Crossed,
    /// The room is to send the stream's bytes home again.
    Part,
    /// The room has received so many bytes of the peer's room: [`Frame::Parted`] follows.
    Received(u64),
    /// The room sends the stream's bytes home again, beginning with those behind so many: the
    /// peer's room has said that its process has taken these.
    Parted(u64),
    /// Home has done all that [`Frame::Close`] asks for.
    Closed,
    /// By a way between rooms, about no stream: the room that sends this has learnt of all changes
    /// of home's files that home knew when the other room asked with this number.
    Fenced(u64),
    /// The room closes the stream: no frame of it follows, and the process goes on where it finds
    /// the true socket.
    Close,
}

/// A reason why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The bytes are fewer than a header.
    #[error("a frame of a stream has only {0} bytes")]
    Short(usize),
    /// The tag is unknown.
    #[error("a frame of a stream has the unknown tag {0}")]
    Tag(u8),
    /// A window is a number of 32 bits.
    #[error("a frame of a stream has a window of {0} bytes")]
    Window(u64),
    /// Only bytes of a stream have content.
    #[error("a frame of a stream has {0} bytes too many")]
    Long(usize),
}

impl<'a> Frame<'a> {
    /// Bytes of the header.
    pub const HEADER_BYTES: usize = 17;

    /// Gives the header. The frame is the header and, of bytes, the bytes.
    pub fn header(&self, id: StreamId) -> [u8; Frame::HEADER_BYTES] {
        let (tag, number) = match *self {
            Frame::Data { offset, .. } => (0, offset),
            Frame::Last { offset, .. } => (1, offset),
            Frame::Taken(upto) => (2, upto),
            Frame::End(offset) => (3, offset),
            Frame::Fault => (4, 0),
            Frame::Open(window) => (5, u64::from(window)),
            Frame::Close => (6, 0),
            Frame::Hold => (7, 0),
            Frame::Held(offset) => (8, offset),
            Frame::Join(peer) => (9, peer.packed()),
            Frame::Release => (10, 0),
            Frame::Way(way) => (11, way),
            Frame::Across(peer) => (12, peer.packed()),
            Frame::Await(peer) => (13, peer.packed()),
            Frame::Crossed => (14, 0),
            Frame::Part => (15, 0),
            Frame::Received(upto) => (16, upto),
            Frame::Parted(upto) => (17, upto),
            Frame::Closed => (18, 0),
            Frame::Fenced(number) => (19, number),
        };
        let mut out = [0; Frame::HEADER_BYTES];
        out[..4].copy_from_slice(&id.standin.to_le_bytes());
        out[4..8].copy_from_slice(&id.epoch.to_le_bytes());
        out[8] = tag;
        out[9..].copy_from_slice(&number.to_le_bytes());
        out
    }

    /// Gives the content behind the header.
    pub fn content(&self) -> &'a [u8] {
        match self {
            Frame::Data { bytes, .. } | Frame::Last { bytes, .. } => bytes,
            _ => &[],
        }
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// The bytes are no frame.
    pub fn decode(bytes: &'a [u8]) -> Result<(StreamId, Frame<'a>), FrameError> {
        let Some((header, content)) = bytes.split_first_chunk::<{ Frame::HEADER_BYTES }>() else {
            return Err(FrameError::Short(bytes.len()));
        };
        let [s0, s1, s2, s3, e0, e1, e2, e3, tag, number @ ..] = *header;
        let id =
            StreamId { standin: u32::from_le_bytes([s0, s1, s2, s3]), epoch: u32::from_le_bytes([e0, e1, e2, e3]) };
        let number = u64::from_le_bytes(number);
        let frame = match tag {
            0 => Frame::Data { offset: number, bytes: content },
            1 => Frame::Last { offset: number, bytes: content },
            2 => Frame::Taken(number),
            3 => Frame::End(number),
            4 => Frame::Fault,
            5 => Frame::Open(u32::try_from(number).map_err(|_| FrameError::Window(number))?),
            6 => Frame::Close,
            7 => Frame::Hold,
            8 => Frame::Held(number),
            9 => Frame::Join(StreamId::unpacked(number)),
            10 => Frame::Release,
            11 => Frame::Way(number),
            12 => Frame::Across(StreamId::unpacked(number)),
            13 => Frame::Await(StreamId::unpacked(number)),
            14 => Frame::Crossed,
            15 => Frame::Part,
            16 => Frame::Received(number),
            17 => Frame::Parted(number),
            18 => Frame::Closed,
            19 => Frame::Fenced(number),
            other => return Err(FrameError::Tag(other)),
        };
        if frame.content().len() != content.len() {
            return Err(FrameError::Long(content.len()));
        }
        Ok((id, frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: StreamId = StreamId { standin: 0x8000_0007, epoch: 3 };

    #[test]
    fn round_trip() {
        let frames =
            [Frame::Data { offset: 1 << 40, bytes: b"abc" }, Frame::Last { offset: 9, bytes: b"" }, Frame::Taken(7)];
        for frame in frames.into_iter().chain([Frame::End(8), Frame::Fault, Frame::Open(9), Frame::Close]).chain([
            Frame::Hold,
            Frame::Held(3),
            Frame::Join(ID),
            Frame::Release,
            Frame::Way(1 << 50),
            Frame::Across(ID),
            Frame::Await(ID),
            Frame::Crossed,
            Frame::Part,
            Frame::Received(5),
            Frame::Parted(6),
            Frame::Closed,
            Frame::Fenced(7),
        ]) {
            let bytes = [&frame.header(ID), frame.content()].concat();
            assert_eq!(Frame::decode(&bytes), Ok((ID, frame)));
        }
        let long = [&Frame::Fault.header(ID)[..], b"x"].concat();
        assert_eq!(Frame::decode(&long), Err(FrameError::Long(1)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok((id, frame)) = Frame::decode(&bytes) {
                let again = [&frame.header(id), frame.content()].concat();
                prop_assert!(again == bytes || matches!(
                    frame,
                    Frame::Fault
                        | Frame::Close
                        | Frame::Hold
                        | Frame::Release
                        | Frame::Crossed
                        | Frame::Part
                        | Frame::Closed
                ));
            }
        }
    }
}
