//! Stand-ins: in the room an open file, at home a descriptor of the deputy. A file system of its
//! own serves them, mounted nowhere.
//!
//! Node 1 is the root; stand-in N is node N + 2, and so is its inode number, by which a guest's
//! descriptor is recognised.

pub mod files;
pub mod locks;

use crate::sandbox::spares::is_own;
use crate::state::files::standins::nodes::{FOR_EVER_S, attributes, attributes_valid_s, entry, standin};
use crate::state::files::standins::requests::{StandinRequest, StandinRequestKind};
use crate::state::guests::{Who, blocked_stops};
use crate::state::orders::{Afterwards, Order};
use crate::state::pending::Pending;
use crate::state::shared::Shared;
use homefs::proto::{
    self, AttrOut, EntryOut, InitIn, InitOut, NO_BLOCKS, Opcode, PollIn, PollOut, ReadIn, Request, WriteIn,
};
use os::ptrace::HostTid;
use os::waiting;
use room_protocol::ToHome;
use room_protocol::message::{Call, StandinId};
use rustix::event::{PollFd, PollFlags};
use std::sync::PoisonError;

/// Bytes of one read or write: a packet to the deputy carries them.
const IO_BYTES: u32 = 128 << 10;

/// Serves the device until the room is gone; one such thread is enough, for none of its answers
/// waits.
pub fn serve(room: &Shared) {
    let device = &room.standins;
    let mut buffer = vec![0; proto::MAX_REQUEST_BYTES];
    if let Err(e) = rustix::io::ioctl_fionbio(&device.device.0, true) {
        tracing::error!("the stand-ins' device: {e}");
    }
    loop {
        let _ = rustix::event::poll(&mut [PollFd::new(&device.device.0, PollFlags::IN)], None);
        let serving = device.serving.lock().unwrap_or_else(PoisonError::into_inner);
        let read = rustix::io::read(&device.device.0, &mut buffer);
        match read {
            Ok(n) => match Request::parse(&buffer[..n]) {
                Ok(request) => {
                    let asker = room.process_of(request.header.pid);
                    // The asking thread waits in the kernel, where no signal ends the wait.
                    if room.contain(asker, || handle(room, &request)).is_none() {
                        device.error(request.header.unique, libc::EIO);
                    }
                }
                Err(e) => tracing::error!("stand-ins: {e}"),
            },
            Err(rustix::io::Errno::NODEV) => return,
            // Not mounted yet: the porter is about to.
            Err(rustix::io::Errno::PERM) => {
                drop(serving);
                std::thread::sleep(homefs::client::UNTIL_MOUNTED);
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::NOENT | rustix::io::Errno::AGAIN) => {}
            Err(e) => {
                tracing::error!("reading requests for stand-ins: {e}");
                return;
            }
        }
    }
}

fn handle(room: &Shared, request: &Request<'_>) {
    if crate::files::devices::serve(room, request) {
        return;
    }
    let unique = request.header.unique;
    let device = &room.standins;
    if let Some(done) = files::serve(room, request) {
        return done.unwrap_or_else(|errno| device.error(unique, errno));
    }
    let done = match request.opcode {
        Some(Opcode::Init) => {
            request.args().take().map(|init: InitIn| device.value(unique, &init_reply(&init))).map_err(|_| libc::EPROTO)
        }
        Some(Opcode::Lookup) => lookup(request).map(|entry| {
            let attr = device.files.shown(entry.nodeid, entry.attr);
            device.value(unique, &EntryOut { attr, ..entry });
        }),
        Some(Opcode::Getattr) => {
            let attr_valid = attributes_valid_s(standin(request.header.nodeid));
            let attr = device.files.shown(request.header.nodeid, attributes(request.header.nodeid));
            let out = AttrOut { attr_valid, attr, ..AttrOut::default() };
            device.value(unique, &out);
            Ok(())
        }
        Some(Opcode::Open) => {
            device.opened(unique, standin(request.header.nodeid));
            Ok(())
        }
        Some(Opcode::Read) => read(room, request),
        Some(Opcode::Write) => write(room, request),
        Some(Opcode::Poll) => poll(room, request),
        Some(opcode @ (Opcode::Getlk | Opcode::Setlk | Opcode::Setlkw)) => locks::serve(room, request, opcode),
        Some(Opcode::Interrupt) => return interrupt(room, request),
        Some(Opcode::Forget | Opcode::BatchForget) => return,
        Some(Opcode::Release) => {
            release(room, request);
            device.error(unique, 0);
            Ok(())
        }
        // ENOSYS: the kernel asks no more. Nothing is kept back here that a close could flush.
        Some(Opcode::Flush) => Err(libc::ENOSYS),
        Some(Opcode::Setattr) => Err(libc::EINVAL),
        // ENOSYS would be said of the whole file system, stand-ins of files among it.
        Some(Opcode::Fallocate) => Err(libc::ESPIPE),
        Some(Opcode::Getxattr | Opcode::Listxattr | Opcode::Setxattr | Opcode::Removexattr) => Err(libc::EOPNOTSUPP),
        Some(Opcode::Statfs) => {
            device.value(unique, &NO_BLOCKS);
            Ok(())
        }
        _ => Err(libc::ENOSYS),
    };
    if let Err(errno) = done {
        device.error(unique, errno);
    }
}

