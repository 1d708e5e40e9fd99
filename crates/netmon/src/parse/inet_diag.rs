//! Parses the kernel's answers about TCP, UDP and raw sockets (linux/inet_diag.h, sock_diag(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::bytes::{u32_at, u64_at};
use super::netlink;

/// The message type of questions and answers (SOCK_DIAG_BY_FAMILY).
pub const BY_FAMILY: u16 = 20;
/// The family of IPv4.
pub const INET: u8 = 2;
/// The family of IPv6.
pub const INET6: u8 = 10;
/// The state of a socket that listens (TCP_LISTEN).
pub const LISTENS: u8 = 10;
/// The state of a connection that waits for stray packets (TCP_TIME_WAIT): it has no socket.
const TIME_WAIT: u8 = 6;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE_BYTES: usize = 72;
/// Bytes of `struct inet_diag_sockid`.
const ID_BYTES: usize = 48;
const INFO: u16 = 2;
const SKMEMINFO: u16 = 7;
/// The extensions that are asked for: bits INET_DIAG_INFO and INET_DIAG_SKMEMINFO.
const DETAILS: u8 = 1 << (INFO - 1) | 1 << (SKMEMINFO - 1);

/// How much is asked of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The lengths of its queues.
    Lengths,
    /// Also memory, limits, and TCP's own counts.
    Details,
}

impl Depth {
    fn extensions(self) -> u8 {
        if self == Depth::Details { DETAILS } else { 0 }
    }
}

/// The question for all sockets of a family and protocol.
pub fn all(family: u8, protocol: u8, depth: Depth) -> Vec<u8> {
    let states = !(1 << TIME_WAIT);
    netlink::request(
        BY_FAMILY,
        netlink::DUMP,
        0,
        &body(Question { family, protocol, depth, states, id: &[0; ID_BYTES] }),
    )
}

/// The question for one socket, by its identity.
pub fn one(socket: &InetSocket, depth: Depth, sequence: u32) -> Vec<u8> {
    const UDP: u8 = 17;
    // Of UDP the kernel looks for the socket that would receive a packet from the first address to
    // the second one (udp_dump_one in net/ipv4/udp_diag.c).
    let id = if socket.protocol == UDP { &turned(&socket.identity) } else { &socket.identity };
    let question = Question { family: socket.family, protocol: socket.protocol, depth, states: u32::MAX, id };
    netlink::request(BY_FAMILY, 0, sequence, &body(question))
}

/// Exchanges both ends.
fn turned(identity: &[u8; ID_BYTES]) -> [u8; ID_BYTES] {
    let mut turned = *identity;
    for (here, there) in [(0..2, 2..4), (4..20, 20..36)] {
        turned[here.clone()].copy_from_slice(&identity[there.clone()]);
        turned[there].copy_from_slice(&identity[here]);
    }
    turned
}

struct Question<'a> {
    family: u8,
    protocol: u8,
    depth: Depth,
    states: u32,
    id: &'a [u8; ID_BYTES],
}

/// Builds `struct inet_diag_req_v2`.
fn body(question: Question<'_>) -> Vec<u8> {
    let mut bytes = vec![question.family, question.protocol, question.depth.extensions(), 0];
    bytes.extend(question.states.to_ne_bytes());
    bytes.extend(question.id);
    bytes
}

/// A socket, as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InetSocket {
    /// [`INET`] or [`INET6`].
    pub family: u8,
    /// The protocol's number: 6 is TCP, 17 is UDP.
    pub protocol: u8,
    /// The state, as TCP numbers them.
    pub state: u8,
    /// The inode of the socket.
    pub inode: u32,
    /// Address of this end.
    pub local: SocketAddr,
    /// The other end's address.
    pub remote: SocketAddr,
    /// `idiag_rqueue`: unread bytes; of a socket that listens, waiting connections.
    pub rx: u32,
    /// `idiag_wqueue`: unacknowledged bytes; of a socket that listens, the limit of connections.
    pub tx: u32,
    /// Memory and limits, if they were asked for.
    pub memory: Option<Memory>,
    /// TCP's counts, if they were asked for.
    pub tcp: Option<TcpCounts>,
    /// `struct inet_diag_sockid`, to ask for the same socket again.
    pub identity: [u8; ID_BYTES],
}

/// Memory of a socket, bytes (linux/sock_diag.h, SK_MEMINFO_*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Memory of the receive queue.
    pub rx: u32,
    /// Limit of `rx`.
    pub rx_limit: u32,
    /// Memory of what is to be sent.
    pub tx: u32,
    /// Limit of `tx`.
    pub tx_limit: u32,
    /// Packets that were dropped; 0 if the kernel does not tell.
    pub drops: u32,
}

impl Memory {
    /// Reads the numbers as SO_MEMINFO and sock_diag(7) have them.
    pub fn read(bytes: &[u8]) -> Option<Memory> {
        const QUEUED_AT: usize = 5 * 4;
        Some(Memory {
            rx: u32_at(bytes, 0)?,
            rx_limit: u32_at(bytes, 4)?,
            // A TCP socket counts what waits to be sent in WMEM_QUEUED, others in WMEM_ALLOC.
            tx: u32_at(bytes, 8)?.max(u32_at(bytes, QUEUED_AT)?),
            tx_limit: u32_at(bytes, 12)?,
            drops: u32_at(bytes, 8 * 4).unwrap_or(0),
        })
    }
}

