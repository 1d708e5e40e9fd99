//! The network of a lab: a bridge in the hub's namespace, and one port for each node, which is a
//! veth or (with a delay) a TAP; or two bridges that a link joins.
//!
//! Every hardware address is known beforehand. So the bridge neither learns nor floods, and no node
//! asks by ARP: neighbours are permanent entries. (The kernel bounds all other neighbour entries of
//! a machine to 1024; fewer than 100 nodes would need as many.) This also makes cutting a link a
//! matter of one entry on each side.

use std::ffi::CString;
use std::fs;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use crate::error::{Context, Result};
use crate::netlink::{Message, Socket};
use crate::options::Options;
use crate::state::{PREFIX_BITS, SWITCH_ADDRESS, SWITCH_HARDWARE, address, hardware_address};

const RTM_NEWLINK: u16 = 16;
const RTM_SETLINK: u16 = 19;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWNEIGH: u16 = 28;
const RTM_NEWQDISC: u16 = 36;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
/// The attribute contains attributes.
const NESTED: u16 = 0x8000;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_PROTINFO: u16 = 12;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_PID: u16 = 19;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_BRPORT_LEARNING: u16 = 8;
const IFLA_BRPORT_UNICAST_FLOOD: u16 = 9;

const LOOPBACK: u32 = 1;
/// Index of the bridge in the hub's namespace.
const BRIDGE: u32 = 2;
/// Indices of the two bridges, if there are two: of odd nodes and of even ones ...
const BRIDGES: [u32; 2] = [BRIDGE, 3];
/// ... and of the ends of the link that joins them, by bridge.
const TRUNK: [u32; 2] = [4, 5];
/// Index of the port of node 0; that of node k is k higher.
const PORTS: u32 = 100;
/// Index of eth0 in a node's namespace, if it is a veth.
const ETH0: u32 = 2;
const UP: u32 = libc::IFF_UP as u32;

/// Encodes a `struct ifinfomsg`.
fn link_body(family: i32, index: u32, flags: u32) -> Vec<u8> {
    let mut body = vec![family as u8, 0, 0, 0];
    body.extend(index.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body.extend(flags.to_ne_bytes()); // only these flags are changed
    body
}

fn set_link(what: String, index: u32) -> Message {
    Message::new(what, RTM_NEWLINK, 0, &link_body(libc::AF_UNSPEC, index, UP))
}

/// Encodes a `struct ndmsg`.
fn neighbour_body(family: i32, index: u32, state: u16, flags: u8) -> Vec<u8> {
    let mut body = vec![family as u8, 0, 0, 0];
    body.extend(index.to_ne_bytes());
    body.extend(state.to_ne_bytes());
    body.extend([flags, 0]);
    body
}

/// Disables IPv6 on this interface (or `default`: on later ones). Its announcements would be copied
/// to every node.
fn quiet_ipv6(interface: &str) -> Result<()> {
    let path = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
    match fs::write(&path, "1") {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).context(|| format!("write {path}")),
        _ => Ok(()),
    }
}

/// Gives the bridge of a node.
fn side(node: u32, options: &Options) -> usize {
    if options.trunk_bits.is_some() && node.is_multiple_of(2) { 1 } else { 0 }
}

/// Makes the bridge in this thread's network namespace; or two, and the link between them.
pub fn make_bridges(options: &Options) -> Result<()> {
    quiet_ipv6("default")?;
    let create = NLM_F_CREATE | NLM_F_EXCL;
    let bridge = |number: usize| {
        Message::new("make a bridge", RTM_NEWLINK, create, &link_body(libc::AF_UNSPEC, BRIDGES[number], UP))
            .text(IFLA_IFNAME, &format!("lab{number}"))
            .nest(IFLA_LINKINFO, |m| m.text(IFLA_INFO_KIND, "bridge"))
    };
    let mut messages = vec![set_link("bring up the hub's loopback".into(), LOOPBACK), bridge(0)];
    if let Some(rate) = options.trunk_bits {
        let trunk = Message::new("join the bridges", RTM_NEWLINK, create, &link_body(libc::AF_UNSPEC, TRUNK[0], UP))
            .text(IFLA_IFNAME, "trunk0")
            .nest(IFLA_LINKINFO, |m| {
                m.text(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |m| {
                    m.nest(VETH_INFO_PEER, |m| {
                        m.raw(&link_body(libc::AF_UNSPEC, TRUNK[1], 0)).text(IFLA_IFNAME, "trunk1")
                    })
                })
            });
        messages.extend([bridge(1), trunk]);
        for (end, bridge) in TRUNK.into_iter().zip(BRIDGES) {
            messages.push(set_link("join an end of the link to its bridge".into(), end).u32(IFLA_MASTER, bridge));
            messages.extend([quiet_port(end, "the link between the bridges"), token_bucket(end, rate)]);
        }
    }
    Socket::open()?.send(messages)
}