const FLAGS: u64 = {
    use proto::init::{ATOMIC_O_TRUNC, BIG_WRITES, FLOCK_LOCKS, MAX_PAGES, POSIX_LOCKS};
    BIG_WRITES | MAX_PAGES | ATOMIC_O_TRUNC | POSIX_LOCKS | FLOCK_LOCKS
};

fn init_reply(init: &InitIn) -> InitOut {
    InitOut {
        major: proto::KERNEL_VERSION,
        minor: init.minor.min(proto::KERNEL_MINOR_VERSION),
        max_readahead: 0,
        flags: FLAGS as u32,
        max_background: 64,
        congestion_threshold: 48,
        max_write: IO_BYTES,
        time_gran: 1,
        max_pages: (IO_BYTES / 4096) as u16,
        ..InitOut::default()
    }
}

fn lookup(request: &Request<'_>) -> Result<EntryOut, i32> {
    let name = request.args().name().map_err(|_| libc::ENOENT)?;
    let number: u32 = name.to_str().ok().and_then(|n| n.parse().ok()).ok_or(libc::ENOENT)?;
    Ok(EntryOut { entry_valid: FOR_EVER_S, ..entry(StandinId(number)) })
}

/// The asker of a stand-in, and the descriptor that it stands for.
struct Asker {
    who: Who,
    host: HostTid,
    standin: StandinId,
    terminal: bool,
}

fn asker(room: &Shared, request: &Request<'_>) -> Result<Asker, i32> {
    let guests = room.guests();
    let host = guests.host(request.header.pid as i32).ok_or(libc::ESRCH)?;
    let who = guests.who(host).ok_or(libc::ESRCH)?;
    let standin = standin(request.header.nodeid).ok_or(libc::EINVAL)?;
    let guest = guests.get(who.pid).ok_or(libc::ESRCH)?;
    Ok(Asker { who, host, standin, terminal: guest.is_terminal(standin) })
}

fn ask(room: &Shared, asker: &Asker, unique: u64, what: StandinRequestKind, call: Call) {
    // A terminal does not stop those who block its signals.
    let blocked = if asker.terminal { blocked_stops(asker.host) } else { 0 };
    let (who, host) = (asker.who, Some(asker.host));
    room.home.call_home(
        who,
        Call { blocked, ..call },
        Pending::Standin(StandinRequest { pid: who.pid, host, unique, what }),
    );
}

fn read(room: &Shared, request: &Request<'_>) -> Result<(), i32> {
    let arguments: ReadIn = request.args().take().map_err(|_| libc::EPROTO)?;
    let asker = asker(room, request)?;
    room.uses(asker.standin);
    // A socket's reader is content with what there is; after a request that was filled the kernel
    // would go on, and wait.
    let size = if is_own(asker.standin) { arguments.size.min(IO_BYTES - 1) } else { arguments.size.min(IO_BYTES) };
    let call = Call {
        pointers: 0b10,
        out_bytes: size,
        out_per_result: 1,
        standin: Some(asker.standin),
        ..Call::new(libc::SYS_read, [0, 0, u64::from(size), 0, 0, 0])
    };
    ask(room, &asker, request.header.unique, StandinRequestKind::Read, call);
    Ok(())
}

