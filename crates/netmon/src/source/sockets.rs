//! Sockets of a network: TCP, UDP, raw and Unix, all at once.

use std::fs;

use super::error::Result;
use super::netlink::{Netlink, Subject};
use crate::layer::socket;
use crate::parse::inet_diag::{self, Depth, INET, INET6, InetSocket, LISTENS, Memory};
use crate::parse::proc_net_raw::{self, RawSocket};
use crate::parse::unix_diag::{self, UnixSocket};
use crate::record::{Change, Detail};

const TCP: u8 = 6;
const UDP: u8 = 17;
const RAW: u8 = 255;

/// A socket, as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// TCP, UDP or raw.
    Inet(InetSocket),
    /// A Unix socket.
    Unix(UnixSocket),
    /// A raw socket of a kernel that does not tell of them by netlink.
    Raw(RawSocket),
}

/// The values of a socket that the fast sampler reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The bytes of both queues.
    Stream,
    /// The memory of both queues: the kernel does not count bytes of datagrams.
    Datagrams,
    /// Nothing: the socket listens, or can only be seen among all others.
    Rarely,
}

impl Told {
    /// Gives the number of the socket.
    pub fn inode(&self) -> u32 {
        match self {
            Told::Inet(socket) => socket.inode,
            Told::Unix(socket) => socket.inode,
            Told::Raw(socket) => socket.inode,
        }
    }

    /// Gives the name of the protocol.
    pub fn protocol(&self) -> &'static str {
        match self {
            Told::Inet(InetSocket { protocol: TCP, .. }) => "tcp",
            Told::Inet(InetSocket { protocol: UDP, .. }) => "udp",
            Told::Inet(_) | Told::Raw(_) => "raw",
            Told::Unix(_) => "unix",
        }
    }

    /// Tells how the socket is read in short periods.
    pub fn way(&self) -> Way {
        match self {
            Told::Raw(_) => Way::Rarely,
            Told::Inet(InetSocket { state: LISTENS, protocol: TCP, .. }) => Way::Rarely,
            Told::Unix(UnixSocket { state: LISTENS, .. }) => Way::Rarely,
            Told::Inet(InetSocket { protocol: TCP, .. }) => Way::Stream,
            Told::Unix(UnixSocket { kind: 1 | 5, .. }) => Way::Stream,
            Told::Inet(_) | Told::Unix(_) => Way::Datagrams,
        }
    }

    /// Gives the question for this socket alone.
    pub fn question(&self) -> Option<Vec<u8>> {
        match self {
            Told::Inet(socket) => {
                let depth = if self.way() == Way::Stream { Depth::Lengths } else { Depth::Details };
                Some(inet_diag::one(socket, depth, 1))
            }
            Told::Unix(socket) => Some(unix_diag::one(socket, 1)),
            Told::Raw(_) => None,
        }
    }

    /// Names the socket by protocol and addresses.
    pub fn name(&self) -> String {
        match self {
            Told::Inet(socket) if self.listens() => format!("{} {} listens", self.protocol(), socket.local),
            Told::Inet(socket) => format!("{} {} > {}", self.protocol(), socket.local, socket.remote),
            Told::Unix(socket) => match (&socket.name, socket.peer) {
                (Some(name), _) => format!("unix {name} #{}", socket.inode),
                (None, Some(peer)) => format!("unix #{} > #{peer}", socket.inode),
                (None, None) => format!("unix #{}", socket.inode),
            },
            Told::Raw(socket) => format!("raw protocol {}", socket.protocol),
        }
    }

    fn listens(&self) -> bool {
        match self {
            Told::Inet(socket) => socket.protocol == TCP && socket.state == LISTENS,
            Told::Unix(socket) => socket.state == LISTENS,
            Told::Raw(_) => false,
        }
    }

    /// Lists protocol, addresses and inode.
    pub fn details(&self) -> Vec<Detail> {
        let mut details =
            vec![Detail::new("protocol", self.protocol()), Detail::new("inode", self.inode().to_string())];
        match self {
            Told::Inet(socket) => {
                details.push(Detail::new("local", socket.local.to_string()));
                details.push(Detail::new("remote", socket.remote.to_string()));
            }
            Told::Unix(socket) => {
                details.extend(socket.name.as_ref().map(|name| Detail::new("local", name)));
                details.extend(socket.peer.map(|peer| Detail::new("remote", format!("#{peer}"))));
            }
            Told::Raw(socket) => details.push(Detail::new("local", format!("protocol {}", socket.protocol))),
        }
        details
    }

    /// Gives all columns that were told. Those that are read in short periods are left out.
    pub fn changes(&self) -> Vec<Change> {
        match self {
            Told::Inet(told) if self.listens() => accepting(told.rx, told.tx),
            Told::Unix(told) if self.listens() => accepting(told.rx, told.tx),
            Told::Inet(told) if told.protocol == TCP => tcp(told),
            Told::Inet(InetSocket { memory: Some(memory), .. }) => datagrams(memory),
            Told::Unix(UnixSocket { memory: Some(memory), .. }) if self.way() == Way::Datagrams => datagrams(memory),
            Told::Unix(told) => told.memory.iter().flat_map(unix_stream).collect(),
            Told::Inet(_) => Vec::new(),
            Told::Raw(told) => vec![
                Change::exact(socket::RX_MEMORY, told.rx),
                Change::exact(socket::TX_MEMORY, told.tx),
                Change::estimate(socket::RX_BYTES, told.rx),
                Change::estimate(socket::TX_BYTES, told.tx),
                Change::exact(socket::DROPS, told.drops),
            ],
        }
    }
}

