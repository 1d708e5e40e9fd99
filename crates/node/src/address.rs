//! This machine's own address, as others are told it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use control_protocol::address::{Own, Reach, reach};

/// TEST-NET-1 (RFC 5737) stands for the world.
const WORLD: ([u8; 4], u16) = ([192, 0, 2, 1], 9);

/// Finds the address at which others reach this machine, if that is plain.
pub fn own() -> Reach {
    let all = os::interfaces::addresses().unwrap_or_else(|e| {
        tracing::warn!("{e}");
        Vec::new()
    });
    let all: Vec<Own> =
        all.into_iter().map(|a| Own { interface: a.name, ip: a.ip, is_virtual: a.is_virtual }).collect();
    reach(&all, source(&WORLD.into()))
}

/// The address on the way to `others`, or else the likeliest one.
pub(crate) fn towards(others: &[SocketAddr]) -> IpAddr {
    others.iter().find_map(source).unwrap_or_else(|| match own() {
        Reach::Plain(ip) => ip,
        Reach::Several(all) => {
            let names: Vec<String> = all.iter().map(|own| format!("{} ({})", own.ip, own.interface)).collect();
            tracing::warn!("this machine has several addresses, {}: others are told the first", names.join(", "));
            all.first().map_or(Ipv4Addr::LOCALHOST.into(), |own| own.ip)
        }
        Reach::Nowhere => {
            tracing::warn!("this machine has no address that other machines can reach. Give --listen ADDR");
            Ipv4Addr::LOCALHOST.into()
        }
    })
}

/// The address from which this machine speaks to another one, as its routes tell: nothing is sent.
fn source(to: &SocketAddr) -> Option<IpAddr> {
    let from: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((from, 0)).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|a| a.ip())
}
