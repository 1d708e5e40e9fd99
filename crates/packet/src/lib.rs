//! SOCK_SEQPACKET over Unix sockets: one send is one receive, descriptors may travel along
//! (unix(7), SCM_RIGHTS), and the kernel tells who sent.

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

/// The most descriptors in one packet.
pub const DESCRIPTORS_MAX: usize = 4;

/// The process at the other end of a socket, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id; 0 if this process' PID namespace does not show the process.
    pub pid: i32,
    /// Effective user id.
    pub uid: u32,
}

/// A packet as received.
#[derive(Debug)]
pub struct Packet {
    /// Content, at most as many bytes as were asked for. Empty if the other end has closed or sent
    /// nothing.
    pub bytes: Vec<u8>,
    /// Descriptors that came along, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}

/// Listens at `path` with these permission bits; an old socket there is replaced. Accepted sockets
/// name the senders of packets ([`receive_from`]).
///
/// # Errors
/// Those of socket(2), bind(2) and listen(2).
pub fn listen(path: &Path, mode: u32, backlog: i32) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Before listen(2): otherwise the first packets would not name their senders.
    name_senders(&socket, Naming::ByPidfd)?;
    // Nobody can connect between bind(2) and chmod(2), because listen(2) comes last.
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(mode))?;
    rustix::net::listen(&socket, backlog)?;
    Ok(socket)
}

/// Waits for a connection.
///
/// # Errors
/// Those of accept(2).
pub fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::retry_on_intr(|| rustix::net::accept_with(listener.as_fd(), SocketFlags::CLOEXEC))?)
}

/// Connects to the socket at `path`.
///
/// # Errors
/// Those of connect(2): `NotFound` and `ConnectionRefused` mean that nobody serves it.
pub fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Connects within a time, which then also bounds later sends and receives on the socket
/// ([`set_timeout`]).
///
/// # Errors
/// Those of connect(2); `WouldBlock` if a process serves the socket but its backlog is full.
pub fn connect_within(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_timeout(&socket, Some(timeout))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Creates a connected pair.
///
/// # Errors
/// Those of socketpair(2).
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Bounds every later send and receive on `socket`; after that time they fail with `WouldBlock`.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_timeout(socket: impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, timeout)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, timeout)?;
    Ok(())
}

/// Reads which process is at the other end (SO_PEERCRED).
///
/// # Errors
/// Those of getsockopt(2).
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    // rustix takes a PID of 0 for an error, so this calls libc.
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `credentials` is writable for `length` bytes, which the kernel does not exceed; both
    // live over the call.
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
/// Those of sendmsg(2), without SIGPIPE; `InvalidInput` for more than [`DESCRIPTORS_MAX`]
/// descriptors.
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
/// Those of recvmsg(2); `InvalidData` if the packet or its descriptors exceed the limits.
pub fn receive(socket: impl AsFd, limit: usize) -> io::Result<Packet> {
    // Most packets are far smaller than the limit, so ask for the size first.
    let none: &mut [u8] = &mut [];
    let (_, waiting) = rustix::io::retry_on_intr(|| {
        rustix::net::recv(socket.as_fd(), &mut *none, RecvFlags::PEEK | RecvFlags::TRUNC)
    })?;
    let mut bytes = vec![0; waiting.min(limit)];
    // Works whether the socket names senders or not.
    let received = receive_from(socket, &mut bytes, 0)?;
    if received.descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "packet is larger than allowed"));
    }
    bytes.truncate(received.bytes);
    Ok(Packet { bytes, descriptors: received.descriptors })
}
