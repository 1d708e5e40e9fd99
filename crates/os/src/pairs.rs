//! Pairs of connected Unix sockets (socketpair(2), unix(7)): what an end is, is set to and holds,
//! looked at without taking anything; and giving the same to another.

use crate::error::check;
use crate::{Error, Result};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What the kernel tells of Unix sockets (sock_diag(7)), of one network namespace.
#[derive(Debug)]
pub struct Diagnosis(OwnedFd);

/// What it tells of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Inode number of the one that it is connected to, if that is open.
    pub peer: Option<u64>,
    /// Directions that are shut down: [`NO_MORE_COMES`], [`NO_MORE_GOES`].
    pub shut: u8,
    /// Bytes that wait in it, if that was asked; of datagrams, those of the first.
    pub waiting_bytes: u32,
}

/// Nothing more is received (RCV_SHUTDOWN in include/net/sock.h).
pub const NO_MORE_COMES: u8 = 1;
/// Nothing more is sent (SEND_SHUTDOWN in include/net/sock.h).
pub const NO_MORE_GOES: u8 = 2;

/// The question for sockets of a family (linux/sock_diag.h).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `struct nlmsghdr` (linux/netlink.h).
const HEAD_BYTES: usize = 16;
/// `struct unix_diag_msg` (linux/unix_diag.h).
const TOLD_BYTES: usize = 16;
/// What the answer shows: UDIAG_SHOW_PEER and UDIAG_SHOW_RQLEN.
const SHOW_PEER: u32 = 4;
const SHOW_LENGTHS: u32 = 0x10;

impl Diagnosis {
    /// Of the network namespace of this process.
    pub fn of(pid: i32) -> Result<Diagnosis> {
        let path = format!("/proc/{pid}/ns/net");
        let namespace = File::open(&path).map_err(|e| Error::new(format!("opening {path}"), e))?;
        // The namespace of a thread that ends at once.
        let made = std::thread::scope(|scope| scope.spawn(|| socket_in(&namespace)).join());
        made.unwrap_or_else(|_| Err(Error::new("making a socket in another network", std::io::ErrorKind::Other)))
    }

