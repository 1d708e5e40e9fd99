//! The sender of a packet, as the kernel names it at the moment of sending (SCM_CREDENTIALS and
//! SCM_PIDFD in unix(7)).
//!
//! SO_PEERCRED names the process that connected. That process can hand the socket to a child,
//! execute a set-user-ID program, or end. Therefore every grant to a process is made on a packet
//! that the process sent itself.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

/// Delivers a pidfd of the sender with each packet (Linux 6.5; asm-generic/socket.h).
const SO_PASSPIDFD: libc::c_int = 76;
/// The control message that carries the pidfd (linux/socket.h).
const SCM_PIDFD: libc::c_int = 4;
/// The most descriptors that are taken with a packet.
const DESCRIPTORS_MAX: usize = 8;
/// Words for credentials, a pidfd and [`DESCRIPTORS_MAX`] descriptors, each with its header and
/// padding.
const CONTROL_WORDS: usize = 24;

/// The process that sent a packet.
#[derive(Debug)]
pub struct Sender {
    /// Process id in the receiver's PID namespace; 0 if the process is not there, or was not known
    /// when it sent.
    pub pid: i32,
    /// Real user id.
    pub uid: u32,
    /// Real group id.
    pub gid: u32,
    /// A pidfd of the process, if the kernel can deliver one (see [`name_senders`]) and the process
    /// had not ended.
    pub pidfd: Option<OwnedFd>,
}

/// A packet with the process that sent it.
#[derive(Debug)]
pub struct FromSender {
    /// Bytes that the packet fills of the buffer; 0 if the other end has closed.
    pub bytes: usize,
    /// Sender of the packet; `None` at the end of file, or on a socket that does not name senders.
    pub sender: Option<Sender>,
    /// Descriptors that came along, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}

/// How the kernel names senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// By process id, user and group.
    ByNumber,
    /// Also by a pidfd, if the kernel supports that.
    ByPidfd,
}

/// Has the kernel name the sender of every packet that `socket` (or, if it listens, a socket
/// accepted from it) receives. Packets sent earlier name no sender.
///
/// # Errors
/// Those of setsockopt(2). A kernel without SO_PASSPIDFD is no error.
pub fn name_senders(socket: impl AsFd, naming: Naming) -> io::Result<()> {
    let set = |option: libc::c_int, on: bool| {
        let on = libc::c_int::from(on);
        // SAFETY: the kernel reads one int that lives over the call.
        let done = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    set(libc::SO_PASSCRED, true)?;
    set(SO_PASSPIDFD, naming == Naming::ByPidfd).or_else(|e| match e.raw_os_error() {
        Some(libc::ENOPROTOOPT) => Ok(()),
        _ => Err(e),
    })
}

/// Receives one packet into `buffer`. `flags` are those of recv(2).
///
/// # Errors
/// Those of recvmsg(2); `InvalidData` if the packet is larger than the buffer or brings more
/// descriptors than are taken.
pub fn receive_from(socket: impl AsFd, buffer: &mut [u8], flags: i32) -> io::Result<FromSender> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = [IoSliceMut::new(buffer)];
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = part.as_mut_ptr().cast();
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let bytes = loop {
        // SAFETY: the message points to live memory of the stated sizes.
        match unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC | flags) } {
            n @ 0.. => break n as usize,
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => continue,
                e => return Err(e),
            },
        }
    };
    let (sender, descriptors) = understood(&message);
    if message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 || descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "packet is larger than allowed"));
    }
    // An end of file has no sender, whatever the kernel puts there.
    Ok(FromSender { bytes, sender: sender.filter(|_| bytes > 0), descriptors })
}

/// Interprets the control messages of a packet.
fn understood(message: &libc::msghdr) -> (Option<Sender>, Vec<OwnedFd>) {
    let (mut sender, mut pidfd, mut descriptors) = (None, None, Vec::new());
    // SAFETY: walks the control messages that the kernel wrote into a live buffer; each descriptor
    // in them is ours alone.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while !head.is_null() {
            let data = libc::CMSG_DATA(head);
            let bytes = (*head).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            match ((*head).cmsg_level, (*head).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    let count = bytes / size_of::<RawFd>();
                    let fd = |n| OwnedFd::from_raw_fd(data.cast::<RawFd>().add(n).read_unaligned());
                    descriptors.extend((0..count).map(fd));
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if bytes >= size_of::<libc::ucred>() => {
                    let who = data.cast::<libc::ucred>().read_unaligned();
                    sender = Some(Sender { pid: who.pid, uid: who.uid, gid: who.gid, pidfd: None });
                }
                (libc::SOL_SOCKET, SCM_PIDFD) if bytes >= size_of::<RawFd>() => {
                    // The number is negative if the process had ended.
                    let fd = data.cast::<RawFd>().read_unaligned();
                    pidfd = (fd >= 0).then(|| OwnedFd::from_raw_fd(fd));
                }
                _ => {}
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
    (sender.map(|sender| Sender { pidfd, ..sender }), descriptors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_is_who_sends() {
        let (ours, theirs) = crate::pair().unwrap();
        name_senders(&ours, Naming::ByPidfd).unwrap();
        // SAFETY: the child makes one system call and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; the socket is open, the byte lives.
            unsafe {
                libc::send(theirs.as_raw_fd(), [1u8].as_ptr().cast(), 1, 0);
                libc::_exit(0);
            }
        }
        let mut buffer = [0; 8];
        let received = receive_from(&ours, &mut buffer, 0).unwrap();
        let sender = received.sender.unwrap();
        assert_eq!((received.bytes, sender.pid), (1, child));
        // SAFETY: plain calls.
        assert_eq!((sender.uid, sender.gid), unsafe { (libc::getuid(), libc::getgid()) });
        // SAFETY: reaps the child of this test.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        drop(theirs);
        let end = receive_from(&ours, &mut buffer, 0).unwrap();
        assert!(end.bytes == 0 && end.sender.is_none());
    }

    #[test]
    fn descriptors_and_credentials_come_together() {
        let (ours, theirs) = crate::pair().unwrap();
        name_senders(&ours, Naming::ByPidfd).unwrap();
        crate::send(&theirs, b"x", &[theirs.as_fd(), theirs.as_fd(), theirs.as_fd(), theirs.as_fd()]).unwrap();
        let received = receive_from(&ours, &mut [0; 8], 0).unwrap();
        assert_eq!(received.descriptors.len(), 4);
        assert_eq!(received.sender.unwrap().pid, std::process::id() as i32);
        crate::send(&theirs, &[0; 9], &[]).unwrap();
        assert_eq!(receive_from(&ours, &mut [0; 8], 0).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
