//! Packets with descriptors over Unix sockets (unix(7), SOCK_SEQPACKET).

use crate::error::check;
use crate::{Error, Result};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// The most descriptors that come with one packet.
pub const FDS_MAX: usize = 8;

/// Makes a connected pair, close-on-exec.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    check(
        // SAFETY: two descriptors are written into an array of two.
        unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr()) },
        || "socketpair".into(),
    )?;
    // SAFETY: the kernel just made both for us.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Makes a listening socket at `path`, mode 0600; an old one there is replaced.
pub fn listen(path: &Path) -> Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    let failed = |e| Error::new(format!("listening on {}", path.display()), e);
    let _ = std::fs::remove_file(path);
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(failed)?;
    // The directory is 0700 and root's; the mode is a second lock.
    bind(&socket, &SocketAddrUnix::new(path).map_err(failed)?).map_err(failed)?;
    rustix::fs::chmod(path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).map_err(failed)?;
    listen(&socket, 128).map_err(failed)?;
    Ok(socket)
}

/// Takes the next connection.
pub fn accept(listener: BorrowedFd<'_>) -> Result<OwnedFd> {
    rustix::net::accept_with(listener, rustix::net::SocketFlags::CLOEXEC)
        .map_err(|e| Error::new("accepting a connection", e))
}

/// Connects to the listening socket at `path`.
pub fn connect(path: &Path) -> Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let failed = |e| Error::new(format!("connecting to {}", path.display()), e);
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(failed)?;
    connect(&socket, &SocketAddrUnix::new(path).map_err(failed)?).map_err(failed)?;
    Ok(socket)
}

/// Sends one packet made of `parts`, with `fds`. `flags` are send(2)'s.
pub fn send(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>], fds: &[BorrowedFd<'_>], flags: i32) -> Result<()> {
    let mut control = [0u64; (16 + 4 * FDS_MAX).div_ceil(8) + 1];
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len();
    if !fds.is_empty() {
        let fds: Vec<RawFd> = fds.iter().take(FDS_MAX).map(AsRawFd::as_raw_fd).collect();
        let bytes = size_of_val(fds.as_slice());
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the control buffer has room for one header and FDS_MAX descriptors; CMSG_FIRSTHDR
        // points into it.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(bytes as u32) as usize;
            let head = libc::CMSG_FIRSTHDR(&message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(bytes as u32) as usize;
            std::ptr::copy_nonoverlapping(fds.as_ptr().cast::<u8>(), libc::CMSG_DATA(head), bytes);
        }
    }
    loop {
        // SAFETY: the message points to live memory.
        match check(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL | flags) }, || {
            "sending a packet".into()
        }) {
            Err(e) if e.errno() == libc::EINTR => continue,
            other => return other.map(drop),
        }
    }
}

/// Receives one packet of at most `limit` bytes (none: the other end is closed), and the
/// descriptors that came with it.
pub fn receive_whole(socket: BorrowedFd<'_>, limit: usize) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
    use rustix::net::{RecvFlags, recv};
    let none: &mut [u8] = &mut [];
    let waiting = rustix::io::retry_on_intr(|| recv(socket, &mut *none, RecvFlags::PEEK | RecvFlags::TRUNC));
    let (_, bytes) = waiting.map_err(|e| Error::new("waiting for a packet", e))?;
    let mut packet = vec![0; bytes.min(limit)];
    let (n, fds) = receive(socket, &mut packet, 0)?;
    packet.truncate(n);
    Ok((packet, fds))
}

/// Receives one packet into `buffer`: its length (0: the other end is closed) and the descriptors
/// that came with it. A packet larger than the buffer is an error. `flags` are recv(2)'s.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], flags: i32) -> Result<(usize, Vec<OwnedFd>)> {
    let mut control = [0u64; (16 + 4 * FDS_MAX).div_ceil(8) + 1];
    let mut iov = [IoSliceMut::new(buffer)];
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = iov.as_mut_ptr().cast();
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let n = loop {
        // SAFETY: the message points to live memory.
        match check(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC | flags) }, || {
            "receiving a packet".into()
        }) {
            Err(e) if e.errno() == libc::EINTR => continue,
            other => break other? as usize,
        }
    };
    let fds = received_fds(&message);
    if message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
        return Err(Error::new("receiving a packet", std::io::Error::from_raw_os_error(libc::EMSGSIZE)));
    }
    Ok((n, fds))
}

fn received_fds(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: walks the control messages that the kernel wrote; each descriptor in them is ours
    // alone.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while !head.is_null() {
            if (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SCM_RIGHTS {
                let count = ((*head).cmsg_len - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
                let data = libc::CMSG_DATA(head).cast::<RawFd>();
                fds.extend((0..count).map(|i| OwnedFd::from_raw_fd(data.add(i).read_unaligned())));
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
    fds
}

/// Who is at the other end of a Unix socket: PID, user, group, as they were when it connected
/// (SO_PEERCRED).
pub fn peer(socket: impl AsFd) -> Result<(i32, u32, u32)> {
    // SAFETY: all zero is a valid ucred.
    let mut who: libc::ucred = unsafe { std::mem::zeroed() };
    let mut bytes = size_of::<libc::ucred>() as u32;
    let fd = socket.as_fd().as_raw_fd();
    check(
        // SAFETY: the kernel writes at most `bytes` into `who`.
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut who).cast(), &mut bytes) },
        || "asking who is at the other end".into(),
    )?;
    Ok((who.pid, who.uid, who.gid))
}
