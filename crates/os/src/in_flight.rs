//! Descriptors on their way in messages of Unix sockets (SCM_RIGHTS in unix(7)): nobody's table has
//! them.

use crate::error::check;
use crate::opened::{self, FileId};
use crate::pairs::{self, Diagnosis};
use crate::pidfd::PidFd;
use crate::{Error, Result, process};
use std::collections::HashSet;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

/// So many messages are looked at in one socket.
const MESSAGES_MAX: usize = 4096;
/// So many descriptors are in one message (SCM_MAX_FD in net/scm.h).
const IN_ONE_MAX: usize = 253;
/// Room for them, and for what else a message may tell.
const CONTROL_BYTES: usize = 2048;
const BUFFER_BYTES: usize = 64 << 10;

/// Gives the Unix sockets of the network of process `pid` in which bytes wait: any of them may hold
/// descriptors.
pub fn waiting(pid: i32) -> Result<HashSet<FileId>> {
    let all = Diagnosis::of(pid)?.waiting()?;
    if all.is_empty() {
        return Ok(HashSet::new());
    }
    let any = UnixDatagram::unbound().map_err(|e| Error::new("making a socket", e))?;
    match opened::file_of(std::process::id() as i32, any.as_raw_fd())? {
        FileId::Inode { device, .. } => Ok(all.into_iter().map(|number| FileId::Inode { device, number }).collect()),
        FileId::Shown { .. } => Ok(HashSet::new()),
    }
}

/// Duplicates of the descriptors that wait in this socket of process `pid`, where they stay.
pub fn carried(pid: i32, fd: i32) -> Result<Vec<OwnedFd>> {
    let wanted = count(&process::fd_text(pid, fd)?);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let socket = PidFd::open(pid)?.get_fd(fd)?;
    pairs::peeking(std::os::fd::AsFd::as_fd(&socket), |socket| {
        let mut found = Vec::new();
        for _ in 0..MESSAGES_MAX {
            match peek(socket)? {
                Some(more) if found.len() < wanted => found.extend(more),
                _ => break,
            }
        }
        Ok(found)
    })
}

/// How many there are, as /proc/PID/fdinfo says.
fn count(text: &str) -> usize {
    let line = text.lines().find_map(|line| line.strip_prefix("scm_fds:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Those of the next message; `None`: there is none.
fn peek(socket: BorrowedFd<'_>) -> Result<Option<Vec<OwnedFd>>> {
    let (mut buffer, mut control) = (vec![0u8; BUFFER_BYTES], [0u64; CONTROL_BYTES / 8]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), CONTROL_BYTES);
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message names live buffers of the sizes that it says.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    match check(got, || "looking for descriptors in a socket".into()) {
        Ok(0) if message.msg_controllen == 0 => Ok(None),
        Ok(_) => Ok(Some(descriptors(&message))),
        Err(e) if e.errno() == libc::EAGAIN => Ok(None),
        Err(e) => Err(e),
    }
}

fn descriptors(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut found = Vec::new();
    // SAFETY: the kernel has filled the control buffer, which lives, and said how much of it.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while !head.is_null() {
            if ((*head).cmsg_level, (*head).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = (*head).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let first = libc::CMSG_DATA(head).cast::<i32>();
                for n in 0..(bytes / size_of::<i32>()).min(IN_ONE_MAX) {
                    // The kernel has just made these for this process.
                    found.push(OwnedFd::from_raw_fd(first.add(n).read_unaligned()));
                }
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn send(socket: &UnixStream, fd: BorrowedFd<'_>) {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(socket, &[std::io::IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
    }

    #[test]
    fn what_is_on_its_way_is_seen_and_stays_there() {
        let me = std::process::id() as i32;
        let (from, mut to) = UnixStream::pair().unwrap();
        let own = opened::file_of(me, to.as_raw_fd()).unwrap();
        assert!(!waiting(me).unwrap().contains(&own));
        let (read, write) = rustix::pipe::pipe().unwrap();
        send(&from, read.as_fd());
        send(&from, write.as_fd());
        assert!(waiting(me).unwrap().contains(&own));
        for _ in 0..2 {
            let seen = carried(me, to.as_raw_fd()).unwrap();
            let are: Vec<bool> = [&read, &write]
                .iter()
                .zip(&seen)
                .map(|(sent, seen)| process::same_file(me, sent.as_raw_fd(), seen.as_raw_fd()))
                .collect();
            assert_eq!(are, [true, true]);
        }
        let mut bytes = [0; 2];
        assert_eq!((to.read(&mut bytes).unwrap(), carried(me, to.as_raw_fd()).unwrap().len()), (1, 1));
    }
}