    /// Of the socket with this inode number.
    pub fn ask(&self, inode: u64) -> Result<Told> {
        let doing = || format!("asking for socket {inode}");
        let odd = || Error::new(doing(), std::io::ErrorKind::InvalidData);
        let request = request(u32::try_from(inode).map_err(|_| odd())?, SHOW_PEER);
        // SAFETY: the request lives for the call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
        check(sent, doing)?;
        let mut answer = [0u8; 1024];
        // SAFETY: the buffer lives for the call, and is as long as is said.
        let got = unsafe { libc::recv(self.0.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        let answer = answer.get(..check(got, doing)? as usize).unwrap_or_default();
        let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
        match word(4).map(|word| word as u16) {
            Some(SOCK_DIAG_BY_FAMILY) if word(HEAD_BYTES + 4).map(u64::from) == Some(inode) => {
                Ok(parse(answer.get(HEAD_BYTES + TOLD_BYTES..).ok_or_else(odd)?))
            }
            Some(kind) if i32::from(kind) == libc::NLMSG_ERROR => {
                let errno = word(HEAD_BYTES).map_or(libc::EIO, |word| -(word as i32));
                Err(Error::new(doing(), std::io::Error::from_raw_os_error(errno)))
            }
            _ => Err(odd()),
        }
    }

    /// Inode numbers of all sockets in which bytes wait.
    pub fn waiting(&self) -> Result<Vec<u64>> {
        const ANSWER_BYTES: usize = 32 << 10;
        const DOING: &str = "asking in which sockets bytes wait";
        let request = request(0, SHOW_LENGTHS);
        // SAFETY: the request lives for the call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
        check(sent, || DOING.into())?;
        let (mut answer, mut found) = (vec![0u8; ANSWER_BYTES], Vec::new());
        loop {
            // SAFETY: the buffer lives for the call, and is as long as is said.
            let got = unsafe { libc::recv(self.0.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
            let mut rest = answer.get(..check(got, || DOING.into())? as usize).unwrap_or_default();
            if rest.is_empty() {
                return Ok(found);
            }
            while let Some((kind, message)) = next(&mut rest) {
                match kind {
                    libc::NLMSG_DONE => return Ok(found),
                    libc::NLMSG_ERROR => return Err(Error::new(DOING, std::io::ErrorKind::Unsupported)),
                    _ => found.extend(in_which_bytes_wait(message)),
                }
            }
        }
    }
}

fn socket_in(namespace: &File) -> Result<Diagnosis> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    use std::os::fd::AsFd;
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), network).map_err(|e| Error::new("entering a network", e))?;
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: returns a new descriptor.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) };
    let fd = check(fd, || "making a socket for what the kernel tells of sockets".into())?;
    // SAFETY: the kernel just made it for us.
    Ok(Diagnosis(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// `struct unix_diag_req` behind its head: what to show of the socket with this inode number, or
/// (0) of all.
fn request(inode: u32, show: u32) -> Vec<u8> {
    const ANY: u32 = u32::MAX;
    let length = (HEAD_BYTES + 24) as u32;
    let flags = libc::NLM_F_REQUEST | if inode == 0 { libc::NLM_F_DUMP } else { 0 };
    let mut bytes = length.to_ne_bytes().to_vec();
    [SOCK_DIAG_BY_FAMILY, flags as u16].iter().for_each(|half| bytes.extend(half.to_ne_bytes()));
    let family = u32::from_ne_bytes([libc::AF_UNIX as u8, 0, 0, 0]);
    [0, 0, family, ANY, inode, show, ANY, ANY].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    bytes
}

/// One answer of several: its kind, and what is behind its head.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(i32, &'a [u8])> {
    let word = |at: usize| Some(u32::from_ne_bytes(rest.get(at..at + 4)?.try_into().ok()?));
    let (length, kind) = (word(0)? as usize, word(4)? as u16);
    let message = rest.get(HEAD_BYTES..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((i32::from(kind), message))
}

/// Gives the inode number of a socket in which bytes wait, by its answer (`struct unix_diag_msg`
/// and attributes).
fn in_which_bytes_wait(message: &[u8]) -> Option<u64> {
    const STATE_AT: usize = 2;
    const LISTENS: u8 = 10;
    const INODE_AT: usize = 4;
    let inode = u32::from_ne_bytes(message.get(INODE_AT..INODE_AT + 4)?.try_into().ok()?);
    let waits = parse(message.get(TOLD_BYTES..)?).waiting_bytes > 0 && message.get(STATE_AT) != Some(&LISTENS);
    (waits && inode != 0).then_some(inode.into())
}

/// Attributes (linux/netlink.h, `struct nlattr`).
fn parse(mut rest: &[u8]) -> Told {
    const PEER: u16 = 2;
    const LENGTHS: u16 = 4;
    const SHUTDOWN: u16 = 6;
    let mut told = Told { peer: None, shut: 0, waiting_bytes: 0 };
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(value) = rest.get(4..length) else { break };
        match (u16::from_ne_bytes([c, d]), value) {
            (PEER, &[a, b, c, d]) => {
                told.peer = Some(u64::from(u32::from_ne_bytes([a, b, c, d]))).filter(|inode| *inode != 0);
            }
            (LENGTHS, &[a, b, c, d, ..]) => told.waiting_bytes = u32::from_ne_bytes([a, b, c, d]),
            (SHUTDOWN, &[shut, ..]) => told.shut = shut,
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    told
}

/// Options of a socket (socket(7), unix(7)), by their numbers, in the order in which they are told
/// and set: all that can be read and set again. Sizes of buffers are set as half of what is read.
const OPTIONS: &[libc::c_int] = &[
    libc::SO_SNDBUF,
    libc::SO_RCVBUF,
    libc::SO_RCVTIMEO,
    libc::SO_SNDTIMEO,
    libc::SO_PASSCRED,
    libc::SO_PASSSEC,
    SO_PASSPIDFD,
    libc::SO_PEEK_OFF,
    libc::SO_RCVLOWAT,
    libc::SO_LINGER,
    libc::SO_KEEPALIVE,
    libc::SO_REUSEADDR,
    libc::SO_BROADCAST,
    libc::SO_DONTROUTE,
    libc::SO_OOBINLINE,
    libc::SO_TIMESTAMP,
    libc::SO_TIMESTAMPNS,
    libc::SO_PRIORITY,
    libc::SO_MARK,
];
/// The option, of asm-generic/socket.h.
const SO_PASSPIDFD: libc::c_int = 76;
/// Those with which each message tells who sent it.
const TELLING: [libc::c_int; 3] = [libc::SO_PASSCRED, libc::SO_PASSSEC, SO_PASSPIDFD];
const VALUE_BYTES_MAX: usize = 16;

/// Tells what a socket's options are set to (socket(7), unix(7)), all that can be set again;
/// nothing for those that this kernel does not know.
pub fn options(socket: BorrowedFd<'_>) -> Vec<Vec<u8>> {
    OPTIONS.iter().map(|name| option(socket, *name).unwrap_or_default()).collect()
}

fn option(socket: BorrowedFd<'_>, name: libc::c_int) -> Result<Vec<u8>> {
    let mut value = vec![0u8; VALUE_BYTES_MAX];
    let mut length = VALUE_BYTES_MAX as libc::socklen_t;
    // SAFETY: the buffer is as long as is said.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    check(done, || format!("asking for option {name} of a socket"))?;
    value.truncate(length as usize);
    Ok(value)
}

fn set_option(socket: BorrowedFd<'_>, name: libc::c_int, value: &[u8]) -> Result<()> {
    let length = value.len() as libc::socklen_t;
    // SAFETY: the value lives for the call, and is as long as is said.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value.as_ptr().cast(), length) };
    check(done, || format!("setting option {name} of a socket")).map(drop)
}

/// Sets what differs from what was told ([`options`]).
pub fn set_options(socket: BorrowedFd<'_>, told: &[Vec<u8>]) -> Result<()> {
    for (name, value) in OPTIONS.iter().zip(told) {
        if value.is_empty() || option(socket, *name).is_ok_and(|now| now == *value) {
            continue;
        }
        match *name {
            // Not beyond the limit: who tells it may be anybody.
            libc::SO_SNDBUF | libc::SO_RCVBUF => set_size(socket, *name, value)?,
            name => set_option(socket, name, value)?,
        }
    }
    Ok(())
}

/// The kernel doubles what it is told.
fn set_size(socket: BorrowedFd<'_>, name: libc::c_int, doubled: &[u8]) -> Result<()> {
    let Ok(word) = doubled.try_into() else { return Ok(()) };
    set_option(socket, name, &(i32::from_ne_bytes(word) / 2).to_ne_bytes())
}

/// Beyond its limit, it takes it from the superuser alone.
fn set_size_at_will(socket: BorrowedFd<'_>, doubled: &[u8]) -> Result<()> {
    set_size(socket, libc::SO_SNDBUFFORCE, doubled).or_else(|_| set_size(socket, libc::SO_SNDBUF, doubled))
}

/// Tells whether any of these values ([`options`]) is a time limit.
pub fn has_time_limit(told: &[Vec<u8>]) -> bool {
    let is_limit = |name| matches!(name, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO);
    OPTIONS.iter().zip(told).any(|(name, value)| is_limit(*name) && value.iter().any(|byte| *byte != 0))
}

/// SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET.
pub fn kind(socket: BorrowedFd<'_>) -> Result<i32> {
    let value = option(socket, libc::SO_TYPE)?;
    let odd = || Error::new("asking for the kind of a socket", std::io::ErrorKind::InvalidData);
    Ok(i32::from_ne_bytes(value.as_slice().try_into().map_err(|_| odd())?))
}

/// Number of the process that made the pair (SO_PEERCRED).
pub fn maker(socket: BorrowedFd<'_>) -> Option<i32> {
    let value = option(socket, libc::SO_PEERCRED).ok()?;
    Some(i32::from_ne_bytes(value.get(..4)?.try_into().ok()?))
}

/// Tells whether a filter (SO_ATTACH_FILTER) looks at what comes.
pub fn is_filtered(socket: BorrowedFd<'_>) -> bool {
    let mut length = 0 as libc::socklen_t;
    // SAFETY: without a buffer the kernel says how many instructions there are.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_GET_FILTER,
            std::ptr::null_mut(),
            &raw mut length,
        )
    };
    done == 0 && length > 0 || done < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EACCES)
}

