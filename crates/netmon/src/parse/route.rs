//! Parses the kernel's answers about links, queueing disciplines and classes (rtnetlink(7)).

use super::bytes::{text, u32_at, u64_at};
use super::netlink::{self, find};

const RTM_GETLINK: u16 = 18;
/// The answer about a link.
pub const RTM_NEWLINK: u16 = 16;
const RTM_GETQDISC: u16 = 38;
/// The answer about a discipline.
pub const RTM_NEWQDISC: u16 = 36;
const RTM_GETTCLASS: u16 = 42;
/// The answer about a class.
pub const RTM_NEWTCLASS: u16 = 40;
/// The parent of a root discipline (TC_H_ROOT).
pub const ROOT: u32 = u32::MAX;
/// Bytes of `struct ifinfomsg`.
const LINK_BYTES: usize = 16;
/// Bytes of `struct tcmsg`.
const TRAFFIC_BYTES: usize = 20;

/// The question for a link by its name.
pub fn link(name: &str, sequence: u32) -> Vec<u8> {
    const IFLA_IFNAME: u16 = 3;
    let named = [name.as_bytes(), &[0]].concat();
    let body = [vec![0; LINK_BYTES], netlink::attribute(IFLA_IFNAME, &named)].concat();
    netlink::request(RTM_GETLINK, 0, sequence, &body)
}

/// The question for all disciplines.
pub fn disciplines() -> Vec<u8> {
    netlink::request(RTM_GETQDISC, netlink::DUMP, 0, &[0; TRAFFIC_BYTES])
}

/// The question for all classes of a link.
pub fn classes(link: u32) -> Vec<u8> {
    let mut body = vec![0; TRAFFIC_BYTES];
    body[4..8].copy_from_slice(&link.to_ne_bytes());
    netlink::request(RTM_GETTCLASS, netlink::DUMP, 0, &body)
}

/// A link, as the kernel tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Index of the link.
    pub index: u32,
    /// Name of the link.
    pub name: String,
    /// Whether it is up and has a carrier (IFF_UP, IFF_RUNNING).
    pub runs: bool,
    /// The limit of its default discipline, packets.
    pub queue_limit: u32,
    /// Number of its queues to send.
    pub tx_queues: u32,
    /// Bytes of a packet, at most, without the header of the link.
    pub mtu: u32,
    /// Counters of the link.
    pub counters: LinkCounters,
}

/// Counters of a link (`struct rtnl_link_stats64` in linux/if_link.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Bytes that came.
    pub rx_bytes: u64,
    /// Bytes that were sent.
    pub tx_bytes: u64,
    /// Packets that came and were dropped.
    pub rx_dropped: u64,
    /// Packets that were to be sent and were dropped.
    pub tx_dropped: u64,
    /// Collisions of all kinds.
    pub collisions: u64,
    /// Packets that came when there was no room for them in the device.
    pub rx_missed: u64,
}

/// Reads an answer about a link.
pub fn read_link(body: &[u8]) -> Option<Link> {
    const IFNAME: u16 = 3;
    const MTU: u16 = 4;
    const TXQLEN: u16 = 13;
    const STATS64: u16 = 23;
    const NUM_TX_QUEUES: u16 = 31;
    const UP_AND_RUNNING: u32 = 1 | 0x40;
    let mut link =
        Link { index: u32_at(body, 4)?, runs: u32_at(body, 8)? & UP_AND_RUNNING == UP_AND_RUNNING, ..Link::default() };
    for netlink::Attribute { kind, value } in netlink::attributes(body.get(LINK_BYTES..)?) {
        match kind {
            IFNAME => link.name = text(value),
            MTU => link.mtu = u32_at(value, 0)?,
            TXQLEN => link.queue_limit = u32_at(value, 0)?,
            NUM_TX_QUEUES => link.tx_queues = u32_at(value, 0)?,
            STATS64 => link.counters = counters(value)?,
            _ => {}
        }
    }
    Some(link)
}

fn counters(value: &[u8]) -> Option<LinkCounters> {
    let number = |index: usize| u64_at(value, index * 8);
    Some(LinkCounters {
        rx_bytes: number(2)?,
        tx_bytes: number(3)?,
        rx_dropped: number(6)?,
        tx_dropped: number(7)?,
        collisions: number(9)?,
        rx_missed: number(15)?,
    })
}

/// A queueing discipline or a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discipline {
    /// Index of its link.
    pub link: u32,
    /// Its handle: major number above, minor number below.
    pub handle: u32,
    /// Handle of its parent, or [`ROOT`].
    pub parent: u32,
    /// Its kind, such as `tbf`.
    pub kind: String,
    /// Its limit, as far as its options tell.
    pub limit: Limit,
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// Packets that wait.
    pub packets: u32,
    /// Bytes that wait.
    pub bytes: u32,
    /// Packets that were dropped.
    pub drops: u32,
    /// Packets that the device did not take.
    pub requeues: u32,
    /// Times at which a packet had to wait for the rate.
    pub overlimits: u32,
}