fn accepting(waiting: u32, limit: u32) -> Vec<Change> {
    vec![Change::exact(socket::ACCEPTS, waiting.into()), Change::exact(socket::ACCEPT_LIMIT, limit.into())]
}

fn limits(memory: &Memory) -> Vec<Change> {
    vec![
        Change::exact(socket::RX_LIMIT, memory.rx_limit.into()),
        Change::exact(socket::TX_LIMIT, memory.tx_limit.into()),
        Change::exact(socket::DROPS, memory.drops.into()),
    ]
}

fn tcp(told: &InetSocket) -> Vec<Change> {
    let mut changes = Vec::new();
    if let Some(memory) = &told.memory {
        changes = limits(memory);
        changes.push(Change::exact(socket::RX_MEMORY, memory.rx.into()));
        changes.push(Change::exact(socket::TX_MEMORY, memory.tx.into()));
    }
    if let Some(counts) = told.tcp {
        // The kernel does not tell how many buffers are in a queue: these are segments.
        let segments = |bytes: u32, of_bytes: u32| u64::from(bytes.div_ceil(of_bytes.max(1)));
        let to_send = u64::from(counts.unacknowledged) + segments(counts.unsent_bytes, counts.segment_bytes);
        changes.push(Change::exact(socket::RETRANSMITS, counts.retransmits.into()));
        changes.push(Change::exact(socket::UNSENT_BYTES, counts.unsent_bytes.into()));
        changes.push(Change::estimate(socket::RX_PACKETS, segments(told.rx, counts.rx_segment_bytes)));
        changes.push(Change::estimate(socket::TX_PACKETS, to_send));
    }
    changes
}

fn datagrams(memory: &Memory) -> Vec<Change> {
    let mut changes = limits(memory);
    // Memory is what the kernel counts: the packets' bytes and their heads.
    changes.push(Change::estimate(socket::RX_BYTES, memory.rx.into()));
    changes.push(Change::estimate(socket::TX_BYTES, memory.tx.into()));
    changes
}

/// A stream's messages stay in the sender's account until they are read: the receiver has no limit
/// of its own.
fn unix_stream(memory: &Memory) -> Vec<Change> {
    vec![Change::exact(socket::TX_MEMORY, memory.tx.into()), Change::exact(socket::TX_LIMIT, memory.tx_limit.into())]
}

/// Reads all sockets of one network.
#[derive(Debug)]
pub struct Sockets {
    netlink: Netlink,
    /// Families and protocols that this kernel tells of.
    questions: Vec<Question>,
    /// Raw sockets are read from /proc of this process.
    raw_of: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    family: u8,
    protocol: u8,
}