/// Counts of a TCP connection (`struct tcp_info` in linux/tcp.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Bytes of a segment that is sent.
    pub segment_bytes: u32,
    /// Bytes of a segment that comes.
    pub rx_segment_bytes: u32,
    /// Segments that were sent and are not acknowledged.
    pub unacknowledged: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Bytes that were not sent yet.
    pub unsent_bytes: u32,
}

impl TcpCounts {
    fn read(bytes: &[u8]) -> Option<TcpCounts> {
        Some(TcpCounts {
            segment_bytes: u32_at(bytes, 16)?,
            rx_segment_bytes: u32_at(bytes, 20)?,
            unacknowledged: u32_at(bytes, 24)?,
            retransmits: u32_at(bytes, 100)?,
            unsent_bytes: u32_at(bytes, 144).unwrap_or(0),
        })
    }
}

/// Reads an answer about a socket of this protocol. `None`: it is too short, or of another family.
pub fn read(protocol: u8, body: &[u8]) -> Option<InetSocket> {
    let family = *body.first()?;
    let identity: [u8; ID_BYTES] = body.get(4..4 + ID_BYTES)?.try_into().ok()?;
    let mut socket = InetSocket {
        family,
        protocol,
        state: *body.get(1)?,
        inode: u32_at(body, 68)?,
        local: address(family, &identity, Ends { port_at: 0, address_at: 4 })?,
        remote: address(family, &identity, Ends { port_at: 2, address_at: 20 })?,
        rx: u32_at(body, 56)?,
        tx: u32_at(body, 60)?,
        memory: None,
        tcp: None,
        identity,
    };
    for attribute in netlink::attributes(body.get(MESSAGE_BYTES..)?) {
        match attribute.kind {
            SKMEMINFO => socket.memory = Memory::read(attribute.value),
            INFO => socket.tcp = TcpCounts::read(attribute.value),
            _ => {}
        }
    }
    Some(socket)
}

/// Where an end's port and address are.
struct Ends {
    port_at: usize,
    address_at: usize,
}

fn address(family: u8, identity: &[u8; ID_BYTES], at: Ends) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(identity.get(at.port_at..at.port_at + 2)?.try_into().ok()?);
    let ip: IpAddr = match family {
        INET => Ipv4Addr::from(<[u8; 4]>::try_from(identity.get(at.address_at..at.address_at + 4)?).ok()?).into(),
        INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(identity.get(at.address_at..at.address_at + 16)?).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Gives the kernel's own number for a socket (its cookie), which no other socket ever gets.
pub fn cookie(socket: &InetSocket) -> u64 {
    u64_at(&socket.identity, 40).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer() -> Vec<u8> {
        let mut body = vec![INET, 1, 0, 0];
        body.extend(5000u16.to_be_bytes());
        body.extend(80u16.to_be_bytes());
        body.extend([10, 0, 0, 1]);
        body.extend([0; 12]);
        body.extend([10, 0, 0, 2]);
        body.extend([0; 12]);
        body.extend([0; 4]); // interface
        body.extend(77u64.to_ne_bytes()); // cookie
        [0u32, 123, 456, 0, 4242].iter().for_each(|n| body.extend(n.to_ne_bytes()));
        let memory: Vec<u8> = [10u32, 20, 3, 40, 0, 30, 0, 0, 9].iter().flat_map(|n| n.to_ne_bytes()).collect();
        body.extend(netlink::attribute(SKMEMINFO, &memory));
        let mut info = vec![0; 160];
        info[100..104].copy_from_slice(&7u32.to_ne_bytes());
        info[144..148].copy_from_slice(&99u32.to_ne_bytes());
        body.extend(netlink::attribute(INFO, &info));
        body
    }

    #[test]
    fn an_answer_is_understood() {
        let socket = read(6, &answer()).unwrap();
        assert_eq!((socket.local, socket.remote), ("10.0.0.1:5000".parse().unwrap(), "10.0.0.2:80".parse().unwrap()));
        assert_eq!((socket.rx, socket.tx, socket.inode, cookie(&socket)), (123, 456, 4242, 77));
        assert_eq!(socket.memory, Some(Memory { rx: 10, rx_limit: 20, tx: 30, tx_limit: 40, drops: 9 }));
        assert_eq!(socket.tcp.map(|tcp| (tcp.retransmits, tcp.unsent_bytes)), Some((7, 99)));
    }

    #[test]
    fn a_question_for_one_socket_has_its_identity() {
        let socket = read(6, &answer()).unwrap();
        let question = one(&socket, Depth::Details, 3);
        assert_eq!(question.len(), 16 + 8 + ID_BYTES);
        assert_eq!(question[16..20], [INET, 6, 0x42, 0]);
        assert_eq!(question[24..], socket.identity);
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(6, &bytes);
            let _ = read(6, &[answer()[..MESSAGE_BYTES].to_vec(), bytes].concat());
        }
    }
}
