//! Messages of the room, and the work that follows. This runs in threads that serve files with
//! borrowed rights: nothing here needs privilege.

use crate::deputy::job::{Job, Purpose};
use crate::deputy::record::Phase;
use crate::deputy::thread::is_job_stop;
use crate::deputy::{channel, rights};
use crate::proxy::clocks::told_clocks;
use crate::proxy::{calls, exits, standins};
use crate::room::event::RoomEvent;
use crate::room::inquiry::Inquiry;
use crate::room::orders::{CommonFiles, HomeCall, Order};
use crate::room::state::Room;
use homefs::server::FileId;
use room_protocol::message::onward::Said;
use room_protocol::message::{Birth, BodyUsage, Call, CallId, HeldFile};
use room_protocol::{Refusal, ToHome, ToRoom};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// A thread of a body, by its numbers at home.
#[derive(Clone, Copy)]
struct BodyThread {
    pid: i32,
    tid: i32,
}

/// Where a body's thread is, and which permissions its new files lack.
struct Surroundings {
    cwd: Vec<u8>,
    /// The inode that the body knows for this directory.
    inode: Option<u64>,
    umask: u32,
}

/// Obeys one message of the room.
///
/// # Errors
/// Why the room is to end.
pub fn obey(room: &Room, message: ToHome) -> Result<(), String> {
    match message {
        ToHome::Hello { .. } => return Err("the room introduced itself twice".into()),
        ToHome::RoomFailed { reason } => return Err(reason),
        ToHome::Clock => room.tell(&told_clocks()),
        ToHome::RoomReady => room.ready(),
        ToHome::Suspended => room.is_suspended(),
        ToHome::Awake => room.is_awake(),
        message => match session_event(message) {
            Ok(SessionEvent { pid, event }) => drop(room.sessions.tell(pid, event)),
            Err(message) => obey_about_bodies(room, *message),
        },
    }
    Ok(())
}

/// An event for the session of a process.
struct SessionEvent {
    pid: i32,
    event: RoomEvent,
}

/// Reads a message for a migration session; gives back one that is for others.
fn session_event(message: ToHome) -> Result<SessionEvent, Box<ToHome>> {
    let (pid, event) = match message {
        ToHome::Taken { pid, bytes } => (pid, RoomEvent::Taken(bytes)),
        ToHome::PeerPages { pid, pages } => (pid, RoomEvent::PeerPages(pages)),
        ToHome::LaidOut { pid, result } => (pid, RoomEvent::LaidOut(result)),
        ToHome::Rebuilt { pid, result } => (pid, RoomEvent::Rebuilt(result)),
        ToHome::Whole { pid, result } => (pid, RoomEvent::Whole(result)),
        ToHome::Leaving { pid, own_bytes } => (pid, RoomEvent::Leaving(own_bytes)),
        ToHome::Standing { pid, tids, noticed } => (pid, RoomEvent::Standing(tids, noticed)),
        ToHome::Share { pid, files, pipes, pairs } => (pid, RoomEvent::Share(CommonFiles { files, pipes, pairs })),
        ToHome::Shares { pid, others, memories } => (pid, RoomEvent::Shares(others, memories)),
        ToHome::Locked { pid, files } => (pid, RoomEvent::Locked(files)),
        ToHome::Drained { pid, loan, result } => (pid, RoomEvent::Drained { loan, result }),
        ToHome::Runs { pid, since_ns } => (pid, RoomEvent::Runs(then(since_ns))),
        ToHome::Left { pid } => (pid, RoomEvent::Left),
        other => return Err(Box::new(other)),
    };
    Ok(SessionEvent { pid, event })
}

