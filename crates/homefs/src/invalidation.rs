//! Invalidations: what home tells a room to forget, and their encoding.

/// One thing that the kernel of a room must forget. The server numbers invalidations from 1, and
/// the room applies them in that order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// Index of the mount (the export).
    pub mount: u16,
    /// Id of the node (the directory, for a name).
    pub node: u64,
    /// The part of the node's state to forget.
    pub what: What,
}

/// The part of a node's state that is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Attributes and ACLs.
    Attr {
        /// The directory in which the node was named last, or 0. The kernel may have received the
        /// reply without processing it; then it does not know the node yet, and would take the old
        /// state afterwards. Once the kernel gives the directory's lock, it has processed the
        /// reply.
        within: u64,
    },
    /// Attributes, ACLs and cached content.
    Content {
        /// The directory in which the node was named last, or 0.
        within: u64,
    },
    /// This name in the directory, and all cached state of the directory itself.
    Entry(Vec<u8>),
    /// Every name in the mount; the node is not used.
    AllNames,
}

/// The error for bytes that are no invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes are no invalidation")]
pub struct NotAnInvalidation(usize);

const FIXED_BYTES: usize = 12;
/// The most bytes of an encoded invalidation.
pub const MAX_INVALIDATION_BYTES: usize = FIXED_BYTES + crate::proto::NAME_MAX;

impl Invalidation {
    /// Appends the encoding: kind (u16), mount (u16), node (u64), then the directory or name;
    /// little-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let directory: [u8; 8];
        let (kind, rest): (u16, &[u8]) = match &self.what {
            What::Attr { within } | What::Content { within } => {
                directory = within.to_le_bytes();
                (u16::from(matches!(self.what, What::Content { .. })), &directory)
            }
            What::Entry(name) => (2, name),
            What::AllNames => (3, &[]),
        };
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&self.mount.to_le_bytes());
        out.extend_from_slice(&self.node.to_le_bytes());
        out.extend_from_slice(rest);
    }

    /// Decodes one invalidation, which must be all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Invalidation, NotAnInvalidation> {
        let wrong = NotAnInvalidation(bytes.len());
        let (fixed, rest) = bytes.split_first_chunk::<FIXED_BYTES>().ok_or(wrong)?;
        let [k0, k1, m0, m1, node @ ..] = *fixed;
        let kind = u16::from_le_bytes([k0, k1]);
        let is_name = (1..=crate::proto::NAME_MAX).contains(&rest.len()) && !rest.contains(&0) && !rest.contains(&b'/');
        let within = || rest.try_into().map(u64::from_le_bytes).map_err(|_| wrong);
        let what = match kind {
            0 => What::Attr { within: within()? },
            1 => What::Content { within: within()? },
            2 if is_name => What::Entry(rest.to_vec()),
            3 if rest.is_empty() => What::AllNames,
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
        let entry = What::Entry(b"a name".to_vec());
        for what in
            [What::Attr { within: 0 }, What::Attr { within: 7 }, What::Content { within: 8 }, entry, What::AllNames]
        {
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
