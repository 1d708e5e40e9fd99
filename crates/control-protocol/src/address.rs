//! At which address others reach this machine, if that is plain.

use std::net::IpAddr;

/// An address of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Interface that has it.
    pub interface: String,
    /// The address of the interface.
    pub ip: IpAddr,
    /// No device is behind the interface.
    pub is_virtual: bool,
}

/// What can be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// At this one.
    Plain(IpAddr),
    /// At one of these, the likeliest first: its owner must say which.
    Several(Vec<Own>),
    /// At none: it has no address but loopback.
    Nowhere,
}

/// Finds the address. `route`: the one from which this machine speaks to the world, if it has a way
/// there.
///
/// One address is plain. So is the one of the way to the world, if it is a device's, and all others
/// are those of bridges and tunnels, which programs make for themselves (containers, virtual
/// machines).
pub fn reach(all: &[Own], route: Option<IpAddr>) -> Reach {
    let reachable = all.iter().filter(|own| !is_local(own.ip));
    let (v4, v6): (Vec<&Own>, Vec<&Own>) = reachable.partition(|own| own.ip.is_ipv4());
    let mut candidates: Vec<Own> = if v4.is_empty() { v6 } else { v4 }.into_iter().cloned().collect();
    // A device's addresses first, that of the way to the world before all.
    candidates.sort_by_key(|own| (route != Some(own.ip), own.is_virtual));
    let devices = candidates.iter().filter(|own| !own.is_virtual).count();
    let leads = |own: &Own| route.is_none_or(|route| route == own.ip);
    match candidates.as_slice() {
        [] => Reach::Nowhere,
        [only] => Reach::Plain(only.ip),
        [first, ..] if devices == 1 && !first.is_virtual && leads(first) => Reach::Plain(first.ip),
        _ => Reach::Several(candidates),
    }
}

/// Loopback, or an address that means something on one link alone.
fn is_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(interface: &str, ip: &str, is_virtual: bool) -> Own {
        Own { interface: interface.into(), ip: ip.parse().unwrap_or(IpAddr::from([0, 0, 0, 0])), is_virtual }
    }

    fn ip(text: &str) -> IpAddr {
        own("", text, false).ip
    }

    #[test]
    fn one_address_is_plain_and_two_devices_are_not() {
        let loopback = own("lo", "127.0.0.1", true);
        let link = own("eth0", "fe80::1", false);
        let wire = own("eth0", "10.0.0.5", false);
        let wire6 = own("eth0", "2001:db8::5", false);
        let docker = own("docker0", "172.17.0.1", true);
        let radio = own("wlan0", "192.168.1.7", false);
        let tunnel = own("wg0", "10.9.0.2", true);
        let found = |all: &[&Own], route: Option<&Own>| {
            reach(&all.iter().map(|own| (*own).clone()).collect::<Vec<_>>(), route.map(|own| own.ip))
        };
        assert_eq!(found(&[&loopback, &link], None), Reach::Nowhere);
        assert_eq!(found(&[&loopback, &link, &wire, &wire6], None), Reach::Plain(ip("10.0.0.5")));
        assert_eq!(found(&[&loopback, &wire6], None), Reach::Plain(ip("2001:db8::5")));
        assert_eq!(found(&[&loopback, &tunnel], None), Reach::Plain(ip("10.9.0.2")));
        assert_eq!(found(&[&loopback, &docker, &wire], Some(&wire)), Reach::Plain(ip("10.0.0.5")));
        assert_eq!(found(&[&docker, &wire], None), Reach::Plain(ip("10.0.0.5")));
        let several = found(&[&wire, &radio, &docker], Some(&radio));
        assert_eq!(several, Reach::Several(vec![radio.clone(), wire.clone(), docker]));
        assert_eq!(found(&[&wire, &tunnel], Some(&tunnel)), Reach::Several(vec![tunnel, wire]));
    }
}
