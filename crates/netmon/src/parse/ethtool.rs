//! Parses drivers' answers by ethtool's netlink (Documentation/networking/ethtool-netlink.rst).

use super::bytes::{u16_at, u32_at, u64_at};
use super::netlink::{self, attribute, find};

/// The controller of generic netlink, which knows the numbers of families.
const CONTROLLER: u16 = 16;
/// Bytes of `struct genlmsghdr`.
const HEADER_BYTES: usize = 4;
const VERSION: u8 = 1;
const RINGS_GET: u8 = 15;
const STATS_GET: u8 = 32;
/// An attribute contains attributes.
const NESTED: u16 = 0x8000;

fn request(family: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let body = [&[command, VERSION, 0, 0], attributes].concat();
    netlink::request(family, 0, 0, &body)
}

/// The question for ethtool's number.
pub fn family() -> Vec<u8> {
    const GET_FAMILY: u8 = 3;
    const FAMILY_NAME: u16 = 2;
    request(CONTROLLER, GET_FAMILY, &attribute(FAMILY_NAME, b"ethtool\0"))
}

/// Reads the answer to [`family`].
pub fn read_family(body: &[u8]) -> Option<u16> {
    const FAMILY_ID: u16 = 1;
    u16_at(find(body.get(HEADER_BYTES..)?, FAMILY_ID)?, 0)
}

/// The attribute that names an interface.
fn device(kind: u16, name: &str) -> Vec<u8> {
    const DEVICE_NAME: u16 = 2;
    attribute(kind | NESTED, &attribute(DEVICE_NAME, &[name.as_bytes(), &[0]].concat()))
}

/// The question for the sizes of rings.
pub fn rings(family: u16, name: &str) -> Vec<u8> {
    request(family, RINGS_GET, &device(1, name))
}

/// Sizes of a device's rings, packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// For packets that come.
    pub rx: Option<u32>,
    /// The largest possible `rx`.
    pub rx_max: Option<u32>,
    /// For packets to send.
    pub tx: Option<u32>,
}

/// Reads the answer to [`rings`].
pub fn read_rings(body: &[u8]) -> Option<Rings> {
    let attributes = body.get(HEADER_BYTES..)?;
    let number = |kind| find(attributes, kind).and_then(|value| u32_at(value, 0));
    Some(Rings { rx: number(6), rx_max: number(2), tx: number(9) })
}

/// The question for counts of the medium access (IEEE 802.3, clause 30).
pub fn medium(family: u16, name: &str) -> Vec<u8> {
    const HEADER: u16 = 2;
    const GROUPS: u16 = 3;
    const ETH_MAC: u32 = 1;
    let (no_mask, size, value) = (1, 2, 4);
    let groups = [
        attribute(no_mask, &[]),
        attribute(size, &32u32.to_ne_bytes()),
        attribute(value, &(1u32 << ETH_MAC).to_ne_bytes()),
    ]
    .concat();
    request(family, STATS_GET, &[device(HEADER, name), attribute(GROUPS | NESTED, &groups)].concat())
}

/// Counts of the medium access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Medium {
    /// Frames that were sent after one collision.
    pub single_collisions: Option<u64>,
    /// Frames that were sent after several collisions.
    pub multiple_collisions: Option<u64>,
    /// Frames that waited for the medium.
    pub deferred: Option<u64>,
}

/// Reads the answer to [`medium`].
pub fn read_medium(body: &[u8]) -> Option<Medium> {
    const GROUP: u16 = 4;
    const STAT: u16 = 4;
    let group = find(body.get(HEADER_BYTES..)?, GROUP)?;
    let counts = || netlink::attributes(group).filter(|a| a.kind == STAT);
    let number = |kind| counts().find_map(|stat| find(stat.value, kind)).and_then(|value| u64_at(value, 0));
    Some(Medium { single_collisions: number(1), multiple_collisions: number(2), deferred: number(7) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_are_understood() {
        let rings = [vec![0; 4], attribute(6, &256u32.to_ne_bytes()), attribute(9, &128u32.to_ne_bytes())].concat();
        assert_eq!(read_rings(&rings), Some(Rings { rx: Some(256), rx_max: None, tx: Some(128) }));
        let stat = |kind: u16, n: u64| attribute(4 | NESTED, &attribute(kind, &n.to_ne_bytes()));
        let group = [attribute(2, &1u32.to_ne_bytes()), stat(1, 5), stat(7, 9)].concat();
        let medium = read_medium(&[vec![0; 4], attribute(4 | NESTED, &group)].concat()).unwrap();
        assert_eq!((medium.single_collisions, medium.multiple_collisions, medium.deferred), (Some(5), None, Some(9)));
        assert_eq!(read_family(&[vec![0; 4], attribute(1, &21u16.to_ne_bytes())].concat()), Some(21));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (read_family(&bytes), read_rings(&bytes), read_medium(&bytes));
        }
    }
}
