//! What the room says, and what follows from it. Runs in threads that serve files with borrowed
//! rights: nothing here needs privilege.

use super::channel;
use super::deputies::{Job, Phase, Purpose, is_job_stop};
use super::mounts::SHARED_MEMORY;
use super::moves::{Called, Commons, Heard, Pages};
use super::orders::Order;
use super::processes::Inquiry;
use super::rights;
use super::shared::{Shared, Table};
use super::standins;
use link::Body;
use room_protocol::message::onward::Said;
use room_protocol::message::{Birth, Call, CallId, Cause, Ending};
use room_protocol::{Refusal, ToHome, ToRoom};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Obeys one message. `Err`: why the room is to end.
pub fn obey(room: &Shared, message: ToHome) -> Result<(), String> {
    match message {
        ToHome::Clock => room.tell(&super::setup::told_clocks()),
        ToHome::Hello { .. } => return Err("the room introduced itself twice".into()),
        ToHome::RoomReady => room.ready(),
        ToHome::RoomFailed { reason } => return Err(reason),
        ToHome::Placed { pid, result } => {
            // A file of a process that still runs elsewhere may be gone when it is opened, or
            // another one.
            let refusal = |(errno, what): &(i32, String)| Refusal {
                why: format!("{what}: {}", std::io::Error::from_raw_os_error(*errno)),
                fleeting: [libc::ENOENT, libc::ESTALE].contains(errno),
            };
            if !room.moves.tell(pid, Heard::Placed(result.as_ref().copied().map_err(refusal))) {
                placed(room, pid, result);
            }
        }
        ToHome::Taken { pid, bytes } => drop(room.moves.tell(pid, Heard::Taken(bytes))),
        ToHome::Stocked { pid, pages } => drop(room.moves.tell(pid, Heard::Stocked(pages))),
        ToHome::LaidOut { pid, result } => drop(room.moves.tell(pid, Heard::LaidOut(result))),
        ToHome::Rebuilt { pid, result } => drop(room.moves.tell(pid, Heard::Rebuilt(result))),
        ToHome::Whole { pid, result } => drop(room.moves.tell(pid, Heard::Whole(result))),
        ToHome::Leaving { pid, own_bytes } => drop(room.moves.tell(pid, Heard::Leaving(own_bytes))),
        ToHome::Standing { pid, tids, noticed } => drop(room.moves.tell(pid, Heard::Standing(tids, noticed))),
        ToHome::Share { pid, files, pipes, pairs } => drop(room.moves.tell(pid, Heard::Share(files, pipes, pairs))),
        ToHome::Passes { pid, files, pipes, pairs } => {
            room.poller.order(Order::TakeOver { pid, commons: Commons { files, pipes, pairs } });
        }
        ToHome::Yielded { inode } => {
            room.files.get().into_iter().for_each(|server| server.let_go_held(Path::new(SHARED_MEMORY), inode));
        }
        ToHome::Shares { pid, others, memories } => drop(room.moves.tell(pid, Heard::Shares(others, memories))),
        ToHome::Locked { pid, files } => drop(room.moves.tell(pid, Heard::Locked(files))),
        ToHome::Onward { pid, said } => {
            if let Said::Complete { result: Err(why), .. } = &said {
                room.break_off(pid, why);
            }
            room.moves.tell(pid, Heard::Onward(said));
        }
        ToHome::GoesHome { pid, first, errand } => {
            room.poller.order(Order::BringHome(Called { pid, first, errand }));
        }
        ToHome::Fetch { pid, ranges } => room.lenders.with(pid, |lender| lender.ask(&ranges)),
        ToHome::Filled { pid } => room.lenders.with(pid, checkpoint::Lender::arrived),
        ToHome::Enough { pid, loan } => room.lenders.enough(pid, loan),
        ToHome::Drained { pid, loan, result } => drop(room.moves.tell(pid, Heard::Drained { loan, result })),
        ToHome::Runs { pid, since_ns } => drop(room.moves.tell(pid, Heard::Runs(then(since_ns)))),
        ToHome::Left { pid } => drop(room.moves.tell(pid, Heard::Left)),
        ToHome::Call { id, pid, tid, call } => forward(room, id, pid, tid, call),
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
        ToHome::Exited { pid, how, cause, .. } => exited(room, pid, how, words_for(room, pid, cause)),
        ToHome::Exec { pid, arguments, comm, exe } => exec(room, pid, &arguments, &comm, &exe),
        ToHome::Watch { id, pid, standin } => room.poller.order(Order::Watch { id, pid, standin }),
        ToHome::LookAt { id, path, look } => room.poller.order(Order::LookAt { id, path, look }),
        ToHome::LocksOf { id, pid, inode } => room.inquire(id, Inquiry::Locks { pid, inode }),
        ToHome::WriteProc { id, pid, path, bytes } => room.inquire(id, Inquiry::Write { pid, path, bytes }),
        ToHome::Inspect { id, pid, path, look } => room.inquire(id, Inquiry::Look { pid, path, look }),
        ToHome::NameOf { id, standin } => room.inquire(id, Inquiry::Name(standin)),
        ToHome::Adopt { pid, fd, standin } => standins::adopt(room, pid, fd, standin),
        ToHome::Close { standin } => standins::close(room, standin),
        ToHome::Surroundings { pid, tid, cwd, inode, umask } => surroundings(room, (pid, tid), cwd, inode, umask),
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

/// When it was so by this machine's monotonic clock; not in the future, and not long ago: another
/// machine says so.
fn then(monotonic_ns: i64) -> Instant {
    const LONGEST_NS: i64 = 60_000_000_000;
    let ago_ns = os::namespace::clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(monotonic_ns).clamp(0, LONGEST_NS);
    let now = Instant::now();
    now.checked_sub(Duration::from_nanos(ago_ns as u64)).unwrap_or(now)
}

/// A part of the image of a process that comes home.
pub fn image_part(room: &Shared, body: &[u8]) {
    if let Some((pid, last, bytes)) = room_protocol::page_frames::part(body) {
        room.moves.tell(pid, Heard::Part(bytes.to_vec(), last));
    }
}

/// Pages of a process that comes home.
pub fn image_pages(room: &Shared, body: Body, wire_bytes: u32) {
    if let Some((pid, pages)) = Pages::of(body) {
        room.moves.count_wire(pid, wire_bytes.into());
        room.moves.tell(pid, Heard::Pages(pages));
    }
}

/// Pages of a process that are here from before it left.
pub fn pages_stocked(room: &Shared, body: &[u8]) {
    if let Some((pid, runs)) = room_protocol::page_frames::later(body) {
        room.moves.tell(pid, Heard::There(runs));
    }
}

/// Pages of a process that may be the same when it stops.
pub fn pages_advance(room: &Shared, body: Body, wire_bytes: u32) {
    if let Some((pid, number, pages)) = Pages::advance(body) {
        room.moves.count_wire(pid, wire_bytes.into());
        room.moves.tell(pid, Heard::Advance(number, pages));
    }
}

/// Pages of a process that come, and are full.
pub fn pages_dense(room: &Shared, body: &[u8]) {
    if let Some((pid, runs)) = room_protocol::page_frames::later(body) {
        room.moves.tell(pid, Heard::Dense(runs));
    }
}

/// Pages of a process that will follow it home.
pub fn pages_later(room: &Shared, body: &[u8]) {
    if let Some((pid, runs)) = room_protocol::page_frames::later(body) {
        room.moves.tell(pid, Heard::Later(runs));
    }
}

/// Pages that a process that runs at home again never had.
pub fn pages_vacant(room: &Shared, body: &[u8]) {
    let Some((pid, runs)) = room_protocol::page_frames::later(body) else { return };
    let pager = room.pagers().get(&pid).cloned();
    if let Some(pager) = pager {
        pager.vacate(&runs);
    }
}

/// Pages of a process that runs at home again.
pub fn pages_pushed(room: &Shared, body: &[u8], wire_bytes: u32) {
    let Some((pages, zeros)) = room_protocol::page_frames::pushed(body) else { return };
    room.moves.count_wire(pages.pid, wire_bytes.into());
    let pager = room.pagers().get(&pages.pid).cloned();
    if let Some(pager) = pager {
        pager.put_zeros(&zeros);
        pager.put(&pages.runs, pages.bytes);
    }
    room.tell(&ToRoom::Filled { pid: pages.pid });
}

/// What is done with a file that stays home; local calls to all others.
const OF_FILES: [i64; 15] = [
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_utimensat,
    libc::SYS_fstatfs,
    libc::SYS_fgetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_flistxattr,
    libc::SYS_fremovexattr,
    libc::SYS_flock,
];

/// Calls that a room may ask for. The hosting node has the body in its hands, so it may do what the
/// body may; but the deputy must not be made to change what the steward relies on.
fn may_be_forwarded(nr: u32) -> bool {
    use systable::Class;
    let transfer = matches!(i64::from(nr), libc::SYS_read | libc::SYS_write | libc::SYS_poll | libc::SYS_openat);
    transfer
        || OF_FILES.contains(&i64::from(nr))
        || systable::row(nr).is_some_and(|row| {
            matches!(row.class, Class::Home | Class::Special(_))
                && row.class != Class::Special(systable::Special::Clone)
                // It would lay memory over the deputy's.
                && row.name != "shmat"
        })
}

/// Has the deputy thread make this call; or refuses it.
pub fn forward(room: &Shared, id: CallId, pid: i32, tid: i32, call: Call) {
    if i64::from(call.nr) == libc::SYS_mmap {
        // May it map this file there, shared?
        let path = Path::new(SHARED_MEMORY);
        let is_held = room.files.get().is_some_and(|server| server.hold(path, call.args[0]));
        let result = if is_held { 0 } else { -i64::from(libc::EBUSY) };
        return room.tell(&ToRoom::Return { id, result, out: Vec::new(), ready: None });
    }
    if let Err(errno) = try_forward(&mut room.table(), id, pid, tid, call) {
        room.tell(&ToRoom::Return { id, result: -i64::from(errno), out: Vec::new(), ready: None });
    }
}

fn try_forward(table: &mut Table, id: CallId, pid: i32, tid: i32, mut call: Call) -> Result<(), i32> {
    if !may_be_forwarded(call.nr) {
        return Err(libc::EINVAL);
    }
    if i64::from(call.nr) == libc::SYS_setpgid && is_late(table, pid, &call) {
        return Err(libc::EACCES);
    }
    call.blocked &= JOB_STOPS;
    let Table { deputies, anchors, calls, .. } = table;
    let deputy = deputies.get_mut(&pid).ok_or(libc::ESRCH)?;
    deputy.calls += 1;
    let job = match standins::resolve(&mut call, deputy) {
        Ok(()) => {
            let purpose =
                Purpose::Call { id, nr: call.nr, standin: call.standin, securebits: rights::securebits(&call) };
            Job::new(channel::call(&call).ok_or(libc::EINVAL)?, purpose).made_again(may_be_made_again(&call))
        }
        Err(missing) => standins::take(anchors, missing, id, call)?,
    };
    // On no other: what a thread may do (its user, its blocked signals, what it waits for) is its
    // own.
    deputy.own_thread(tid).ok_or(libc::ESRCH)?.give(job);
    calls.insert(id, (pid, tid));
    Ok(())
}

/// The group of a child is its own to choose when that has executed a program (setpgid(2)). Its
/// deputy has executed none: the kernel would allow it.
fn is_late(table: &Table, pid: i32, call: &Call) -> bool {
    let [child, _, told, ..] = call.args;
    let child = child as i32;
    // The room may say so before it has told of the program.
    let has_executed = table.deputies.get(&child).is_some_and(|deputy| told != 0 || deputy.has_executed);
    child != pid && has_executed && os::process::status(child).is_ok_and(|status| status.ppid == pid)
}

/// A call that waits for something to come and has done nothing until then: it can be interrupted,
/// and made again, without anybody's notice.
fn may_be_made_again(call: &Call) -> bool {
    match i64::from(call.nr) {
        libc::SYS_read | libc::SYS_accept | libc::SYS_accept4 | libc::SYS_wait4 | libc::SYS_waitid => true,
        libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_msgsnd | libc::SYS_msgrcv => true,
        libc::SYS_recvmsg => call.args[2] & libc::MSG_WAITALL as u64 == 0,
        _ => false,
    }
}

/// The thread's next call finds its body's working directory and umask.
fn surroundings(room: &Shared, (pid, tid): (i32, i32), cwd: Vec<u8>, inode: Option<u64>, umask: u32) {
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

/// Signals that a deputy thread may block during a call: those of job control.
const JOB_STOPS: u32 = 1 << (libc::SIGTSTP - 1) | 1 << (libc::SIGTTIN - 1) | 1 << (libc::SIGTTOU - 1);

/// A stop of job control that the body does not handle: the deputy does what it does by default.
/// Not if it has been continued meanwhile.
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
    match table.deputies.get_mut(&pid).and_then(|d| d.own_thread(tid)) {
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
    let wait = Call::new(libc::SYS_wait4, [number as u64, 0, 0, 0, 0, 0]);
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
        Ok(()) if deputy.phase == Phase::Placing => {
            deputy.phase = Phase::Away;
            // Whether it is stopped is looked at from now on.
            room.poller.wake();
        }
        Ok(()) => {}
        Err((errno, what)) => {
            // As env(1) does: 127 not found, 126 not executable; else the tool's own failure.
            let status = match errno {
                libc::ENOENT => 127,
                libc::EACCES | libc::ENOEXEC | libc::EPERM | libc::ETXTBSY | libc::EISDIR => 126,
                _ => 125,
            };
            let program = String::from_utf8_lossy(&deputy.program.path).into_owned();
            let words = format!("tern: cannot run {program} on {}: {}\n", room.args.host, with_reason(&what, errno));
            deputy.end(channel::order(abi::OP_EXIT, [status, 0], &[]), Some(&words));
        }
    }
}

/// What failed, and the kernel's reason, if that is not said already.
fn with_reason(what: &str, errno: i32) -> String {
    let reason = std::io::Error::from_raw_os_error(errno).to_string();
    if errno == 0 || what.ends_with(&reason) { what.to_owned() } else { format!("{what}: {reason}") }
}

/// The most that is told of why another node's warden failed, characters.
const WHY_CHARS_MAX: usize = 400;

/// Words for the user about a body that tern or its node ended.
fn words_for(room: &Shared, pid: i32, cause: Cause) -> Option<String> {
    let host = &room.args.host;
    let what = match cause {
        Cause::Own => return None,
        Cause::Memory => "whose kernel killed it for want of memory".into(),
        Cause::Room => "where the first process of its room ended: it ends as if killed".into(),
        // Terminals obey what is no text.
        Cause::Warden { why } => {
            let why: String = why.chars().filter(|c| !c.is_control()).take(WHY_CHARS_MAX).collect();
            format!("where {why}; it ends as if killed")
        }
    };
    tracing::warn!("process {pid} ran on {host}, {what}");
    Some(format!("tern: process {pid} ran on {host}, {what}\n"))
}

/// Writes what a process is told to its standard error, which its deputy has closed already with
/// those of the body.
fn said_to_the_last(room: &Shared, pid: i32, words: &str) -> bool {
    let stderr = room.table().deputies.get_mut(&pid).and_then(|deputy| deputy.stderr.take());
    let Some((_, stderr)) = stderr else { return false };
    let words = words.to_owned();
    // The reader of standard error may make the heir wait.
    super::closing::briefly(move || {
        let _ = rustix::io::write(&stderr, words.as_bytes());
    });
    true
}

fn exited(room: &Shared, pid: i32, how: Ending, words: Option<String>) {
    room.leftovers.forget(pid);
    let words = words.filter(|words| !said_to_the_last(room, pid, words));
    if let Some(deputy) = room.table().deputies.get_mut(&pid) {
        deputy.stderr = None;
        let packet = match how {
            Ending::Exit(status) => channel::order(abi::OP_EXIT, [u64::from(status), 0], &[]),
            Ending::Signal(signal) => {
                if os::process::dumps_core(signal.into()) {
                    tracing::info!(
                        pid,
                        signal,
                        "no core is written: the memory of the program was on {}",
                        room.args.host
                    );
                }
                channel::order(abi::OP_DIE, [u64::from(signal), 0], &[])
            }
        };
        match deputy.lends {
            // Its children may miss pages that it has.
            true => {
                deputy.ends_with = Some(packet);
                words.into_iter().for_each(|words| deputy.say(&words));
            }
            false => deputy.end(packet, words.as_deref()),
        }
    }
}

/// The deputy shows what the body runs now.
fn exec(room: &Shared, pid: i32, arguments: &[u8], comm: &[u8], exe: &[u8]) {
    const PR_SET_NAME: u64 = 15;
    os::fault::past("exec");
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
    drop(table);
    rights::execute(room, pid);
}

#[cfg(test)]
mod tests {
    use super::with_reason;

    #[test]
    fn reasons_are_said_once() {
        assert_eq!(
            with_reason("executing the program", 2),
            "executing the program: No such file or directory (os error 2)"
        );
        let whole = "entering /x: No such file or directory (os error 2)";
        assert_eq!(with_reason(whole, 2), whole);
        assert_eq!(with_reason("odd bytes", 0), "odd bytes");
    }
}