impl Sockets {
    /// Reads the network of a process; `None` is the caller's.
    pub fn open(pid: Option<i32>) -> Result<Sockets> {
        let netlink = match pid {
            Some(pid) => Netlink::open_in(Subject::Sockets, pid)?,
            None => Netlink::open(Subject::Sockets)?,
        };
        let both = |protocol| [INET, INET6].map(|family| Question { family, protocol });
        Ok(Sockets { netlink, questions: [both(TCP), both(UDP), both(RAW)].concat(), raw_of: pid })
    }

    /// Lists all sockets. Does not ask again for a kind of socket that this kernel does not list.
    pub fn all(&mut self) -> Result<Vec<Told>> {
        let mut found = Vec::new();
        let Sockets { netlink, questions, .. } = self;
        let had_raw = questions.iter().any(|question| question.protocol == RAW);
        let mut failed = None;
        questions.retain(|Question { family, protocol }| {
            let request = inet_diag::all(*family, *protocol, Depth::Details);
            let asked = netlink.ask(&request, true, |body| {
                found.extend(inet_diag::read(*protocol, body).map(Told::Inet));
            });
            match asked {
                Err(e) if e.is_absent() => false,
                asked => {
                    failed = failed.take().or(asked.err());
                    true
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let tells_raw = questions.iter().any(|question| question.protocol == RAW);
        if !(had_raw && tells_raw) {
            found.extend(self.raw());
        }
        self.netlink.ask(&unix_diag::all(), true, |body| found.extend(unix_diag::read(body).map(Told::Unix)))?;
        found.retain(|told| told.inode() != 0);
        Ok(found)
    }

    fn raw(&self) -> Vec<Told> {
        let of = self.raw_of.map_or("self".into(), |pid| pid.to_string());
        let read = |name| fs::read_to_string(format!("/proc/{of}/net/{name}")).unwrap_or_default();
        ["raw", "raw6"].iter().flat_map(|name| proc_net_raw::read(&read(name))).map(Told::Raw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn own_sockets_are_told_with_what_waits_in_them() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let (accepted, from) = server.accept().unwrap();
        client.write_all(&[7; 5000]).unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.flush().unwrap();
        let mut sockets = Sockets::open(None).unwrap();
        let all = sockets.all().unwrap();
        let by_local = |address: std::net::SocketAddr, remote: Option<std::net::SocketAddr>| {
            all.iter().find_map(|told| match told {
                Told::Inet(told) if told.local == address && remote.is_none_or(|r| told.remote == r) => Some(told),
                _ => None,
            })
        };
        let receiver = by_local(accepted.local_addr().unwrap(), Some(from)).unwrap();
        assert_eq!((receiver.rx, Told::Inet(receiver.clone()).way()), (5000, Way::Stream));
        let limit = Told::Inet(receiver.clone()).changes().iter().any(|c| c.column == socket::RX_LIMIT);
        assert!(limit);
        assert!(by_local(datagrams.local_addr().unwrap(), None).is_some_and(|told| told.protocol == UDP));
        // The same, asked alone.
        let question = Told::Inet(receiver.clone()).question().unwrap();
        let mut again = None;
        sockets.netlink.ask(&question, false, |body| again = inet_diag::read(TCP, body)).unwrap();
        assert_eq!(again.map(|told| (told.inode, told.rx)), Some((receiver.inode, 5000)));
        // UDP is asked for in its own way.
        let question = Told::Inet(by_local(datagrams.local_addr().unwrap(), None).unwrap().clone()).question().unwrap();
        let mut again = None;
        sockets.netlink.ask(&question, false, |body| again = inet_diag::read(UDP, body)).unwrap();
        assert_eq!(again.map(|told| told.local), datagrams.local_addr().ok());
        let question = Told::Inet(receiver.clone()).question().unwrap();
        drop(accepted);
        let (_, closed) = (client, sockets.netlink.ask(&question, false, |_| {}));
        assert!(closed.is_err_and(|e| e.is_absent()));
    }
}