/// So many messages can be told of a socket: each takes a kilobyte of the kernel's.
pub const MESSAGES_MAX: usize = 4096;

/// What was sent to a socket and not received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Its messages; of a stream, one.
    Known(Vec<Vec<u8>>),
    /// An empty message is among them. The kernel marks it when it is looked at, and does not show
    /// it again.
    Empty,
    /// It cannot be told, in words.
    Odd(&'static str),
}

/// Reads what waits in a socket of this kind (SOCK_), at most `bytes_max` bytes, and leaves it
/// there. `shut`: the directions that are shut down. A socket that is no stream must have no
/// pending error, which this would take.
pub fn waiting(socket: BorrowedFd<'_>, kind: i32, shut: u8, bytes_max: usize) -> Result<Waiting> {
    if crate::fds::ready(socket) & libc::POLLPRI as u16 != 0 {
        return Ok(Waiting::Odd("holds a byte that was sent out of band"));
    }
    let tells = TELLING.iter().any(|name| option(socket, *name).is_ok_and(|value| value.iter().any(|b| *b != 0)));
    let mut seen = Seen { messages: Vec::new(), bytes: 0, bytes_max, tells };
    let found = peeking(socket, |socket| match kind {
        libc::SOCK_STREAM => seen.stream(socket),
        // Behind the last message of these the kernel says zero, as it says of an empty one.
        kind => seen.messages(socket, kind == libc::SOCK_SEQPACKET && shut & NO_MORE_COMES != 0),
    })?;
    Ok(found.unwrap_or(Waiting::Known(seen.messages)))
}

