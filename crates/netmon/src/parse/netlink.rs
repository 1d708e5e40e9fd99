//! Messages and attributes of netlink (linux/netlink.h): requests are built, answers are split.

use super::bytes::{u16_at, u32_at};

/// Bytes of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// The message asks for something.
pub const REQUEST: u16 = 1;
/// The message asks for all objects.
pub const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Bits of an attribute's type that are flags (NLA_TYPE_MASK).
const TYPE_MASK: u16 = 0x3fff;

/// Builds a message.
pub fn request(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | REQUEST).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

/// Builds an attribute.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// One message of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A message with content.
    Message {
        /// Type of the message.
        kind: u16,
        /// Its sequence number, which is the request's.
        sequence: u32,
        /// All behind the header.
        body: &'a [u8],
    },
    /// The kernel refuses; 0 is an acknowledgement.
    Refused {
        /// The sequence number of the request.
        sequence: u32,
        /// The error number.
        errno: i32,
    },
    /// The last message of a dump.
    Done,
}

/// Splits a datagram into its messages. A broken one ends it.
pub fn parts(bytes: &[u8]) -> impl Iterator<Item = Part<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, kind, sequence) = (u32_at(rest, 0)? as usize, u16_at(rest, 4)?, u32_at(rest, 8)?);
        let body = rest.get(HEADER_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(match kind {
            ERROR => Part::Refused { sequence, errno: errno(body) },
            // A dump that fails ends with a number, too.
            DONE => match errno(body) {
                errno if errno > 0 => Part::Refused { sequence, errno },
                _ => Part::Done,
            },
            _ => Part::Message { kind, sequence, body },
        })
    })
}

/// Reads the error number that a message begins with.
fn errno(body: &[u8]) -> i32 {
    u32_at(body, 0).map_or(0, |number| (number as i32).wrapping_neg())
}

/// An attribute of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its type, without flags.
    pub kind: u16,
    /// Value of the attribute.
    pub value: &'a [u8],
}

/// Splits attributes. A broken one ends it.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?);
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Attribute { kind: kind & TYPE_MASK, value })
    })
}

/// Gives the value of the first attribute of a type.
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|attribute| attribute.kind == kind).map(|attribute| attribute.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_built_is_split() {
        let body = [attribute(3, b"abcde"), attribute(0x8004, &7u32.to_ne_bytes())].concat();
        let bytes = [request(20, DUMP, 9, &body), request(3, 0, 9, &[0; 4])].concat();
        let found: Vec<_> = parts(&bytes).collect();
        assert_eq!(found, [Part::Message { kind: 20, sequence: 9, body: &body }, Part::Done]);
        assert_eq!(find(&body, 3), Some(b"abcde".as_slice()));
        assert_eq!(find(&body, 4), Some(7u32.to_ne_bytes().as_slice()));
        assert_eq!(find(&body, 5), None);
    }

    #[test]
    fn refusals_carry_the_error_number() {
        let bytes = request(ERROR, 0, 4, &(-2i32).to_ne_bytes());
        assert_eq!(parts(&bytes).next(), Some(Part::Refused { sequence: 4, errno: 2 }));
        let dump = request(DONE, 0, 4, &(-2i32).to_ne_bytes());
        assert_eq!(parts(&dump).next(), Some(Part::Refused { sequence: 4, errno: 2 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_split_and_it_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(parts(&bytes).count() <= bytes.len());
            prop_assert!(attributes(&bytes).count() <= bytes.len());
        }
    }
}
