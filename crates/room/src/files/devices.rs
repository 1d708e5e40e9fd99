//! The home's /dev. Its names are looked up at home; what is opened there becomes a stand-in,
//! opened by the deputy: a terminal knows who uses it.
//!
//! To an open, a device is a regular file of its own (the kernel would open a device of this
//! machine); to everybody else it is what it is at home.

pub mod names;

use crate::state::files::devices::paths::Opening;
use crate::state::files::devices::table::Step;
use crate::state::files::standins::nodes;
use crate::state::files::standins::requests::{StandinRequest, StandinRequestKind};
use crate::state::guests::Who;
use crate::state::orders::Order;
use crate::state::pending::Pending;
use crate::state::shared::Shared;
use homefs::proto::{
    self, AttrOut, EntryOut, NO_BLOCKS, Opcode, OpenIn, OpenOut, ReadIn, ReleaseIn, ReplyBuf, Request,
};
use os::ptrace::HostTid;
use room_protocol::ToHome;
use room_protocol::message::{Call, DeviceName, DeviceNode, Look};

/// Names of directories and links change seldom; devices are looked up each time, for it matters
/// who asks.
const DIRECTORY_VALID_S: u64 = 1;
/// The most names that one listing may have.
const NAMES_MAX: usize = 1 << 16;

/// Serves a request that concerns /dev; `false` if it does not.
pub fn serve(room: &Shared, request: &Request<'_>) -> bool {
    let Some(served) = try_serve(room, request) else { return false };
    if let Err(errno) = served {
        room.standins.error(request.header.unique, errno);
    }
    true
}

fn try_serve(room: &Shared, request: &Request<'_>) -> Option<Result<(), i32>> {
    let node = request.header.nodeid;
    let is_path = room.devices.lock().paths.is_path(node);
    match request.opcode? {
        Opcode::Lookup if is_path => lookup(room, request),
        Opcode::Forget => {
            room.devices.lock().paths.forget(node);
            None
        }
        Opcode::Open => open(room, request),
        _ if !is_path => None,
        // The root's are asked for while it is mounted.
        Opcode::Getattr if node == proto::ROOT_ID => None,
        Opcode::Getattr => Some(ask(room, request, node, Look::Node, Step::Attributes(node))),
        Opcode::Readlink => Some(ask(room, request, node, Look::Link, Step::Link)),
        Opcode::Opendir => Some(ask(room, request, node, Look::Names, Step::List)),
        Opcode::Readdir => Some(list(room, request)),
        Opcode::Releasedir => Some(close_listing(room, request)),
        // ENOSYS would be said of the whole file system, stand-ins of files among it.
        Opcode::Getxattr | Opcode::Listxattr => Some(Err(libc::EOPNOTSUPP)),
        Opcode::Statfs => {
            room.standins.value(request.header.unique, &NO_BLOCKS);
            Some(Ok(()))
        }
        // Names below /dev are made and removed at home.
        _ => Some(Err(libc::EPERM)),
    }
}

/// Who asks, if it is a guest's program.
pub fn asker(room: &Shared, request: &Request<'_>) -> Option<(HostTid, Who)> {
    let guests = room.guests();
    let host = guests.host(request.header.pid as i32)?;
    let who = guests.who(host)?;
    guests.get(who.pid)?.runs.then_some((host, who))
}

/// Asks home about the path of a node.
fn ask(room: &Shared, request: &Request<'_>, node: u64, look: Look, step: Step) -> Result<(), i32> {
    let path = room.devices.lock().paths.path(node).ok_or(libc::ENOENT)?;
    ask_path(room, request, path, look, step);
    Ok(())
}

fn ask_path(room: &Shared, request: &Request<'_>, path: Vec<u8>, look: Look, step: Step) {
    let unique = request.header.unique;
    let pid = asker(room, request).map_or(0, |(_, who)| who.pid);
    room.devices.lock().asked.insert(unique, step);
    let id = room.home.expect(Pending::Standin(StandinRequest {
        pid,
        host: None,
        unique,
        what: StandinRequestKind::Device,
    }));
    room.tell(&ToHome::LookAt { id, path, look });
}

fn lookup(room: &Shared, request: &Request<'_>) -> Option<Result<(), i32>> {
    let name = match request.args().name() {
        Ok(name) => name.to_bytes(),
        Err(_) => return Some(Err(libc::ENOENT)),
    };
    let parent = request.header.nodeid;
    if parent == proto::ROOT_ID
        && let Some(own) = names::own(name)
    {
        room.standins.value(request.header.unique, &own);
        return Some(Ok(()));
    }
    // The porter, and bodies that it starts, open stand-ins by their numbers.
    let (host, _) = asker(room, request)?;
    let path = match room.devices.lock().paths.path(parent) {
        Some(parent) => [&parent, &b"/"[..], name].concat(),
        None => return Some(Err(libc::ENOENT)),
    };
    let flags = names::open_flags(host);
    ask_path(room, request, path.clone(), Look::Node, Step::Lookup(path, flags));
    Some(Ok(()))
}