/// How much may wait in a discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// Its options do not tell.
    #[default]
    Unknown,
    /// So many packets.
    Packets(u32),
    /// So many bytes.
    Bytes(u32),
    /// As many packets as the link says (`txqueuelen`).
    OfLink,
}

/// Reads an answer about a discipline or a class.
pub fn read_discipline(body: &[u8]) -> Option<Discipline> {
    const KIND: u16 = 1;
    const OPTIONS: u16 = 2;
    const STATS2: u16 = 7;
    const BASIC: u16 = 1;
    const QUEUE: u16 = 3;
    let attributes = body.get(TRAFFIC_BYTES..)?;
    let kind = text(find(attributes, KIND)?);
    let counts = find(attributes, STATS2).unwrap_or_default();
    let (basic, queue) = (find(counts, BASIC).unwrap_or_default(), find(counts, QUEUE).unwrap_or_default());
    let of_queue = |at: usize| u32_at(queue, at).unwrap_or(0);
    Some(Discipline {
        link: u32_at(body, 4)?,
        handle: u32_at(body, 8)?,
        parent: u32_at(body, 12)?,
        limit: limit(&kind, find(attributes, OPTIONS).unwrap_or_default()),
        kind,
        sent_bytes: u64_at(basic, 0).unwrap_or(0),
        packets: of_queue(0),
        bytes: of_queue(4),
        drops: of_queue(8),
        requeues: of_queue(12),
        overlimits: of_queue(16),
    })
}

/// Reads the limit from the options of the kinds that have one (linux/pkt_sched.h).
fn limit(kind: &str, options: &[u8]) -> Limit {
    let nested = |attribute: u16| find(options, attribute).and_then(|value| u32_at(value, 0));
    let packets = |number: Option<u32>| number.map_or(Limit::Unknown, Limit::Packets);
    match kind {
        // struct tc_fifo_qopt
        "pfifo" => packets(u32_at(options, 0)),
        "bfifo" => u32_at(options, 0).map_or(Limit::Unknown, Limit::Bytes),
        "pfifo_fast" => Limit::OfLink,
        // struct tc_tbf_qopt: two rates of 12 bytes, then the limit
        "tbf" => find(options, 1).and_then(|value| u32_at(value, 24)).map_or(Limit::Unknown, Limit::Bytes),
        // TCA_FQ_PLIMIT
        "fq" => packets(nested(1)),
        // TCA_CODEL_LIMIT, TCA_FQ_CODEL_LIMIT
        "codel" | "fq_codel" => packets(nested(2)),
        // struct tc_netem_qopt: latency, limit
        "netem" => packets(u32_at(options, 4)),
        // struct tc_sfq_qopt: quantum, perturbation, limit
        "sfq" => packets(u32_at(options, 8)),
        _ => Limit::Unknown,
    }
}

/// Gives a handle as tc(8) writes it.
pub fn handle(handle: u32) -> String {
    match (handle >> 16, handle & 0xffff) {
        (major, 0) => format!("{major:x}:"),
        (major, minor) => format!("{major:x}:{minor:x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_discipline_is_understood() {
        let mut body = vec![0; TRAFFIC_BYTES];
        body[4..8].copy_from_slice(&3u32.to_ne_bytes());
        body[8..12].copy_from_slice(&0x1_0000u32.to_ne_bytes());
        body[12..16].copy_from_slice(&ROOT.to_ne_bytes());
        body.extend(netlink::attribute(1, b"tbf\0"));
        let mut parameters = vec![0; 36];
        parameters[24..28].copy_from_slice(&65536u32.to_ne_bytes());
        body.extend(netlink::attribute(2, &netlink::attribute(1, &parameters)));
        let queue: Vec<u8> = [4u32, 6056, 7, 8, 9].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let basic = [&1000u64.to_ne_bytes()[..], &5u32.to_ne_bytes()].concat();
        body.extend(netlink::attribute(7, &[netlink::attribute(1, &basic), netlink::attribute(3, &queue)].concat()));
        let read = read_discipline(&body).unwrap();
        assert_eq!((read.link, handle(read.handle), read.parent), (3, "1:".into(), ROOT));
        assert_eq!((read.limit, read.packets, read.bytes), (Limit::Bytes(65536), 4, 6056));
        assert_eq!((read.drops, read.requeues, read.overlimits, read.sent_bytes), (7, 8, 9, 1000));
    }

    #[test]
    fn handles_are_written_as_tc_does() {
        assert_eq!((handle(0x10_0000), handle(0x1_000a)), ("10:".into(), "1:a".into()));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = (read_link(&bytes), read_discipline(&bytes));
            for kind in ["pfifo", "tbf", "fq", "netem", "sfq", "codel"] {
                let _ = limit(kind, &bytes);
            }
        }
    }
}
