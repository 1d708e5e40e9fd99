//! Sockets. They are made and stay at home, where their peers see them; in the room each is a
//! stand-in, and calls on it are the deputy's. A pair made by socketpair(2) is the room's own, and
//! the hosting kernel serves it. Descriptors that watch files (inotify(7)) are made and kept in the
//! same way.

use crate::calls::follow_up;
use crate::calls::served::{Asked, filter, stream};
use crate::sandbox::guest_memory;
use crate::state::calls::after::{After, Made};
use crate::state::calls::message;
use crate::state::calls::message::control::OPENED_HERE;
use crate::state::calls::message::incoming::Incoming;
use crate::state::calls::message::outgoing::{Envelope, MessageSender, Outgoing};
use crate::state::calls::message::series::Series;
use crate::state::calls::message::{Header, Piece};
use crate::state::home_mounts::without_end;
use crate::state::orders::Order;
use os::ptrace::HostTid;
use room_protocol::ToHome;
use room_protocol::message::{Call, StandinId};
use std::sync::Arc;

/// asm-generic/socket.h: options whose value holds pointers, or that hand pages of the caller's to
/// the kernel.
const SO_ATTACH_FILTER: u64 = 26;
const SO_ATTACH_REUSEPORT_CBPF: u64 = 51;
const SO_ATTACH_BPF: u64 = 50;
const SO_ATTACH_REUSEPORT_EBPF: u64 = 52;
const SO_ZEROCOPY: u64 = 60;

/// Options of packet sockets (linux/if_packet.h).
const PACKET_RX_RING: u64 = 5;
const PACKET_TX_RING: u64 = 13;
const PACKET_FANOUT_DATA: u64 = 22;

/// No argument holds flags.
const NO_FLAGS: usize = 6;

/// Serves a call about sockets.
pub fn serve(asked: Asked) {
    let nr = asked.nr as i64;
    match nr {
        libc::SYS_socket => return make(asked, 1),
        // IN_NONBLOCK and IN_CLOEXEC are the same bits.
        libc::SYS_inotify_init1 => return make(asked, 0),
        libc::SYS_inotify_init => return make(asked, NO_FLAGS),
        _ => {}
    }
    let Some(standin) = asked.standin(0) else { return stream::serve(asked) };
    match nr {
        libc::SYS_accept | libc::SYS_accept4 => accept(asked, standin),
        libc::SYS_sendto => send_to(asked, standin),
        libc::SYS_sendmsg => send_message(asked, standin),
        libc::SYS_recvfrom => receive_from(asked, standin),
        libc::SYS_recvmsg => receive_message(asked, standin),
        libc::SYS_sendmmsg => several(asked, standin, false),
        libc::SYS_recvmmsg => several(asked, standin, true),
        libc::SYS_bind | libc::SYS_connect => named(asked, standin),
        libc::SYS_setsockopt => option(asked, standin),
        libc::SYS_inotify_add_watch => watch(asked, standin),
        libc::SYS_getsockopt if (asked.args[1] as i32, asked.args[2]) == (libc::SOL_SOCKET, SO_ATTACH_FILTER) => {
            filter::get(asked, standin);
        }
        // Takes the error away.
        libc::SYS_getsockopt => {
            let exact = (asked.args[1] as i32, asked.args[2] as i32) == (libc::SOL_SOCKET, libc::SO_ERROR);
            plain(asked, standin, exact);
        }
        _ => plain(asked, standin, false),
    }
}

/// A call whose row says all about it. `exact`: to make it twice is not the same as once.
pub fn plain(asked: Asked, standin: StandinId, exact: bool) {
    match asked.pack() {
        Ok((mut call, back)) => {
            call.standin = Some(standin);
            asked.ask(call, After::Write(back), exact);
        }
        Err(errno) => asked.value(-i64::from(errno)),
    }
}

fn made(asked: &Asked, flags: u64, listener: Option<StandinId>) -> Made {
    Made {
        who: asked.who,
        nonblocking: flags & libc::SOCK_NONBLOCK as u64 != 0,
        close_on_exec: flags & libc::SOCK_CLOEXEC as u64 != 0,
        listener,
        back: Vec::new(),
    }
}

/// The flags are in this argument.
fn make(asked: Asked, flags_at: usize) {
    if asked.is_made_again() {
        return;
    }
    let flags = if flags_at < asked.row.args.len() { asked.args[flags_at] } else { 0 };
    let made = made(&asked, flags, None);
    asked.forward_and_then(|_| After::Descriptor(Arc::new(made)));
}

