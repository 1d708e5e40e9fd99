//! Calls on a descriptor that may be a stand-in: then they are the deputy's, on its own descriptor.

use crate::calls::served::{Asked, stream};
use crate::sandbox::guest_memory;
use crate::state::calls::after::{After, NewFlags};
use crate::state::calls::marshal::Back;
use crate::state::orders::{Order, Which};
use crate::supervisor::seeks;
use os::pidfd::PidFd;
use room_protocol::message::{Call, StandinId};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

/// The call itself, of this stand-in at home.
pub fn plain(asked: &Asked, standin: StandinId) -> Call {
    Call { standin: Some(standin), ..Call::new(i64::from(asked.nr), asked.args) }
}

/// fstat, newfstatat and statx of a descriptor: the guest shall see what its home has there.
pub fn stat(asked: Asked) {
    let (pointer, bytes) = match asked.nr as i64 {
        libc::SYS_fstat => (1, 144),
        libc::SYS_newfstatat => (2, 144),
        libc::SYS_statx => (4, 256),
        _ => return asked.here(),
    };
    let Some(standin) = asked.kept_at_home(0) else {
        return match fifo(&asked) {
            Some(path) => stat_path(asked, path, pointer, bytes),
            // One that has seen home's device numbers is to see them once more.
            None if asked.room.has_moved(asked.waiting.host_tid) => {
                asked.room.orders.give(Order::Show { host: asked.waiting.host_tid, which: Which::Devices });
            }
            None => asked.here(),
        };
    };
    let mut args = asked.args;
    let to = args[pointer];
    // Data: the struct, then an empty path.
    args[pointer] = 0;
    let mut pointers = 1 << pointer;
    let mut data = vec![0; bytes + 8];
    if asked.nr as i64 != libc::SYS_fstat {
        let mut path = [0];
        let empty = args[1] == 0
            || guest_memory::read(asked.waiting.host_tid.0, args[1], &mut path).is_ok_and(|()| path[0] == 0);
        if path[0] == b'/' {
            // The descriptor says nothing of it.
            return asked.here();
        }
        if !empty {
            // A path from a stand-in: those are no directories.
            return asked.value(-i64::from(libc::ENOTDIR));
        }
        args[1] = bytes as u64;
        pointers |= 0b10;
        data[bytes..].fill(0);
    }
    let call = Call { args, pointers, data, out_bytes: bytes as u32, ..plain(&asked, standin) };
    asked.ask(call, After::Write(vec![Back { from: 0, bytes, to, counted_at: None }]), false);
}

/// The path of the home's FIFO that the descriptor is, which to the room's kernel is a regular file
/// (`homefs::client::peek`). Who looked it up since has made that kernel think that it was removed.
fn fifo(asked: &Asked) -> Option<Vec<u8>> {
    let (host, fd) = (asked.waiting.host_tid.0, asked.args[0] as i32);
    os::process::fd_info(host, fd).ok().filter(|info| asked.room.fifos.may_be(info.inode))?;
    let path = os::process::link(host, &format!("fd/{fd}")).ok()?.into_os_string().into_vec();
    let path = path.strip_suffix(b" (deleted)").map(<[u8]>::to_vec).unwrap_or(path);
    path.starts_with(b"/").then_some(path)
}

/// What home says of a path. `bytes`: those of the structure to which argument `pointer` points.
fn stat_path(asked: Asked, path: Vec<u8>, pointer: usize, bytes: usize) {
    let to = asked.args[pointer];
    let [_, _, _, mask, ..] = asked.args;
    let mut data = vec![0; bytes];
    data.extend(path);
    data.push(0);
    let at_path = bytes as u64;
    let (nr, args, pointers) = if pointer == 4 {
        (libc::SYS_statx, [libc::AT_FDCWD as u64, at_path, 0, mask, 0, 0], 0b1_0010)
    } else {
        (libc::SYS_newfstatat, [libc::AT_FDCWD as u64, at_path, 0, 0, 0, 0], 0b110)
    };
    let call = Call { args, pointers, data, out_bytes: bytes as u32, ..Call::new(nr, args) };
    asked.ask(call, After::WriteElseHere(vec![Back { from: 0, bytes, to, counted_at: None }]), false);
}

/// lseek: the offset is the open file's at home.
pub fn seek(asked: Asked) {
    let Some(standin) = asked.standin(0) else { return asked.here() };
    let call = plain(&asked, standin);
    if asked.nr as i64 != libc::SYS_lseek || !standin.is_file() {
        return asked.ask(call, After::Write(Vec::new()), false);
    }
    let before = seeks::align(&asked.room, asked.waiting.host_tid, asked.args[0] as i32, standin);
    let expected = match asked.args[2] as i32 {
        libc::SEEK_SET => Some(asked.args[1]),
        libc::SEEK_CUR => before.map(|before| before.wrapping_add(asked.args[1])),
        _ => None,
    };
    // What is made twice goes too far: its result must not get lost, and is not the kernel's to
    // make once more. (A call that was handed to the tracer first cannot be answered by it again:
    // at its end it stops anyway, and then not a second time.)
    let marked = asked.args[0] >> 32 != 0;
    if !marked && asked.args[2] as i32 == libc::SEEK_CUR && asked.args[1] != 0 {
        return asked.ask(call, After::Write(Vec::new()), true);
    }
    asked.ask(call, After::Sought { standin, expected }, false);
}

