//! What the room says, and what follows from it. Runs in threads that serve files with borrowed rights: nothing here needs privilege.

use super::channel;
use super::deputies::{Job, Phase, Purpose, is_job_stop};
use super::moves::Heard;
use super::privileged::Order;
use super::shared::Shared;
use wire::message::{Birth, Call, CallId, Ending};
use wire::{ToHome, ToRoom};

/// Obeys one message. `Err`: why the room is to end.
pub fn obey(room: &Shared, message: ToHome) -> Result<(), String> {
    match message {
        ToHome::Hello { .. } => return Err("the room introduced itself twice".into()),
        ToHome::RoomReady => room.ready(),
        ToHome::RoomFailed { reason } => return Err(reason),
        ToHome::Placed { pid, result } => {
            let words =
                |(errno, what): &(i32, String)| format!("{what}: {}", std::io::Error::from_raw_os_error(*errno));
            if !room.moves.tell(pid, Heard::Placed(result.as_ref().copied().map_err(words))) {
                placed(room, pid, result);
            }
        }
        ToHome::Rebuilt { pid, result } => drop(room.moves.tell(pid, Heard::Rebuilt(result))),
        ToHome::Whole { pid, result } => drop(room.moves.tell(pid, Heard::Whole(result))),
        ToHome::Left { pid } => drop(room.moves.tell(pid, Heard::Left)),
        ToHome::Call { id, pid, tid, blocked, call } => forward(room, id, (pid, tid), blocked, &call),
        ToHome::Cancel { id } => room.poller.order(Order::Cancel(id)),
        ToHome::Birth { id, pid, tid, birth } => make(room, id, pid, tid, birth),
        ToHome::Unborn { pid, number } => unborn(room, pid, number),
        ToHome::Ignores { pid, tid, ignored, child_flags } => {
            if let Some(thread) = room.table().deputies.get_mut(&pid).and_then(|d| d.thread(tid)) {
                thread.give(Job::new(channel::order(abi::OP_IGNORE, [ignored, child_flags], &[]), Purpose::Nothing));
            }
        }
        ToHome::Stops { pid, tid, signal, continued } => stop(room, pid, tid, signal, continued),
        ToHome::ThreadGone { pid, tid } => {
            if let Some(deputy) = room.table().deputies.get_mut(&pid) {
                deputy.end_thread(tid);
            }
        }
        ToHome::Exited { pid, how, .. } => exited(room, pid, how),
        ToHome::Exec { pid, arguments, comm, exe } => exec(room, pid, &arguments, &comm, &exe),
        ToHome::Watch { pid, standin, events } => room.poller.order(Order::Watch { pid, standin, events }),
        ToHome::LookAt { id, path, look } => room.poller.order(Order::LookAt { id, path, look }),
        ToHome::Adopt { pid, fd, standin } => {
            if let Some(deputy) = room.table().deputies.get_mut(&pid) {
                deputy.standins.insert(standin, vec![fd]);
            }
        }
        ToHome::Close { pid, standin } => room.poller.order(Order::Close { pid, standin }),
        ToHome::Refused { pid, nr, why } => {
            if let Some(deputy) = room.table().deputies.get_mut(&pid) {
                deputy.refused(format!("{} was refused: {why}", systable::name(nr).unwrap_or("an unknown call")));
            }
        }
        ToHome::Usage { bodies } => {
            let mut table = room.table();
            for body in bodies {
                if let Some(deputy) = table.deputies.get_mut(&body.pid) {
                    deputy.usage = Some(body);
                }
            }
            drop(table);
            room.reported();
        }
    }
    Ok(())
}

/// A part of the image of a process that comes home.
pub fn image_part(room: &Shared, body: &[u8]) {
    if let Some((pid, bytes)) = wire::cargo::part(body) {
        room.moves.tell(pid, Heard::Part(bytes.to_vec()));
    }
}

/// Pages of a process that comes home.
pub fn image_pages(room: &Shared, body: &[u8]) {
    if let Some((pid, at, pages)) = wire::cargo::pages(body) {
        room.moves.tell(pid, Heard::Pages(at, pages.to_vec()));
    }
}

/// Calls that a room may ask for. The hosting node has the body in its hands, so it may do what the body may; but the deputy must not be made to
/// change what the steward relies on.
fn may_be_forwarded(nr: u32) -> bool {
    use systable::Class;
    let transfer = matches!(i64::from(nr), libc::SYS_read | libc::SYS_write | libc::SYS_poll | libc::SYS_openat);
    transfer
        || systable::row(nr).is_some_and(|row| {
            matches!(row.class, Class::Home | Class::Special(_))
                && row.class != Class::Special(systable::Special::Clone)
        })
}

fn forward(room: &Shared, id: CallId, (pid, tid): (i32, i32), blocked: u32, call: &Call) {
    let mut table = room.table();
    let refuse = |errno: i32| ToRoom::Return { id, result: -i64::from(errno), out: Vec::new() };
    let packet = may_be_forwarded(call.nr).then(|| channel::call_blocking(call, blocked & JOB_STOPS)).flatten();
    let answer = match (packet, table.deputies.get_mut(&pid)) {
        (None, _) => Some(refuse(libc::EINVAL)),
        (_, None) => Some(refuse(libc::ESRCH)),
        (Some(packet), Some(deputy)) => match deputy.thread(tid) {
            Some(thread) => {
                thread.give(Job::new(packet, Purpose::Call { id, nr: call.nr }));
                table.calls.insert(id, (pid, tid));
                None
            }
            None => Some(refuse(libc::ESRCH)),
        },
    };
    drop(table);
    if let Some(answer) = answer {
        room.tell(&answer);
    }
}

