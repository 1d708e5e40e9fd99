//! Offers: files of home that a room may read from a copy of its own, and their encoding.

use crate::digest::Hash;

/// The content of a file that the room has open. It stays the same until the room is told to forget
/// the node's content or attributes, or the offer is withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Index of the mount (the export).
    pub mount: u16,
    /// Node of the file.
    pub node: u64,
    /// Content of the file; `None` withdraws the last offer.
    pub content: Option<Content>,
}

/// A content, and the path at which a copy may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Size of the file, bytes.
    pub size_bytes: u64,
    /// blake3 hash of the content.
    pub hash: Hash,
    /// Absolute path at home.
    pub path: Vec<u8>,
}

/// The error for bytes that are no offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes are no offer")]
pub struct NotAnOffer(usize);

const NODE_BYTES: usize = 10;
const CONTENT_BYTES: usize = 40;
/// The longest path, bytes (PATH_MAX without the NUL).
pub const PATH_BYTES_MAX: usize = libc::PATH_MAX as usize - 1;
/// The most bytes of an encoded offer.
pub const MAX_OFFER_BYTES: usize = NODE_BYTES + CONTENT_BYTES + PATH_BYTES_MAX;

impl Offer {
    /// Appends the encoding: mount (u16), node (u64), and unless it is a withdrawal size (u64),
    /// hash, and path; little-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.mount.to_le_bytes());
        out.extend_from_slice(&self.node.to_le_bytes());
        if let Some(content) = &self.content {
            out.extend_from_slice(&content.size_bytes.to_le_bytes());
            out.extend_from_slice(&content.hash);
            out.extend_from_slice(&content.path);
        }
    }

    /// Decodes one offer, which must be all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Offer, NotAnOffer> {
        let wrong = NotAnOffer(bytes.len());
        let (&[m0, m1, ref node @ ..], rest) = bytes.split_first_chunk::<NODE_BYTES>().ok_or(wrong)?;
        let content = if rest.is_empty() { None } else { Some(Content::decode(rest).ok_or(wrong)?) };
        Ok(Offer { mount: u16::from_le_bytes([m0, m1]), node: u64::from_le_bytes(*node), content })
    }
}

/// Tells whether the path is absolute, of bounded length, and without a NUL.
pub(crate) fn is_proper_path(path: &[u8]) -> bool {
    path.first() == Some(&b'/') && path.len() <= PATH_BYTES_MAX && !path.contains(&0)
}

impl Content {
    fn decode(bytes: &[u8]) -> Option<Content> {
        let (size, rest) = bytes.split_first_chunk::<8>()?;
        let (hash, path) = rest.split_first_chunk::<32>()?;
        is_proper_path(path).then(|| Content {
            size_bytes: u64::from_le_bytes(*size),
            hash: *hash,
            path: path.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(offer: &Offer) -> Vec<u8> {
        let mut bytes = Vec::new();
        offer.encode(&mut bytes);
        bytes
    }

    #[test]
    fn paths_are_absolute_and_bounded() {
        let with = |path: Vec<u8>| {
            let content = Some(Content { size_bytes: 7, hash: [9; 32], path });
            Offer::decode(&encoded(&Offer { mount: 3, node: 1 << 40, content }))
        };
        assert!(with(b"/usr/lib/x".to_vec()).is_ok() && with(vec![b'/'; PATH_BYTES_MAX]).is_ok());
        for path in [&b""[..], b"usr", b"/a\0b", &[b'/'; PATH_BYTES_MAX + 1]] {
            assert!(with(path.to_vec()).is_err(), "{} bytes", path.len());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_offer_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200), absolute: bool) {
            let mut bytes = bytes;
            if absolute && let Some(first) = bytes.get_mut(NODE_BYTES + CONTENT_BYTES) {
                *first = b'/';
            }
            if let Ok(offer) = Offer::decode(&bytes) {
                prop_assert!(bytes.len() <= MAX_OFFER_BYTES);
                prop_assert_eq!(encoded(&offer), bytes);
            }
        }

        #[test]
        fn round_trip(mount: u16, node: u64, size_bytes: u64, hash: [u8; 32], name in "[^\0]{0,80}", withdrawn: bool) {
            let path = format!("/{name}").into_bytes();
            let content = (!withdrawn).then_some(Content { size_bytes, hash, path });
            let offer = Offer { mount, node, content };
            prop_assert_eq!(Offer::decode(&encoded(&offer)), Ok(offer));
        }
    }
}
