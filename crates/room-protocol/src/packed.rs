//! Bodies of packed frames: what kind of frame was packed, its size, and its body as one zstd frame
//! (RFC 8878).

use crate::{FRAME_BYTES_MAX, Kind};

/// Kind (2 bytes) and size (4 bytes).
const HEAD_BYTES: usize = 6;

/// Header of a packed frame of this kind, whose body has so many bytes when it is unpacked.
pub fn head(kind: Kind, plain_bytes: u32) -> [u8; HEAD_BYTES] {
    let ([k0, k1], [a, b, c, d]) = ((kind as u16).to_le_bytes(), plain_bytes.to_le_bytes());
    [k0, k1, a, b, c, d]
}

/// Kind and size of what was packed, and the packed bytes. Only pages are packed; they fit a frame.
pub fn read(body: &[u8]) -> Option<(Kind, usize, &[u8])> {
    let ([k0, k1, a, b, c, d], rest) = body.split_first_chunk::<HEAD_BYTES>()?;
    let kind = [Kind::Pages, Kind::Pushed, Kind::Advance]
        .into_iter()
        .find(|kind| *kind as u16 == u16::from_le_bytes([*k0, *k1]))?;
    let plain_bytes = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    (plain_bytes <= FRAME_BYTES_MAX).then_some((kind, plain_bytes, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_nonsense() {
        let body = [&head(Kind::Pushed, 77)[..], b"rest"].concat();
        assert_eq!(read(&body), Some((Kind::Pushed, 77, &b"rest"[..])));
        assert_eq!(read(&body[..5]), None);
        assert_eq!(read(&head(Kind::Message, 77)), None);
        assert_eq!(read(&head(Kind::Packed, 77)), None);
        assert_eq!(read(&head(Kind::Pages, FRAME_BYTES_MAX as u32 + 1)), None);
    }
}
