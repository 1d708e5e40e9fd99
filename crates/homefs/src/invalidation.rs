//! What the home tells a room to forget, and its bytes on the wire.

/// One thing that the kernel of a room must forget. Invalidations are numbered from 1 by the server and applied in that order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// Index of the mount (the export).
    pub mount: u16,
    /// Node concerned (the directory, for a name).
    pub node: u64,
    /// What about it.
    pub what: What,
}

/// What about a node is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Attributes and ACLs.
    Attr,
    /// Attributes, ACLs and cached content.
    Content,
    /// A name in this directory, and what was cached of the directory itself.
    Entry {
        /// The name: one component, no NUL.
        name: Vec<u8>,
        /// The name exists (again): it only needs to be looked up anew at its next use.
        expire: bool,
    },
    /// Every name in the mount; the node is not used.
    AllNames,
}

/// Bytes are no invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes are no invalidation")]
pub struct NotAnInvalidation(usize);

const FIXED_BYTES: usize = 12;
/// Most bytes of an encoded invalidation.
pub const MAX_INVALIDATION_BYTES: usize = FIXED_BYTES + crate::proto::NAME_MAX;

impl Invalidation {
    /// Appends the bytes: kind (u16), mount (u16), node (u64), then the name; little-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, name): (u16, &[u8]) = match &self.what {
            What::Attr => (0, &[]),
            What::Content => (1, &[]),
            What::Entry { name, expire: false } => (2, name),
            What::Entry { name, expire: true } => (3, name),
            What::AllNames => (4, &[]),
        };
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&self.mount.to_le_bytes());
        out.extend_from_slice(&self.node.to_le_bytes());
        out.extend_from_slice(name);
    }

    /// Reads one invalidation, which must be all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Invalidation, NotAnInvalidation> {
        let wrong = NotAnInvalidation(bytes.len());
        let (fixed, name) = bytes.split_first_chunk::<FIXED_BYTES>().ok_or(wrong)?;
        let [k0, k1, m0, m1, node @ ..] = *fixed;
        let kind = u16::from_le_bytes([k0, k1]);
        let named = (1..=crate::proto::NAME_MAX).contains(&name.len()) && !name.contains(&0) && !name.contains(&b'/');
        let what = match (kind, name.is_empty()) {
            (0, true) => What::Attr,
            (1, true) => What::Content,
            (2 | 3, false) if named => What::Entry { name: name.to_vec(), expire: kind == 3 },
            (4, true) => What::AllNames,
            _ => return Err(wrong),
        };
        Ok(Invalidation { mount: u16::from_le_bytes([m0, m1]), node: u64::from_le_bytes(node), what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_refusal() {
        let entry = |expire| What::Entry { name: b"a name".to_vec(), expire };
        for what in [What::Attr, What::Content, entry(false), entry(true), What::AllNames] {
            let inv = Invalidation { mount: 3, node: 0x1234_5678_9abc, what };
            let mut bytes = Vec::new();
            inv.encode(&mut bytes);
            assert!(bytes.len() <= MAX_INVALIDATION_BYTES);
            assert_eq!(Invalidation::decode(&bytes), Ok(inv));
        }
        let bad: [&[u8]; 4] = [&[0; 11], &[9; 12], &[2; 12], &[&[2, 0][..], &[0; 10], b"a/b"].concat()];
        bad.iter().for_each(|b| assert!(Invalidation::decode(b).is_err(), "{b:?}"));
    }
}