fn write(room: &Shared, request: &Request<'_>) -> Result<(), i32> {
    let mut args = request.args();
    let arguments: WriteIn = args.take().map_err(|_| libc::EPROTO)?;
    let data = args.bytes(arguments.size as usize).map_err(|_| libc::EPROTO)?.to_vec();
    let asker = asker(room, request)?;
    room.uses(asker.standin);
    let call = Call {
        pointers: 0b10,
        data,
        standin: Some(asker.standin),
        ..Call::new(libc::SYS_write, [0, 0, u64::from(arguments.size), 0, 0, 0])
    };
    ask(room, &asker, request.header.unique, StandinRequestKind::Write, call);
    Ok(())
}

fn poll(room: &Shared, request: &Request<'_>) -> Result<(), i32> {
    let arguments: PollIn = request.args().take().map_err(|_| libc::EPROTO)?;
    let Asker { who, host, standin, .. } = asker(room, request)?;
    let unique = request.header.unique;
    let handle = (arguments.flags & proto::POLL_SCHEDULE_NOTIFY != 0).then_some(arguments.kh);
    match room.standins.readiness.polled(standin, arguments.events as u16, handle) {
        Some(revents) => {
            room.standins.value(unique, &PollOut { revents: u32::from(revents), padding: 0 });
        }
        None if adds_to_epoll(host) => {
            let known = room.standins.readiness.known(standin);
            room.standins.value(unique, &PollOut { revents: u32::from(known.unwrap_or(0)), padding: 0 });
            if known.is_none() {
                let what = StandinRequestKind::Watch(standin);
                let id =
                    room.home.expect(Pending::Standin(StandinRequest { pid: who.pid, host: None, unique: 0, what }));
                room.tell(&ToHome::Watch { id, pid: who.pid, standin });
            }
        }
        None => {
            let what = StandinRequestKind::Poll(standin);
            let id =
                room.home.expect(Pending::Standin(StandinRequest { pid: who.pid, host: Some(host), unique, what }));
            room.tell(&ToHome::Watch { id, pid: who.pid, standin });
        }
    }
    Ok(())
}

/// Whether a thread asks because it adds a file to an epoll instance. If that lies in another
/// instance, the kernel holds a mutex of the whole machine until the answer comes (`epnested_mutex`
/// in fs/eventpoll.c): so the answer is what is known here, and what home says later is told then.
fn adds_to_epoll(host: HostTid) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{}/syscall", host.0)).unwrap_or_default();
    waiting::Call::read(&line).is_some_and(|call| call.number == libc::SYS_epoll_ctl)
}

fn interrupt(room: &Shared, request: &Request<'_>) {
    let Ok(arguments) = request.args().take::<proto::InterruptIn>() else { return };
    // A call on a file is soon done, and no signal ends it.
    if room.standins.files.is_asked(arguments.unique) {
        return;
    }
    match room.home.asked_by(arguments.unique) {
        Some((id, Some(host))) => room.orders.give(Order::Interrupted { host, then: Afterwards::Cancel(id) }),
        Some((id, None)) => room.tell(&ToHome::Cancel { id }),
        None => {}
    }
}

/// The last duplicate of an open stand-in was closed.
fn release(room: &Shared, request: &Request<'_>) {
    let Some(standin) = standin(request.header.nodeid) else { return };
    let mut opens = room.standins.opens.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(count) = opens.get_mut(&standin).filter(|count| **count > 1) {
        *count -= 1;
        return;
    }
    opens.remove(&standin);
    drop(opens);
    room.guests().forget(standin);
    room.standins.readiness.forget(standin);
    room.home.streams.forget(standin);
    room.standins.set_timed(standin, false);
    room.standins.files.forget(standin);
    os::fault::past("closed there");
    room.tell(&ToHome::Close { standin });
}