fn accept(asked: Asked, standin: StandinId) {
    if asked.is_made_again() {
        return;
    }
    let flags = if asked.nr as i64 == libc::SYS_accept4 { asked.args[3] } else { 0 };
    let (mut call, back) = match asked.pack() {
        Ok(packed) => packed,
        Err(errno) => return asked.value(-i64::from(errno)),
    };
    call.standin = Some(standin);
    let made = Made { back, ..made(&asked, flags, Some(standin)) };
    match follow_up::claim(&asked.room, asked.who, standin) {
        Some(accepted) => follow_up::hand_over(&asked.room, &asked.waiting, &made, accepted),
        None => asked.ask(call, After::Descriptor(Arc::new(made)), false),
    }
}

fn named(asked: Asked, standin: StandinId) {
    surroundings(&asked, Piece { at: asked.args[1], bytes: asked.args[2] });
    plain(asked, standin, true);
}

/// A path is watched as it is seen from where the body is.
fn watch(asked: Asked, standin: StandinId) {
    const PATH_MAX: usize = 4096;
    let path = match guest_memory::read_string(asked.waiting.host_tid.0, asked.args[1], PATH_MAX) {
        Ok(path) => [&path, &b"\0"[..]].concat(),
        Err(e) => return asked.value(-i64::from(e.errno())),
    };
    tell_surroundings(&asked);
    let args = [0, 0, asked.args[2], 0, 0, 0];
    let call =
        Call { standin: Some(standin), pointers: 0b10, data: path, ..Call::new(libc::SYS_inotify_add_watch, args) };
    asked.ask(call, After::Write(Vec::new()), false);
}

/// A path as address is resolved at home, but from where the body is; and a socket file is made
/// with its umask.
fn surroundings(asked: &Asked, name: Piece) {
    let host = asked.waiting.host_tid;
    let mut start = [0; 3];
    let is_path = name.bytes > 2
        && guest_memory::read(host.0, name.at, &mut start).is_ok()
        && u16::from_le_bytes([start[0], start[1]]) == libc::AF_UNIX as u16
        && start[2] != 0;
    if !is_path || (start[2] == b'/' && asked.nr as i64 != libc::SYS_bind) {
        return;
    }
    tell_surroundings(asked);
}

fn tell_surroundings(asked: &Asked) {
    let host = asked.waiting.host_tid;
    if let (Ok(shown), Ok(status)) = (os::process::link(host.0, "cwd"), os::process::status(host.0)) {
        use std::os::unix::ffi::OsStringExt;
        let bare = without_end(shown.clone());
        let inode = (bare != shown).then(|| inode_of(host, "cwd"));
        let (cwd, who) = (bare.into_os_string().into_vec(), asked.who);
        asked.room.tell(&ToHome::Surroundings { pid: who.pid, tid: who.tid, cwd, inode, umask: status.umask });
    }
}