/// OPEN of a file that stands for a device: the deputy opens that.
fn open(room: &Shared, request: &Request<'_>) -> Option<Result<(), i32>> {
    let standin = nodes::standin(request.header.nodeid)?;
    let Opening { path, flags: named } = room.devices.lock().paths.take_opening(standin)?;
    let Ok(OpenIn { flags, .. }) = request.args().take() else { return Some(Err(libc::EPROTO)) };
    let Some((host, who)) = asker(room, request) else { return Some(Err(libc::ESRCH)) };
    // The kernel keeps back O_NOCTTY; what makes files has been seen to be there.
    let kept = flags as i32 & !(libc::O_CREAT | libc::O_EXCL) | named & libc::O_NOCTTY | libc::O_CLOEXEC;
    let unique = request.header.unique;
    room.devices.lock().asked.insert(unique, Step::Open(standin, host, who));
    let args = [libc::AT_FDCWD as u64, 0, kept as u64, 0, 0, 0];
    let data = [&path, &b"\0"[..]].concat();
    let call = Call { pointers: 0b10, data, ..Call::new(libc::SYS_openat, args) };
    let asked = StandinRequest { pid: who.pid, host: Some(host), unique, what: StandinRequestKind::Device };
    room.home.call_home(who, call, Pending::Standin(asked));
    Some(Ok(()))
}

/// Home has answered.
pub fn answered(room: &Shared, unique: u64, result: i64, out: &[u8]) {
    let Some(step) = room.devices.lock().asked.remove(&unique) else { return };
    let done = match usize::try_from(result) {
        Ok(_) => go_on(room, unique, step, result, out),
        Err(_) => Err(-result as i32),
    };
    if let Err(errno) = done {
        room.standins.error(unique, errno);
    }
}

fn node(out: &[u8]) -> Result<DeviceNode, i32> {
    postcard::from_bytes(out).map_err(|_| libc::EIO)
}

fn go_on(room: &Shared, unique: u64, step: Step, result: i64, out: &[u8]) -> Result<(), i32> {
    let device = &room.standins;
    match step {
        Step::Lookup(path, flags) => {
            let entry = entry(room, path, flags, &node(out)?);
            device.value(unique, &entry);
        }
        Step::Attributes(at) => {
            device.value(unique, &AttrOut { attr: names::attributes(at, &node(out)?), ..AttrOut::default() });
        }
        Step::Link => device.bytes(unique, out),
        Step::List => {
            let names: Vec<DeviceName> = postcard::from_bytes(out).map_err(|_| libc::EIO)?;
            let mut state = room.devices.lock();
            state.last_listing += 1;
            let fh = state.last_listing;
            state.listings.insert(fh, names.into_iter().take(NAMES_MAX).collect());
            device.value(unique, &OpenOut { fh, open_flags: 0, backing_id: 0 });
        }
        Step::Open(standin, host, who) => {
            room.guests().has_device(who.pid, result as i32, standin);
            room.tell(&ToHome::Adopt { pid: who.pid, fd: result as i32, standin });
            if room.guests().get(who.pid).is_some_and(|guest| guest.shows_all) {
                device.opened(unique, Some(standin));
            } else {
                room.orders.give(Order::Opened { host, unique, standin });
            }
        }
    }
    Ok(())
}

/// A device is a stand-in to who opens it, and itself to all others.
fn entry(room: &Shared, path: Vec<u8>, flags: Option<i32>, found: &DeviceNode) -> EntryOut {
    let mut state = room.devices.lock();
    let kind = found.mode & libc::S_IFMT;
    let stays = matches!(kind, libc::S_IFDIR | libc::S_IFLNK);
    match flags.filter(|_| !stays && kind != libc::S_IFSOCK) {
        Some(flags) => nodes::entry(state.paths.open(path, flags)),
        None => {
            let nodeid = state.paths.node(path);
            let entry_valid = if stays { DIRECTORY_VALID_S } else { 0 };
            EntryOut { nodeid, entry_valid, attr: names::attributes(nodeid, found), ..EntryOut::default() }
        }
    }
}

fn list(room: &Shared, request: &Request<'_>) -> Result<(), i32> {
    let read: ReadIn = request.args().take().map_err(|_| libc::EPROTO)?;
    let state = room.devices.lock();
    let names = state.listings.get(&read.fh).ok_or(libc::EBADF)?;
    let mut reply = ReplyBuf::default();
    reply.clear();
    names::list(names, read.offset, read.size as usize, &mut reply);
    room.standins.reply(reply.finish(request.header.unique));
    Ok(())
}

fn close_listing(room: &Shared, request: &Request<'_>) -> Result<(), i32> {
    let release: ReleaseIn = request.args().take().map_err(|_| libc::EPROTO)?;
    room.devices.lock().listings.remove(&release.fh);
    room.standins.error(request.header.unique, 0);
    Ok(())
}
