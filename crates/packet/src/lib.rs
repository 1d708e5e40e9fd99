//! SOCK_SEQPACKET over Unix sockets: one send is one receive, descriptors come along (unix(7), SCM_RIGHTS), the kernel says who asks.

mod sender;

pub use sender::{FromSender, Naming, Sender, name_senders, receive_from};

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sockopt,
};

/// Most descriptors in one packet.
pub const DESCRIPTORS_MAX: usize = 4;

/// Who is at the other end of a socket, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process; 0: one that this process' PID namespace does not show.
    pub pid: i32,
    /// Effective user.
    pub uid: u32,
}

/// A packet as received.
#[derive(Debug)]
pub struct Packet {
    /// Its bytes, at most as many as were asked for. Empty: the other end has closed (or sent nothing).
    pub bytes: Vec<u8>,
    /// Descriptors, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}

/// Listens at `path` with these permission bits; an old socket there is replaced. Accepted sockets name the senders of packets
/// ([`receive_from`]).
///
/// # Errors
/// As socket(2), bind(2), listen(2).
pub fn listen(path: &Path, mode: u32, backlog: i32) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Before listen: else the first packets would name nobody.
    name_senders(&socket, Naming::ByPidfd)?;
    // Between bind and chmod nobody can connect: listen comes last.
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(mode))?;
    rustix::net::listen(&socket, backlog)?;
    Ok(socket)
}

/// Waits for a connection.
///
/// # Errors
/// As accept(2).
pub fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::retry_on_intr(|| rustix::net::accept_with(listener.as_fd(), SocketFlags::CLOEXEC))?)
}

/// Connects to the socket at `path`.
///
/// # Errors
/// As connect(2): `NotFound` and `ConnectionRefused` mean that nobody serves it.
pub fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// As [`connect`], bounded; so are later sends and receives on the socket ([`set_timeout`]).
///
/// # Errors
/// As connect(2); `WouldBlock`: somebody serves it, and has so many waiting that none more is taken.
pub fn connect_within(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_timeout(&socket, Some(timeout))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// A connected pair.
///
/// # Errors
/// As socketpair(2).
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Bounds every later send and receive on `socket`: beyond, they fail with `WouldBlock`.
///
/// # Errors
/// As setsockopt(2).
pub fn set_timeout(socket: impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, timeout)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, timeout)?;
    Ok(())
}

/// Who is at the other end (SO_PEERCRED).
///
/// # Errors
/// As getsockopt(2).
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    // Not by rustix, which takes a PID of 0 for an error.
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `credentials` is writable for `length` bytes, which the kernel does not exceed; both live over the call.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    match done {
        0 => Ok(Peer { pid: credentials.pid, uid: credentials.uid }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends one packet.
///
/// # Errors
/// As sendmsg(2), without SIGPIPE; `InvalidInput` for more than [`DESCRIPTORS_MAX`] descriptors.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = descriptors.len() <= DESCRIPTORS_MAX;
    if !fits || (!descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors))) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one packet"));
    }
    let sent = rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket.as_fd(), &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
    })?;
    if sent == bytes.len() { Ok(()) } else { Err(io::Error::other("packet was cut")) }
}

/// Receives one packet of at most `limit` bytes.
///
/// # Errors
/// As recvmsg(2); `InvalidData` if the packet or its descriptors were larger than allowed.
pub fn receive(socket: impl AsFd, limit: usize) -> io::Result<Packet> {
    // Most are far smaller than they may be.
    let none: &mut [u8] = &mut [];
    let (_, waiting) = rustix::io::retry_on_intr(|| {
        rustix::net::recv(socket.as_fd(), &mut *none, RecvFlags::PEEK | RecvFlags::TRUNC)
    })?;
    let mut bytes = vec![0; waiting.min(limit)];
    // Whether the socket names senders or not.
    let received = receive_from(socket, &mut bytes, 0)?;
    if received.descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "packet is larger than allowed"));
    }
    bytes.truncate(received.bytes);
    Ok(Packet { bytes, descriptors: received.descriptors })
}
