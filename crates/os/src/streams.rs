//! How much lies in a stream socket.

use crate::Result;
use crate::error::check;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Gives the bytes that a reader of the socket finds at once (SIOCINQ).
pub fn unread_bytes(socket: BorrowedFd<'_>) -> Result<usize> {
    number(socket, libc::FIONREAD, "asking what waits in a socket")
}

/// Gives what lies in the socket's send buffer (SIOCOUTQ): of TCP the bytes that the peer has not
/// acknowledged, of a Unix socket the memory of all messages of which the peer has not read the
/// last byte (`unix_outq_len` in net/unix/af_unix.c).
pub fn unsent_bytes(socket: BorrowedFd<'_>) -> Result<usize> {
    number(socket, libc::TIOCOUTQ, "asking what a socket has not sent")
}

/// Memory of a socket, bytes, as socket(7) tells by SO_MEMINFO: the numbers SK_MEMINFO_* of
/// linux/sock_diag.h, in their order.
pub fn memory(socket: BorrowedFd<'_>) -> Result<[u32; MEMORY_NUMBERS]> {
    const SO_MEMINFO: i32 = 55;
    let mut numbers = [0u32; MEMORY_NUMBERS];
    let mut bytes = size_of_val(&numbers) as libc::socklen_t;
    let to = numbers.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most as many bytes as is said, and the numbers live here.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO, to, &raw mut bytes) };
    check(done, || "asking for the memory of a socket".into())?;
    Ok(numbers)
}

/// How many numbers the kernel tells of a socket's memory (SK_MEMINFO_VARS).
pub const MEMORY_NUMBERS: usize = 9;

fn number(socket: BorrowedFd<'_>, request: libc::Ioctl, doing: &str) -> Result<usize> {
    let mut number: libc::c_int = 0;
    // SAFETY: both requests write one int.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), request, &mut number) }, || doing.into())?;
    Ok(usize::try_from(number).unwrap_or(0))
}

/// Has a TCP socket acknowledge at once what it has received (tcp(7), TCP_QUICKACK). Of other
/// sockets nothing happens.
pub fn acknowledge(socket: BorrowedFd<'_>) {
    let on: libc::c_int = 1;
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option is one int, which lives here. Sockets of other families refuse it.
    unsafe {
        let on = std::ptr::from_ref(&on).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK, on, bytes);
    }
}

/// Lets the send buffer hold at least so many bytes, whatever net.core.wmem_max says (socket(7),
/// SO_SNDBUFFORCE; the kernel doubles the number). Needs CAP_NET_ADMIN for more than that limit.
pub fn force_send_buffer(socket: BorrowedFd<'_>, bytes: usize) -> Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 4);
    let set = |option| {
        // SAFETY: the option is one int, which lives here.
        unsafe {
            let bytes = std::ptr::from_ref(&bytes).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, bytes, size_of::<libc::c_int>() as u32)
        }
    };
    match set(libc::SO_SNDBUFFORCE) {
        0 => Ok(()),
        _ => check(set(libc::SO_SNDBUF), || "enlarging a send buffer".into()).map(drop),
    }
}

/// Tells whether this is a connected stream socket of TCP or of unix(7).
pub fn is_connected(socket: BorrowedFd<'_>) -> bool {
    use rustix::net::{AddressFamily, SocketType, getpeername, sockopt};
    let domain = sockopt::socket_domain(socket);
    let is_known = matches!(domain, Ok(AddressFamily::INET | AddressFamily::INET6 | AddressFamily::UNIX));
    let is_tcp = || sockopt::socket_protocol(socket).is_ok_and(|protocol| protocol == Some(rustix::net::ipproto::TCP));
    let is_unix = matches!(domain, Ok(AddressFamily::UNIX));
    is_known
        && sockopt::socket_type(socket).is_ok_and(|kind| kind == SocketType::STREAM)
        && (is_unix || is_tcp())
        && !sockopt::socket_acceptconn(socket).unwrap_or(true)
        && getpeername(socket).is_ok()
}

/// Tells whether the socket has no option that changes what its reader sees: SO_RCVLOWAT,
/// SO_PEEK_OFF, SO_PASSCRED, SO_PASSSEC, SO_OOBINLINE, SO_ZEROCOPY.
pub fn is_ordinary(socket: BorrowedFd<'_>) -> bool {
    const SO_PASSSEC: i32 = 34;
    const SO_ZEROCOPY: i32 = 60;
    let off = [libc::SO_PASSCRED, SO_PASSSEC, libc::SO_OOBINLINE, SO_ZEROCOPY];
    option(socket, libc::SO_RCVLOWAT).is_none_or(|bytes| bytes <= 1)
        && option(socket, libc::SO_PEEK_OFF).is_none_or(|offset| offset < 0)
        && off.into_iter().all(|name| option(socket, name).is_none_or(|value| value == 0))
}

/// Reads an option of a socket that is one number; `None` if it has no such option.
fn option(socket: BorrowedFd<'_>, name: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
    let to = (&raw mut value).cast();
    // SAFETY: the kernel writes at most one int, and its length.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, to, &raw mut bytes) };
    (done == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn memory_tells_what_waits() {
        let (mut from, to) = UnixStream::pair().unwrap();
        assert_eq!(memory(to.as_fd()).unwrap()[0], 0);
        from.write_all(&[1; 1000]).unwrap();
        let (sent, [.., limit, _, _, _, _, _]) = (memory(from.as_fd()).unwrap(), memory(from.as_fd()).unwrap());
        assert!(sent[2] >= 1000 && limit > 0 && unread_bytes(to.as_fd()).unwrap() == 1000, "{sent:?}");
        assert!(memory(std::io::stdin().as_fd()).is_err());
    }
}