/// Copies inside the kernel: between two descriptors of home's they are made there. Else programs
/// fall back to read and write when told that it cannot be done: what the room's kernel would copy
/// of a file of home's it would keep, and home's offset would not move.
pub fn splice(asked: Asked) {
    let to = match asked.nr as i64 {
        libc::SYS_splice | libc::SYS_copy_file_range => 2,
        libc::SYS_vmsplice => 0,
        _ => 1,
    };
    match (asked.standin(0), asked.standin(to)) {
        (None, None) => asked.here(),
        (Some(first), Some(second)) if to != 0 => match asked.pack() {
            Ok((call, back)) => {
                let call = Call { standin: Some(first), also: Some((to as u8, second)), ..call };
                asked.ask(call, After::Write(back), true);
            }
            Err(errno) => asked.value(-i64::from(errno)),
        },
        (first, second) => {
            let is_standard = |at: usize| asked.args[at] as u32 <= libc::STDERR_FILENO as u32;
            let standard = (first.is_some() && is_standard(0)) || (second.is_some() && is_standard(to));
            let file = first.is_some_and(StandinId::is_file) || second.is_some_and(StandinId::is_file);
            if standard || file { asked.value(-i64::from(libc::EINVAL)) } else { asked.here() }
        }
    }
}

/// A command of fcntl(2) (linux/fcntl.h).
const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;
const F_SETOWN_EX: i32 = 15;
const F_GETOWN_EX: i32 = 16;
/// Bytes of a `struct f_owner_ex`.
const OWNER_BYTES: usize = 8;

/// fcntl: flags of the open file are home's, and set here as well; owners, leases and pipe sizes
/// are home's.
pub fn fcntl(asked: Asked) {
    if let Some(stream) = asked.stream(0) {
        return stream::fcntl(asked, stream);
    }
    let Some(standin) = asked.standin(0) else {
        return if owner_is_group(&asked) { asked.go_home(libc::ESRCH) } else { asked.here() };
    };
    let call = plain(&asked, standin);
    match asked.args[1] as i32 {
        libc::F_GETFL => asked.ask(call, After::Write(Vec::new()), false),
        libc::F_SETFL => set_flags(asked, standin, call),
        libc::F_SETLEASE | libc::F_GETLEASE => asked.ask(call, After::Write(Vec::new()), false),
        libc::F_GETPIPE_SZ | libc::F_SETPIPE_SZ | libc::F_GETOWN | libc::F_SETOWN | F_SETSIG | F_GETSIG => {
            asked.ask(call, After::Write(Vec::new()), false)
        }
        F_SETOWN_EX | F_GETOWN_EX => owner(asked, call),
        _ => asked.refuse_for(libc::EINVAL, "this fcntl of a descriptor that stays home is not served yet"),
    }
}

/// F_SETFL: home's open file gets these flags. The stand-in gets no more of them than it must have:
/// one that appends would let one write wait for the other.
fn set_flags(asked: Asked, standin: StandinId, call: Call) {
    const SETTABLE: i32 = libc::O_APPEND | libc::O_NONBLOCK | libc::O_DIRECT | libc::O_NOATIME;
    let (to, which) = (asked.args[2] as i32, standin.flags_there());
    let file = (to & SETTABLE & !which != 0).then(|| {
        let first = asked.room.guests().host(asked.who.pid).unwrap_or(asked.waiting.host_tid);
        PidFd::open(first.0)?.get_fd(asked.args[0] as i32)
    });
    match file.transpose() {
        Ok(None) => asked.ask(call, After::Here, false),
        Ok(Some(file)) => asked.ask(call, After::Flags(Arc::new(NewFlags { file, which, to })), false),
        Err(e) => asked.value(-i64::from(e.errno())),
    }
}

/// A process group is to get the signals of a descriptor: home alone has groups.
fn owner_is_group(asked: &Asked) -> bool {
    const F_OWNER_PGRP: i32 = 2;
    let mut kind = [0; 4];
    match asked.args[1] as i32 {
        libc::F_SETOWN => (asked.args[2] as i32) < 0,
        F_SETOWN_EX => {
            guest_memory::read(asked.waiting.host_tid.0, asked.args[2], &mut kind).is_ok()
                && i32::from_le_bytes(kind) == F_OWNER_PGRP
        }
        _ => false,
    }
}

/// Who gets the signals of a descriptor, as a structure.
fn owner(asked: Asked, mut call: Call) {
    let at = asked.args[2];
    call.data = vec![0; OWNER_BYTES];
    if guest_memory::read(asked.waiting.host_tid.0, at, &mut call.data).is_err() {
        return asked.value(-i64::from(libc::EFAULT));
    }
    (call.args[2], call.pointers, call.out_bytes) = (0, 0b100, OWNER_BYTES as u32);
    let back = Back { from: 0, bytes: OWNER_BYTES, to: at, counted_at: None };
    asked.ask(call, After::Write(vec![back]), false);
}