/// Makes a port of a bridge neither learn nor flood.
fn quiet_port(port: u32, whose: &str) -> Message {
    let body = link_body(libc::AF_BRIDGE, port, 0);
    Message::new(format!("set the port of {whose}"), RTM_SETLINK, 0, &body)
        .nest(IFLA_PROTINFO | NESTED, |m| m.attr(IFLA_BRPORT_LEARNING, &[0]).attr(IFLA_BRPORT_UNICAST_FLOOD, &[0]))
}

/// Tells a bridge that this node is behind this port.
fn behind(port: u32, node: u32) -> Message {
    let entry = neighbour_body(libc::AF_BRIDGE, port, libc::NUD_NOARP, libc::NTF_MASTER);
    let what = format!("tell the bridge where n{node} is");
    Message::new(what, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &entry)
        .attr(libc::NDA_LLADDR, &hardware_address(node))
}

/// Makes a veth pair for each node: one end is a port of the bridge, the other is `eth0` in the
/// namespace of the node's init.
pub fn make_veths(inits: &[i32], options: &Options) -> Result<()> {
    let veth = |(index, pid): (u32, &i32)| {
        let node = format!("n{index}");
        let create = NLM_F_CREATE | NLM_F_EXCL;
        let body = link_body(libc::AF_UNSPEC, PORTS + index, UP);
        Message::new(format!("make the link of {node}"), RTM_NEWLINK, create, &body)
            .text(IFLA_IFNAME, &node)
            .u32(IFLA_MASTER, BRIDGES[side(index, options)])
            .nest(IFLA_LINKINFO, |m| {
                m.text(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |m| {
                    m.nest(VETH_INFO_PEER, |m| {
                        m.raw(&link_body(libc::AF_UNSPEC, ETH0, 0))
                            .text(IFLA_IFNAME, "eth0")
                            .attr(IFLA_ADDRESS, &hardware_address(index))
                            .u32(IFLA_NET_NS_PID, *pid as u32)
                    })
                })
            })
    };
    Socket::open()?.send((1..).zip(inits).map(veth).collect())
}

/// Joins the hub's TAPs, which are named after the nodes, to the bridge.
pub fn join_taps(nodes: RangeInclusive<u32>, options: &Options) -> Result<()> {
    let join = |index| {
        let node = format!("n{index}");
        Ok(set_link(format!("join {node} to the bridge"), index_of(&node)?)
            .u32(IFLA_MASTER, BRIDGES[side(index, options)]))
    };
    Socket::open()?.send(nodes.map(join).collect::<Result<_>>()?)
}

/// Gives the bridge an address on the lab's network, and tells it where these nodes are.
pub fn set_switch(nodes: RangeInclusive<u32>) -> Result<()> {
    let mut messages = vec![
        set_link("give the switch its hardware address".into(), BRIDGE).attr(IFLA_ADDRESS, &SWITCH_HARDWARE),
        own_address(BRIDGE, SWITCH_ADDRESS, "the switch"),
    ];
    messages.extend(nodes.map(|n| neighbour(BRIDGE, address(n), hardware_address(n))));
    Socket::open()?.send(messages)
}

/// Tells this node where the switch is.
pub fn set_switch_neighbour() -> Result<()> {
    Socket::open()?.send(vec![neighbour(index_of("eth0")?, SWITCH_ADDRESS, SWITCH_HARDWARE)])
}

fn own_address(link: u32, address: Ipv4Addr, whose: &str) -> Message {
    let mut body = vec![libc::AF_INET as u8, PREFIX_BITS, 0, 0];
    body.extend(link.to_ne_bytes());
    Message::new(format!("give {whose} its address"), RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &body)
        .attr(libc::IFA_LOCAL, &address.octets())
        .attr(libc::IFA_ADDRESS, &address.octets())
}

/// Tells the bridges where every node is, and shapes the traffic to the nodes.
pub fn set_ports(options: &Options) -> Result<()> {
    let mut messages = Vec::new();
    for node in 1..=options.all_nodes() {
        let port = index_of(&format!("n{node}"))?;
        messages.extend([quiet_port(port, &format!("n{node}")), behind(port, node)]);
        if options.trunk_bits.is_some() {
            messages.push(behind(TRUNK[1 - side(node, options)], node));
        }
        messages.extend(options.rate_bits.map(|rate| token_bucket(port, rate)));
    }
    Socket::open()?.send(messages)
}