/// Has `look` see message after message of a socket (MSG_PEEK), which keeps them.
pub(crate) fn peeking<T>(socket: BorrowedFd<'_>, look: impl FnOnce(BorrowedFd<'_>) -> Result<T>) -> Result<T> {
    let before = option(socket, libc::SO_PEEK_OFF)?;
    set_option(socket, libc::SO_PEEK_OFF, &0i32.to_ne_bytes())?;
    let found = look(socket);
    set_option(socket, libc::SO_PEEK_OFF, &before)?;
    found
}

struct Seen {
    messages: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
    /// Each message tells who sent it.
    tells: bool,
}

impl Seen {
    /// No further than to the last byte: behind it an error is told once.
    fn stream(&mut self, socket: BorrowedFd<'_>) -> Result<Option<Waiting>> {
        let failed = |e| Error::new("asking how much waits in a socket", e);
        let all = rustix::io::ioctl_fionread(socket).map_err(failed)? as usize;
        let mut buffer = vec![0; (all + 1).min(self.bytes_max + 1)];
        while self.bytes < all {
            let Some((got, flags)) = peek(socket, &mut buffer)?.filter(|(got, _)| *got > 0) else { break };
            if let Some(odd) = self.add(&buffer[..got], flags) {
                return Ok(Some(odd));
            }
        }
        let all = Some(self.messages.concat()).filter(|all| !all.is_empty());
        self.messages = all.into_iter().collect();
        Ok(None)
    }

    fn messages(&mut self, socket: BorrowedFd<'_>, mut says_end: bool) -> Result<Option<Waiting>> {
        let mut buffer = vec![0; self.bytes_max + 1];
        let mut is_behind_zero = false;
        while let Some((got, flags)) = peek(socket, &mut buffer)? {
            match got {
                0 if says_end => (says_end, is_behind_zero) = (false, true),
                0 if is_behind_zero => break,
                got if got == 0 || is_behind_zero => return Ok(Some(Waiting::Empty)),
                got => {
                    if let Some(odd) = self.add(&buffer[..got], flags) {
                        return Ok(Some(odd));
                    }
                }
            }
        }
        Ok(None)
    }

    fn add(&mut self, message: &[u8], flags: i32) -> Option<Waiting> {
        self.bytes += message.len();
        let odd = match () {
            () if self.tells => "holds messages that tell who sent them (SO_PASSCRED)",
            () if flags & libc::MSG_CTRUNC != 0 => "holds messages with descriptors",
            () if self.bytes > self.bytes_max || self.messages.len() == MESSAGES_MAX => "holds too much",
            () => {
                self.messages.push(message.to_vec());
                return None;
            }
        };
        Some(Waiting::Odd(odd))
    }
}

/// Gives the bytes of the next message, and flags of recvmsg(2); `None`: there is none.
fn peek(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Option<(usize, i32)>> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    // SAFETY: the message names one live buffer, and no place for descriptors.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    match check(got, || "looking into a socket".into()) {
        Ok(got) => Ok(Some((got as usize, message.msg_flags))),
        Err(e) if e.errno() == libc::EAGAIN => Ok(None),
        Err(e) => Err(e),
    }
}

/// Has these messages wait at the other end of `from`, as [`waiting`] told them: no more than
/// [`MESSAGES_MAX`].
pub fn deliver(from: BorrowedFd<'_>, messages: &[Vec<u8>]) -> Result<()> {
    const PIECE_BYTES: usize = 32 << 10;
    let bytes: usize = messages.iter().map(Vec::len).sum();
    // What small messages take beside their bytes.
    let room = 2 * bytes + 2048 * messages.len();
    let before = option(from, libc::SO_SNDBUF)?;
    let enough = (2 * room).min(i32::MAX as usize) as i32;
    set_size_at_will(from, &enough.to_ne_bytes())?;
    let is_stream = kind(from)? == libc::SOCK_STREAM;
    for message in messages {
        for piece in message.chunks(if is_stream { PIECE_BYTES } else { message.len().max(1) }) {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: the bytes live for the call.
            let sent = unsafe { libc::send(from.as_raw_fd(), piece.as_ptr().cast(), piece.len(), flags) };
            let sent = check(sent, || "filling a socket".into())?;
            if sent as usize != piece.len() {
                return Err(Error::new("filling a socket", std::io::ErrorKind::StorageFull));
            }
        }
    }
    set_size_at_will(from, &before)
}

/// Shuts these directions down.
pub fn shut(socket: BorrowedFd<'_>, directions: u8) -> Result<()> {
    let how = match directions & (NO_MORE_COMES | NO_MORE_GOES) {
        0 => return Ok(()),
        NO_MORE_COMES => libc::SHUT_RD,
        NO_MORE_GOES => libc::SHUT_WR,
        _ => libc::SHUT_RDWR,
    };
    // SAFETY: numbers only.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), how) }, || "shutting a socket down".into()).map(drop)
}

#[cfg(test)]
mod tests;