/// The number of the inode that a link in a body's `/proc` directory leads to, as this kernel knows
/// it (fdinfo: to look at the file itself is for the body's users). 0, which no inode has, if it
/// cannot be had.
fn inode_of(host: HostTid, link: &str) -> u64 {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;
    let there = rustix::fs::open(format!("/proc/{}/{link}", host.0), OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let info = there.ok().and_then(|there| os::process::fd_info(std::process::id() as i32, there.as_raw_fd()).ok());
    info.map_or(0, |info| info.inode)
}

fn option(asked: Asked, standin: StandinId) {
    let (level, name) = (asked.args[1], asked.args[2]);
    match (level as i32, name) {
        (libc::SOL_SOCKET, SO_ATTACH_FILTER | SO_ATTACH_REUSEPORT_CBPF) => filter::attach(asked, standin),
        // Whoever has one of these descriptors made it at home.
        (libc::SOL_SOCKET, SO_ATTACH_BPF | SO_ATTACH_REUSEPORT_EBPF) => asked.go_home(libc::EBADF),
        (libc::SOL_SOCKET, SO_ZEROCOPY) => asked
            .refuse_for(libc::EOPNOTSUPP, "the kernel at home cannot send from the pages of a program that is away"),
        // Rings are memory that is shared with home's kernel, and a fanout takes filters of both
        // kinds.
        (libc::SOL_PACKET, PACKET_RX_RING | PACKET_TX_RING | PACKET_FANOUT_DATA) => asked.go_home(libc::ENOPROTOOPT),
        (libc::SOL_SOCKET, 20 | 21 | 66 | 67) => {
            // SO_RCVTIMEO, SO_SNDTIMEO, old and new: a `struct timeval`.
            let mut limit = [0; 16];
            let read = guest_memory::read(asked.waiting.host_tid.0, asked.args[3], &mut limit);
            asked.room.standins.set_timed(standin, read.is_ok() && limit != [0; 16]);
            plain(asked, standin, false);
        }
        _ => plain(asked, standin, false),
    }
}

fn send(asked: Asked, standin: StandinId, envelope: &Envelope, pieces: &[Piece], flags: u64) {
    asked.room.uses(standin);
    surroundings(&asked, envelope.name);
    let from = MessageSender { host: asked.waiting.host_tid, who: asked.who, standin, flags };
    match Outgoing::first(&asked.room.standins, &from, envelope, pieces) {
        Ok((call, outgoing)) => asked.ask(call, After::Sent(Box::new(outgoing)), true),
        Err((errno, "")) => asked.value(-i64::from(errno)),
        Err((errno, OPENED_HERE)) => pass(asked, envelope, errno),
        Err((errno, why)) => asked.refuse_for(errno, why),
    }
}

/// What the room has opened becomes home's, and the call is made again; what cannot is passed at
/// home, where its process goes.
fn pass(asked: Asked, envelope: &Envelope, errno: i32) {
    let host = asked.waiting.host_tid;
    if asked.room.unpassed.must_go(host) {
        asked.room.unpassed.forget(host);
        return asked.go_home(errno);
    }
    let fds = message::opened_here(&asked.room.standins, host, envelope.control);
    asked.room.orders.give(Order::Pass { host, fds });
}

fn send_to(asked: Asked, standin: StandinId) {
    let [_, at, bytes, flags, name, name_bytes] = asked.args;
    let name_bytes = if name == 0 { 0 } else { name_bytes as u32 };
    if name_bytes > 128 {
        return asked.value(-i64::from(libc::EINVAL));
    }
    let name = Piece { at: name, bytes: u64::from(name_bytes) };
    let envelope = Envelope { name, control: Piece { at: 0, bytes: 0 } };
    send(asked, standin, &envelope, &[Piece { at, bytes }], flags);
}

fn send_message(asked: Asked, standin: StandinId) {
    match Header::read(asked.waiting.host_tid, asked.args[1]) {
        Ok(Header { name, pieces, control, .. }) => {
            let flags = asked.args[2];
            send(asked, standin, &Envelope { name, control }, &pieces, flags);
        }
        Err(errno) => asked.value(-i64::from(errno)),
    }
}

fn receive(asked: Asked, standin: StandinId, incoming: Incoming, flags: u64) {
    asked.room.uses(standin);
    let call = incoming.call(standin, flags);
    asked.ask(call, After::Received(Arc::new(incoming)), true);
}

fn receive_from(asked: Asked, standin: StandinId) {
    let [_, at, bytes, flags, name, name_bytes_at] = asked.args;
    let mut name_bytes = [0; 4];
    if name != 0 && guest_memory::read(asked.waiting.host_tid.0, name_bytes_at, &mut name_bytes).is_err() {
        return asked.value(-i64::from(libc::EFAULT));
    }
    let Ok(name_bytes) = u32::try_from(i32::from_le_bytes(name_bytes)) else {
        return asked.value(-i64::from(libc::EINVAL));
    };
    let incoming = Incoming {
        who: asked.who,
        pieces: vec![Piece { at, bytes }],
        name: Piece { at: name, bytes: u64::from(name_bytes) },
        control: Piece { at: 0, bytes: 0 },
        name_bytes_to: (name != 0).then_some(name_bytes_at),
        header_at: None,
        close_on_exec: false,
        files: Default::default(),
    };
    receive(asked, standin, incoming, flags);
}

fn receive_message(asked: Asked, standin: StandinId) {
    match Header::read(asked.waiting.host_tid, asked.args[1]) {
        Ok(header) => {
            let flags = asked.args[2];
            let incoming = Incoming::of(header, asked.who, flags);
            receive(asked, standin, incoming, flags);
        }
        Err(errno) => asked.value(-i64::from(errno)),
    }
}

fn several(asked: Asked, standin: StandinId, receives: bool) {
    let host = asked.waiting.host_tid;
    let series = Series::new(host, asked.who, standin, &asked.args, receives);
    let first = series.map_err(|errno| (errno, "")).and_then(|mut series| match series.count {
        0 => Ok(None),
        _ => series.next(&asked.room.standins, host, receives).map(|call| Some((call, series))),
    });
    match first {
        Ok(Some((call, series))) => asked.ask(call, After::Series(Box::new(series)), true),
        Ok(None) => asked.value(0),
        Err((errno, OPENED_HERE)) => asked.go_home(errno),
        Err((errno, _)) => asked.value(-i64::from(errno)),
    }
}
