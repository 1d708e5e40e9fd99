//! Netlink sockets (netlink(7)).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::error::{Error, Result};
use crate::parse::netlink::{Part, parts};

/// A part of the kernel that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// All sockets (sock_diag(7)).
    Sockets,
    /// Links and disciplines (rtnetlink(7)).
    Route,
    /// Families with names, such as ethtool.
    Generic,
}

impl Subject {
    fn protocol(self) -> Option<Protocol> {
        match self {
            Subject::Sockets => Some(rustix::net::netlink::SOCK_DIAG),
            Subject::Route => None,
            Subject::Generic => Some(rustix::net::netlink::GENERIC),
        }
    }
}

/// Longer datagrams are not sent by the kernel.
const DATAGRAM_BYTES: usize = 64 << 10;

/// A netlink socket. The kernel answers while a question is sent, so no call waits.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket in the network namespace of the calling thread.
    pub fn open(subject: Subject) -> Result<Netlink> {
        let failed = |errno: rustix::io::Errno| Error::new(format!("ask the kernel ({subject:?})"), errno);
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, subject.protocol())
                .map_err(failed)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0)).map_err(failed)?;
        Ok(Netlink { socket, buffer: vec![0; DATAGRAM_BYTES] })
    }

    /// Opens a socket in the network namespace of a process.
    pub fn open_in(subject: Subject, pid: i32) -> Result<Netlink> {
        let path = format!("/proc/{pid}/ns/net");
        let namespace = File::open(&path).map_err(|e| Error::new(format!("open {path}"), e))?;
        // A namespace is a thread's: the thread ends afterwards.
        let opened = std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .map_err(|e| Error::new(format!("enter the network of process {pid}"), e))?;
                Netlink::open(subject)
            });
            inside.join()
        });
        opened.unwrap_or_else(|_| Err(Error::new("enter another network", io::ErrorKind::Other)))
    }

    /// Asks, and calls `take` with the type and content of each message of the answer. The answer
    /// of a dump ends with a message that says so; any other one is one message.
    pub fn ask(&mut self, request: &[u8], is_dump: bool, mut take: impl FnMut(&[u8])) -> Result<()> {
        let failed = |errno: rustix::io::Errno| Error::new("ask the kernel by netlink", errno);
        rustix::net::send(&self.socket, request, SendFlags::empty()).map_err(failed)?;
        loop {
            let (length, _) =
                rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()).map_err(failed)?;
            if length == 0 {
                return Ok(());
            }
            for part in parts(self.buffer.get(..length).unwrap_or_default()) {
                match part {
                    Part::Done | Part::Refused { errno: 0, .. } => return Ok(()),
                    Part::Refused { errno, .. } => {
                        return Err(Error::new("ask the kernel by netlink", io::Error::from_raw_os_error(errno)));
                    }
                    Part::Message { body, .. } => take(body),
                }
            }
            if !is_dump {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::route;

    #[test]
    fn loopback_has_a_link() {
        let mut netlink = Netlink::open(Subject::Route).unwrap();
        let mut found = None;
        netlink.ask(&route::link("lo", 1), false, |body| found = route::read_link(body)).unwrap();
        assert_eq!(found.map(|link| link.name), Some("lo".into()));
        let absent = netlink.ask(&route::link("nosuchlink0", 2), false, |_| {}).unwrap_err();
        assert!(absent.is_absent(), "{absent}");
    }
}