/// Obeys a message about a body that runs, or about a process that moves by itself.
fn obey_about_bodies(room: &Room, message: ToHome) {
    match message {
        ToHome::Placed { pid, result } => placed(room, pid, result),
        ToHome::Passes { pid, files, pipes, pairs } => {
            room.poller.order(Order::TakeOver { pid, commons: CommonFiles { files, pipes, pairs } });
        }
        ToHome::Yielded { file: HeldFile { device, inode } } => {
            room.link.files().into_iter().for_each(|server| server.let_go_held(FileId { device, inode }));
        }
        ToHome::Onward { pid, said } => onward(room, pid, said),
        ToHome::GoesHome { pid, first, errand } => {
            room.poller.order(Order::BringHome(HomeCall { pid, first, errand }));
        }
        ToHome::Fetch { pid, ranges } => room.lenders.with(pid, |lender| lender.ask(&ranges)),
        ToHome::Filled { pid } => room.lenders.with(pid, checkpoint::Lender::arrived),
        ToHome::Enough { pid, loan } => room.lenders.enough(pid, loan),
        ToHome::Call { id, pid, tid, call } => calls::forward(room, id, pid, tid, call),
        ToHome::Cancel { id } => room.poller.order(Order::Cancel(id)),
        ToHome::Birth { id, pid, tid, birth } => make(room, id, BodyThread { pid, tid }, birth),
        ToHome::Unborn { pid, number } => unborn(room, pid, number),
        ToHome::Ignores { pid, tid, ignored, child_flags } => {
            ignore(room, BodyThread { pid, tid }, [ignored, child_flags]);
        }
        ToHome::Stops { pid, tid, signal, continued } => stop(room, BodyThread { pid, tid }, signal, continued),
        ToHome::ThreadGone { pid, tid } => {
            room.table().deputies.get_mut(&pid).into_iter().for_each(|deputy| deputy.end_thread(tid));
        }
        ToHome::Exited { pid, how, cause, .. } => exits::exited(room, pid, how, exits::words_for(room, pid, cause)),
        ToHome::Exec { pid, arguments, comm, exe } => exec(room, pid, &arguments, &comm, &exe),
        ToHome::Watch { id, pid, standin } => room.poller.order(Order::Watch { id, pid, standin }),
        ToHome::LookAt { id, path, look } => room.poller.order(Order::LookAt { id, path, look }),
        ToHome::LocksOf { id, pid, inode } => room.inquire(id, Inquiry::Locks { pid, inode }),
        ToHome::WriteProc { id, pid, path, bytes } => room.inquire(id, Inquiry::Write { pid, path, bytes }),
        ToHome::Inspect { id, pid, path, look } => room.inquire(id, Inquiry::Look { pid, path, look }),
        ToHome::MayStream { id, standin } => room.inquire(id, Inquiry::Stream(standin)),
        ToHome::Fence { way, number } => room.link.streams.crossings.fence(way, number),
        ToHome::Way { way, result } => room.link.streams.crossings.ways.note(way, result),
        ToHome::NameOf { id, standin } => room.inquire(id, Inquiry::Name(standin)),
        ToHome::Adopt { pid, fd, standin } => standins::adopt(room, pid, fd, standin),
        ToHome::Close { standin } => standins::close(room, standin),
        ToHome::Surroundings { pid, tid, cwd, inode, umask } => {
            surroundings(room, BodyThread { pid, tid }, Surroundings { cwd, inode, umask });
        }
        ToHome::Refused { pid, nr, why } => refused(room, pid, nr, &why),
        ToHome::Usage { bodies, room_us } => usage(room, bodies, room_us),
        ToHome::Calls { pid, rows } => room.call_inquiries.hear(pid, rows),
        // Read before.
        ToHome::Hello { .. } | ToHome::RoomFailed { .. } | ToHome::Clock | ToHome::RoomReady => {}
        ToHome::Suspended | ToHome::Awake => {}
        ToHome::Taken { .. } | ToHome::PeerPages { .. } | ToHome::LaidOut { .. } | ToHome::Rebuilt { .. } => {}
        ToHome::Whole { .. } | ToHome::Leaving { .. } | ToHome::Standing { .. } | ToHome::Share { .. } => {}
        ToHome::Shares { .. } | ToHome::Locked { .. } | ToHome::Drained { .. } | ToHome::Runs { .. } => {}
        ToHome::Left { .. } => {}
    }
}

