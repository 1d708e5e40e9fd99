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

fn number(socket: BorrowedFd<'_>, request: libc::Ioctl, doing: &str) -> Result<usize> {
    let mut number: libc::c_int = 0;
    // SAFETY: both requests write one int.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), request, &mut number) }, || doing.into())?;
    Ok(usize::try_from(number).unwrap_or(0))
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