/// Signals that a deputy thread may block during a call: those of job control.
const JOB_STOPS: u32 = 1 << (libc::SIGTSTP - 1) | 1 << (libc::SIGTTIN - 1) | 1 << (libc::SIGTTOU - 1);

/// A stop of job control that the body does not handle: the deputy does what it does by default. Not if it has been continued meanwhile.
fn stop(room: &Shared, pid: i32, tid: i32, signal: i32, continued: u32) {
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
        // It looks closely for a moment.
        room.poller.wake();
    } else {
        room.tell(&ToRoom::GoOn { pid });
    }
}

fn make(room: &Shared, id: CallId, pid: i32, tid: i32, birth: Birth) {
    let refuse = |errno: i32| room.tell(&ToRoom::Return { id, result: -i64::from(errno), out: Vec::new() });
    let Ok((channel, theirs)) = os::socket::pair() else { return refuse(libc::EAGAIN) };
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
    match table.deputies.get_mut(&pid).and_then(|d| d.thread(tid)) {
        Some(thread) => thread.give(job),
        None => {
            drop(table);
            refuse(libc::ESRCH);
        }
    }
}

/// A thread or child that the room could not make after all: nobody shall see that it was there.
fn unborn(room: &Shared, pid: i32, number: i32) {
    let mut table = room.table();
    let Some(parent) = table.deputies.get_mut(&pid) else { return };
    if parent.threads.contains_key(&number) {
        return parent.end_thread(number);
    }
    parent.unborn.push(number);
    // The parent reaps it itself, so that no wait of the program's ever does.
    let wait = Call {
        nr: libc::SYS_wait4 as u32,
        args: [number as u64, 0, 0, 0, 0, 0],
        pointers: 0,
        data: Vec::new(),
        out_offset: 0,
        out_bytes: 0,
        out_per_result: 0,
    };
    if let Some(packet) = channel::call(&wait) {
        parent.give_any(Job::new(packet, Purpose::Nothing));
    }
    if let Some(child) = table.deputies.get_mut(&number) {
        child.end(channel::order(abi::OP_EXIT, [0, 0], &[]), None);
    }
}

fn placed(room: &Shared, pid: i32, result: Result<(), (i32, String)>) {
    let mut table = room.table();
    let Some(deputy) = table.deputies.get_mut(&pid) else {
        drop(table);
        // It ended while its body was being made.
        if result.is_ok() {
            room.tell(&ToRoom::Kill { pid });
        }
        return;
    };
    match result {
        Ok(()) if deputy.phase == Phase::Placing => deputy.phase = Phase::Away,
        Ok(()) => {}
        Err((errno, what)) => {
            // As env(1) does: 127 not found, 126 not executable; else the tool's own failure.
            let status = match errno {
                libc::ENOENT => 127,
                libc::EACCES | libc::ENOEXEC | libc::EPERM | libc::ETXTBSY | libc::EISDIR => 126,
                _ => 125,
            };
            let program = String::from_utf8_lossy(&deputy.program.path).into_owned();
            let reason = std::io::Error::from_raw_os_error(errno);
            let words = format!("tern: cannot run {program} on {}: {what}: {reason}\n", room.args.host);
            deputy.end(channel::order(abi::OP_EXIT, [status, 0], &[]), Some(&words));
        }
    }
}

fn exited(room: &Shared, pid: i32, how: Ending) {
    if let Some(deputy) = room.table().deputies.get_mut(&pid) {
        let packet = match how {
            Ending::Exit(status) => channel::order(abi::OP_EXIT, [u64::from(status), 0], &[]),
            Ending::Signal(signal) => channel::order(abi::OP_DIE, [u64::from(signal), 0], &[]),
        };
        deputy.end(packet, None);
    }
}

/// The deputy shows what the body runs now.
fn exec(room: &Shared, pid: i32, arguments: &[u8], comm: &[u8], exe: &[u8]) {
    const PR_SET_NAME: u64 = 15;
    let mut table = room.table();
    let Some(deputy) = table.deputies.get_mut(&pid) else { return };
    deputy.program.argv = arguments.split(|b| *b == 0).filter(|a| !a.is_empty()).map(<[u8]>::to_vec).collect();
    deputy.give_any(Job::new(channel::program(arguments, exe), Purpose::Nothing));
    let mut name = comm[..comm.len().min(15)].to_vec();
    name.push(0);
    let call = Call {
        nr: libc::SYS_prctl as u32,
        args: [PR_SET_NAME, 0, 0, 0, 0, 0],
        pointers: 0b10,
        data: name,
        out_offset: 0,
        out_bytes: 0,
        out_per_result: 0,
    };
    if let Some(packet) = channel::call(&call) {
        deputy.give_any(Job::new(packet, Purpose::Nothing));
    }
}