/// Tells the session of a process whether its empty body was made; without a session, the process
/// was placed by `tern run`.
fn placed(room: &Room, pid: i32, result: Result<(), (i32, String)>) {
    // A file of a process that still runs elsewhere may be gone when it is opened, or another one.
    let refusal = |(errno, what): &(i32, String)| Refusal {
        why: format!("{what}: {}", std::io::Error::from_raw_os_error(*errno)),
        retryable: [libc::ENOENT, libc::ESTALE].contains(errno),
    };
    if !room.sessions.tell(pid, RoomEvent::Placed(result.as_ref().copied().map_err(refusal))) {
        exits::placed(room, pid, result);
    }
}

/// Takes the word of a room about a process that goes on to another one.
fn onward(room: &Room, pid: i32, said: Said) {
    if let Said::Complete { result: Err(why), .. } = &said {
        room.break_off(pid, why);
    }
    room.sessions.tell(pid, RoomEvent::Onward(said));
}

/// Has the deputy ignore the signals that the body ignores.
fn ignore(room: &Room, body: BodyThread, args: [u64; 2]) {
    let mut table = room.table();
    if let Some(thread) = table.deputies.get_mut(&body.pid).and_then(|d| d.thread(body.tid)) {
        thread.give(Job::new(channel::order(abi::OP_IGNORE, args, &[]), Purpose::Nothing));
    }
}

/// Notes a call that the room refused, for `tern why`.
fn refused(room: &Room, pid: i32, nr: u32, why: &str) {
    if let Some(deputy) = room.table().deputies.get_mut(&pid) {
        deputy.refused(format!("{} was refused: {why}", systable::name(nr).unwrap_or("an unknown call")));
    }
}

/// Notes what bodies have used.
fn usage(room: &Room, bodies: Vec<BodyUsage>, room_us: u64) {
    let mut table = room.table();
    table.room_us = table.room_us.max(room_us);
    for body in bodies {
        if let Some(deputy) = table.deputies.get_mut(&body.pid) {
            deputy.usage = Some(body);
        }
    }
    drop(table);
    room.reported();
}

/// The moment of a reading of this machine's monotonic clock; not in the future, and not long ago:
/// another machine says so.
fn then(monotonic_ns: i64) -> Instant {
    const LONGEST_NS: i64 = 60_000_000_000;
    let ago_ns = os::namespace::clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(monotonic_ns).clamp(0, LONGEST_NS);
    let now = Instant::now();
    now.checked_sub(Duration::from_nanos(ago_ns as u64)).unwrap_or(now)
}

/// The thread's next call finds its body's working directory and umask.
fn surroundings(room: &Room, body: BodyThread, there: Surroundings) {
    let (BodyThread { pid, tid }, Surroundings { cwd, inode, umask }) = (body, there);
    // Where it is already it may not be able to go again.
    let is_there = os::process::link(pid, "cwd").is_ok_and(|link| link.as_os_str().as_bytes() == cwd);
    // Nowhere: who is in a directory that has been removed, or renamed without this being known
    // there, gets ENOENT.
    let path = if inode.is_none_or(|inode| leads_to(pid, &cwd, inode)) { cwd } else { Vec::new() };
    let enter = Call { pointers: 1, data: [path, vec![0]].concat(), ..Call::new(libc::SYS_chdir, [0; 6]) };
    let mask = Call::new(libc::SYS_umask, [u64::from(umask & 0o777), 0, 0, 0, 0, 0]);
    let mut table = room.table();
    let Some(thread) = table.deputies.get_mut(&pid).and_then(|d| d.own_thread(tid)) else { return };
    let stays = is_there && thread.rests();
    if let Some(packet) = channel::call(&mask) {
        thread.give(Job::new(packet, Purpose::Nothing));
    }
    if let Some(packet) = channel::call(&enter).filter(|_| !stays) {
        thread.give(Job::new(packet, Purpose::Enter));
    }
}

/// Whether a path is that of this inode, to process `pid`.
fn leads_to(pid: i32, path: &[u8], inode: u64) -> bool {
    use std::os::unix::fs::MetadataExt;
    let from_its_root = [format!("/proc/{pid}/root").as_bytes(), path].concat();
    std::fs::metadata(std::ffi::OsStr::from_bytes(&from_its_root)).is_ok_and(|found| found.ino() == inode)
}

