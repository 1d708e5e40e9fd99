//! Calls on a stream: the hosting kernel makes those that only move bytes, home those about the
//! true socket. For all others the stream becomes a stand-in again, and the call is made anew.

use crate::calls::served::{Asked, kept_fd_calls, socket};
use crate::state::calls::after::After;
use crate::state::calls::message::Header;
use crate::state::orders::Order;
use room_protocol::message::StandinId;

/// Where a call on a stream is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamCall {
    /// By the hosting kernel.
    Here,
    /// By home, on the true socket.
    Home,
    /// By home, when the stream is a stand-in again.
    AsStandin,
}

/// Flags of send(2) that a pair of sockets treats otherwise.
const ODD_SENDING: u64 = (libc::MSG_OOB | libc::MSG_FASTOPEN | libc::MSG_ZEROCOPY).cast_unsigned() as u64;
/// Flags of recv(2) that a pair of sockets treats otherwise.
const ODD_RECEIVING: u64 = (libc::MSG_OOB | libc::MSG_ERRQUEUE | libc::MSG_TRUNC).cast_unsigned() as u64;

/// Serves a call about sockets on a descriptor that is no stand-in.
pub fn serve(asked: Asked) {
    // Not kept at home: the hosting kernel knows what it is, or that it is none.
    let Some(stream) = asked.stream(0) else { return asked.here() };
    match place(&asked) {
        StreamCall::Here => asked.here(),
        StreamCall::Home if asked.nr as i64 == libc::SYS_shutdown => shut(asked, stream),
        StreamCall::Home => {
            let exact = asked.nr as i64 == libc::SYS_getsockopt && asked.args[2] as i32 == libc::SO_ERROR;
            socket::plain(asked, stream, exact);
        }
        StreamCall::AsStandin => as_standin(&asked, stream),
    }
}

/// Tells where a call about sockets is made.
fn place(asked: &Asked) -> StreamCall {
    let args = &asked.args;
    let only = |is_plain: bool| if is_plain { StreamCall::Here } else { StreamCall::AsStandin };
    match asked.nr as i64 {
        libc::SYS_sendto => only(args[3] & ODD_SENDING == 0 && args[4] == 0),
        libc::SYS_recvfrom => only(args[3] & ODD_RECEIVING == 0 && args[4] == 0),
        libc::SYS_recvmsg => only(args[2] & ODD_RECEIVING == 0),
        libc::SYS_sendmsg => only(args[2] & ODD_SENDING == 0 && is_plain_message(asked)),
        libc::SYS_getsockname | libc::SYS_getpeername | libc::SYS_getsockopt => StreamCall::Home,
        libc::SYS_setsockopt => of_option(args[1] as i32, args[2] as i32),
        libc::SYS_shutdown if args[1] as i32 == libc::SHUT_WR => StreamCall::Home,
        _ => StreamCall::AsStandin,
    }
}

/// Tells whether a message is nothing but bytes for the peer.
fn is_plain_message(asked: &Asked) -> bool {
    let header = Header::read(asked.waiting.host_tid, asked.args[1]);
    header.is_ok_and(|header| header.name.bytes == 0 && header.control.bytes == 0)
}

/// Tells where an option is set. Those that change what a reader finds, or when it is woken, a pair
/// of sockets does not know.
fn of_option(level: i32, name: i32) -> StreamCall {
    let is_plain = match level {
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_KEEPALIVE
                | libc::SO_LINGER
                | libc::SO_SNDBUF
                | libc::SO_RCVBUF
                | libc::SO_REUSEADDR
                | libc::SO_REUSEPORT
                | libc::SO_PRIORITY
                | libc::SO_MARK
                | libc::SO_BUSY_POLL
        ),
        libc::IPPROTO_TCP => !matches!(name, libc::TCP_REPAIR | libc::TCP_ULP),
        libc::IPPROTO_IP | libc::IPPROTO_IPV6 => true,
        _ => false,
    };
    if is_plain { StreamCall::Home } else { StreamCall::AsStandin }
}

/// Tells where an ioctl(2) is made.
pub fn of_ioctl(request: u32) -> StreamCall {
    const FIONREAD: u32 = 0x541b;
    const FIOASYNC: u32 = 0x5452;
    const FIOSETOWN: u32 = 0x8901;
    const SIOCSPGRP: u32 = 0x8902;
    const SIOCATMARK: u32 = 0x8905;
    match request {
        FIONREAD => StreamCall::Here,
        FIOASYNC | FIOSETOWN | SIOCSPGRP | SIOCATMARK => StreamCall::AsStandin,
        _ => StreamCall::Home,
    }
}

/// Serves a fcntl(2) that is not the hosting kernel's alone.
pub fn fcntl(asked: Asked, stream: StandinId) {
    if asked.args[1] as i32 == libc::F_GETFL {
        return asked.here();
    }
    let is_signalled = asked.args[2] & libc::O_ASYNC.cast_unsigned() as u64 != 0;
    if asked.args[1] as i32 == libc::F_SETFL && !is_signalled {
        let call = kept_fd_calls::plain(&asked, stream);
        return asked.ask(call, After::Here, false);
    }
    as_standin(&asked, stream);
}

/// Home shuts the true socket behind all that was written; then no more can be written here either.
fn shut(asked: Asked, stream: StandinId) {
    if !asked.room.home.streams.shut(stream) {
        return as_standin(&asked, stream);
    }
    let call = kept_fd_calls::plain(&asked, stream);
    asked.ask(call, After::Here, false);
}

/// Has the stream be a stand-in again; the caller's call is made anew then.
pub fn as_standin(asked: &Asked, stream: StandinId) {
    asked.room.home.streams.keep(stream);
    asked.room.orders.give(Order::Unstream { standin: stream });
}
