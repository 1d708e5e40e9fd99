//! The addresses of this machine's network interfaces (getifaddrs(3)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Error, Result};

/// An address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Name of the interface.
    pub name: String,
    /// The address of the interface.
    pub ip: IpAddr,
    /// No device is behind it: a bridge, a tunnel, one end of a pair.
    pub is_virtual: bool,
}

/// Lists the addresses of interfaces that are up and running.
///
/// # Errors
/// The kernel does not tell.
pub fn addresses() -> Result<Vec<InterfaceAddress>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call writes one pointer, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(Error::new("listing network interfaces", std::io::Error::last_os_error()));
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the list is as getifaddrs made it: each entry is valid until freeifaddrs, and the
    // last one's `ifa_next` is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let wanted = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
        if entry.ifa_flags & wanted == wanted
            && let Some(ip) = ip(entry.ifa_addr)
        {
            // SAFETY: the name is a string that ends with a zero and lives as long as the list.
            let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
            let is_virtual = !std::path::Path::new("/sys/class/net").join(&name).join("device").exists();
            found.push(InterfaceAddress { name, ip, is_virtual });
        }
    }
    // SAFETY: frees what getifaddrs made; nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Gives the IP address in a socket address; `None` for other families.
fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: null, or a socket address of at least the common size; the family says which one it
    // is, and with it its size.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_them_where_it_is_up() {
        let up = std::net::UdpSocket::bind("127.0.0.1:0").is_ok_and(|s| s.connect("127.0.0.1:9").is_ok());
        let found = addresses().unwrap().into_iter().find(|a| a.ip == IpAddr::from([127, 0, 0, 1]));
        assert_eq!(found.map(|a| (a.name, a.is_virtual)), up.then(|| ("lo".to_owned(), true)));
    }
}