/// A stop of job control that the body does not handle: the deputy does what it does by default.
/// Not if it has been continued meanwhile.
fn stop(room: &Room, body: BodyThread, signal: i32, continued: u32) {
    let BodyThread { pid, tid } = body;
    let mut table = room.table();
    let deputy = table.deputies.get_mut(&pid).filter(|d| d.phase == Phase::Away && d.continued == continued);
    let given = is_job_stop(signal)
        && deputy.is_some_and(|deputy| {
            deputy.stopping = true;
            let order = channel::order(abi::OP_STOP, [signal as u64, u64::from(continued)], &[]);
            deputy.thread(tid).map(|thread| thread.give(Job::new(order, Purpose::Stop))).is_some()
        });
    drop(table);
    if given {
        // The event loop looks closely for a moment.
        room.poller.wake();
    } else {
        room.tell(&ToRoom::GoOn { pid });
    }
}

/// Has a deputy's thread make a thread or a child.
fn make(room: &Room, id: CallId, maker: BodyThread, birth: Birth) {
    let BodyThread { pid, tid } = maker;
    let refuse =
        |errno: i32| room.tell(&ToRoom::Return { id, result: -i64::from(errno), out: Vec::new(), ready: None });
    let Ok((channel, theirs)) = os::socket::pair() else { return refuse(libc::EAGAIN) };
    if packet::name_senders(&channel, packet::Naming::ByNumber).is_err() {
        return refuse(libc::EAGAIN);
    }
    let mut table = room.table();
    let (order, purpose) = match birth {
        Birth::Thread => (channel::order(abi::OP_THREAD, [0; 2], &[]), Purpose::Thread { id, channel }),
        Birth::Process => {
            let others = table.deputies.get(&pid).map(|d| d.other_channels(tid)).unwrap_or_default();
            let numbers: Vec<u8> = others.iter().flat_map(|n| n.to_le_bytes()).collect();
            (channel::order(abi::OP_FORK, [others.len() as u64, 0], &numbers), Purpose::Fork { id, channel })
        }
    };
    let job = Job::with_fd(order, theirs, purpose);
    let is_made = table.deputies.get_mut(&pid).is_some_and(|deputy| deputy.make(tid, job));
    drop(table);
    if !is_made {
        refuse(libc::ESRCH);
    }
}

/// A thread or child that the room could not make after all: nobody shall see that it was there.
fn unborn(room: &Room, pid: i32, number: i32) {
    let mut table = room.table();
    let Some(parent) = table.deputies.get_mut(&pid) else { return };
    if parent.threads.contains_key(&number) {
        return parent.end_thread(number);
    }
    parent.unborn.push(number);
    // The parent reaps it itself, so that no wait of the program's ever does.
    let wait = Call::new(libc::SYS_wait4, [number as u64, 0, 0, 0, 0, 0]);
    if let Some(packet) = channel::call(&wait) {
        parent.give_any(Job::new(packet, Purpose::Nothing));
    }
    if let Some(child) = table.deputies.get_mut(&number) {
        child.end(channel::order(abi::OP_EXIT, [0, 0], &[]), None);
    }
}

/// Has the deputy show what its body runs now, with the rights of that program.
fn exec(room: &Room, pid: i32, arguments: &[u8], comm: &[u8], exe: &[u8]) {
    const PR_SET_NAME: u64 = 15;
    os::fault::past("exec");
    let now = rights::credentials(pid);
    let mut table = room.table();
    let Some(deputy) = table.deputies.get_mut(&pid) else { return };
    deputy.program.argv = arguments.split(|b| *b == 0).filter(|a| !a.is_empty()).map(<[u8]>::to_vec).collect();
    deputy.give_any(Job::new(channel::program(arguments, exe), Purpose::Nothing));
    let mut name = comm[..comm.len().min(15)].to_vec();
    name.push(0);
    let call = Call { pointers: 0b10, data: name, ..Call::new(libc::SYS_prctl, [PR_SET_NAME, 0, 0, 0, 0, 0]) };
    if let Some(packet) = channel::call(&call) {
        deputy.give_any(Job::new(packet, Purpose::Nothing));
    }
    if let Ok(now) = now {
        rights::execute(deputy, &now);
    }
}