/// Sets up the network of node number `own`, in its own namespace: loopback, address, neighbours,
/// rate.
pub fn set_node(own: u32, options: &Options) -> Result<()> {
    quiet_ipv6("eth0")?;
    let eth0 = index_of("eth0")?;
    let mut messages = vec![
        set_link("bring up the loopback".into(), LOOPBACK),
        set_link("bring up eth0".into(), eth0).attr(IFLA_ADDRESS, &hardware_address(own)),
        own_address(eth0, address(own), "eth0"),
    ];
    let others = (1..=options.all_nodes()).filter(|n| *n != own);
    messages.extend(others.map(|n| neighbour(eth0, address(n), hardware_address(n))));
    messages.extend(options.rate_bits.map(|rate| token_bucket(eth0, rate)));
    Socket::open()?.send(messages)
}

/// Makes this node's packets to `other` be lost, or arrive. Call it on both nodes. The kernel sends
/// lost packets to a hardware address that no port has, so the bridge drops them: no sender gets an
/// error, as with a pulled cable.
pub fn set_reachable(other: u32, reachable: bool) -> Result<()> {
    let mut hardware = hardware_address(other);
    if !reachable {
        hardware[1] = b'x';
    }
    Socket::open()?.send(vec![neighbour(index_of("eth0")?, address(other), hardware)])
}

fn neighbour(link: u32, address: Ipv4Addr, hardware: [u8; 6]) -> Message {
    let body = neighbour_body(libc::AF_INET, link, libc::NUD_PERMANENT, 0);
    Message::new(format!("tell where {address} is"), RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &body)
        .attr(libc::NDA_DST, &address.octets())
        .attr(libc::NDA_LLADDR, &hardware)
}

/// Builds a token bucket filter as root of `link` (man 8 tc-tbf): 10 ms of burst, 50 ms of queue.
fn token_bucket(link: u32, rate_bits: u64) -> Message {
    const TCA_KIND: u16 = 1;
    const TCA_OPTIONS: u16 = 2;
    const TCA_TBF_PARMS: u16 = 1;
    const TCA_TBF_RATE64: u16 = 4;
    const TCA_TBF_BURST: u16 = 6;
    const LINKLAYER_ETHERNET: u8 = 1;
    let rate_bytes = rate_bits / 8;
    let clamp = |bytes: u64, least: u64| u32::try_from(bytes.max(least)).unwrap_or(u32::MAX);
    let burst_bytes = clamp(rate_bytes / 100, 2 * 1514);
    let queue_bytes = clamp(rate_bytes / 20, 64 << 10);
    // struct tc_ratespec { cell_log, linklayer: u8, overhead: u16, cell_align: i16, mpu: u16, rate:
    // u32 }
    let rate_spec = |rate: u32| {
        let mut spec = vec![0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0];
        spec.extend(rate.to_ne_bytes());
        spec
    };
    // struct tc_tbf_qopt { rate, peakrate: tc_ratespec, limit, buffer, mtu: u32 }
    let mut parameters = rate_spec(u32::try_from(rate_bytes).unwrap_or(u32::MAX));
    parameters.extend([0; 12]);
    parameters.extend(queue_bytes.to_ne_bytes());
    parameters.extend([0; 8]);

    // struct tcmsg { family: u8, pad: [u8; 3], ifindex: i32, handle, parent, info: u32 }
    let mut body = vec![0; 4];
    body.extend(link.to_ne_bytes());
    body.extend(0x1_0000u32.to_ne_bytes());
    body.extend(u32::MAX.to_ne_bytes()); // TC_H_ROOT
    body.extend([0; 4]);
    Message::new(format!("limit the rate of link {link}"), RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &body)
        .text(TCA_KIND, "tbf")
        .nest(TCA_OPTIONS, |m| {
            let m = m.attr(TCA_TBF_PARMS, &parameters).u32(TCA_TBF_BURST, burst_bytes);
            match rate_bytes > u64::from(u32::MAX) {
                true => m.attr(TCA_TBF_RATE64, &rate_bytes.to_ne_bytes()),
                false => m,
            }
        })
}

/// Gives the index of the interface of this name in this thread's network namespace.
fn index_of(name: &str) -> Result<u32> {
    let text = CString::new(name).map_err(std::io::Error::from).context(|| format!("name an interface {name:?}"))?;
    // SAFETY: `text` is a NUL-terminated string that lives over the call.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(std::io::Error::last_os_error()).context(|| format!("find interface {name}")),
        index => Ok(index),
    }
}
