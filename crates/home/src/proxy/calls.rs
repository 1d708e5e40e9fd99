//! Calls of bodies, which their deputies make.

use crate::deputy::closes::BodyCall;
use crate::deputy::job::{Job, Purpose};
use crate::deputy::table::DeputyTable;
use crate::deputy::{channel, closes, rights};
use crate::proxy::standins;
use crate::room::state::Room;
use crate::room::streams;
use homefs::server::FileId;
use room_protocol::ToRoom;
use room_protocol::message::{Call, CallId};
use std::time::Duration;

/// Signals that a deputy thread may block during a call: those of job control.
const JOB_STOPS: u32 = 1 << (libc::SIGTSTP - 1) | 1 << (libc::SIGTTIN - 1) | 1 << (libc::SIGTTOU - 1);

/// Forwards calls on a file that stays at home, and leaves all others to the kernel here.
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
                // Such a call would lay memory over the deputy's.
                && row.name != "shmat"
        })
}

/// Has the deputy thread make this call; or refuses it.
pub fn forward(room: &Room, id: CallId, pid: i32, tid: i32, call: Call) {
    if i64::from(call.nr) == libc::SYS_mmap {
        // May it map this file there, shared?
        let file = FileId { inode: call.args[0], device: call.args[1] };
        let is_held = room.link.files().is_some_and(|server| server.hold(file));
        let result = if is_held { 0 } else { -i64::from(libc::EBUSY) };
        return room.tell(&ToRoom::Return { id, result, out: Vec::new(), ready: None });
    }
    if i64::from(call.nr) == libc::SYS_shutdown {
        call.standin.into_iter().for_each(|standin| streams::settle(room, standin));
    }
    let mut table = room.table();
    if table.closes.delays(tid) {
        table.closes.delay(BodyCall { id, pid, tid, call });
        drop(table);
        // The poller has the call made when it need not wait any more.
        return room.poller.wake();
    }
    let forwarded = try_forward(&mut table, id, pid, tid, call);
    drop(table);
    if let Err(errno) = forwarded {
        room.tell(&ToRoom::Return { id, result: -i64::from(errno), out: Vec::new(), ready: None });
    }
}

/// Makes the calls that had to wait for closes and need not any more; returns how soon it is to be
/// looked again.
pub fn forward_delayed(room: &Room) -> Option<Duration> {
    let due = room.table().closes.take_due();
    for BodyCall { id, pid, tid, call } in due {
        forward(room, id, pid, tid, call);
    }
    room.table().closes.is_awaited().then_some(closes::LOOK)
}

fn try_forward(table: &mut DeputyTable, id: CallId, pid: i32, tid: i32, mut call: Call) -> Result<(), i32> {
    if !may_be_forwarded(call.nr) {
        return Err(libc::EINVAL);
    }
    if i64::from(call.nr) == libc::SYS_setpgid && is_late(table, pid, &call) {
        return Err(libc::EACCES);
    }
    call.blocked &= JOB_STOPS;
    let DeputyTable { deputies, anchors, calls, .. } = table;
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
fn is_late(table: &DeputyTable, pid: i32, call: &Call) -> bool {
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
