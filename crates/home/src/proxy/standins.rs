//! The open files behind the room's stand-ins: descriptors of deputies, and the steward's own hold
//! on their open files ("anchors"). A body may get a stand-in from another body without home
//! hearing of it; then its deputy takes the anchor when it first needs it.

use crate::deputy::channel;
use crate::deputy::closes::Closes;
use crate::deputy::job::{Job, Purpose};
use crate::deputy::record::{Deputy, Phase};
use crate::deputy::table::{Anchor, DeputyTable};
use crate::room::orders::Order;
use crate::room::state::Room;
use room_protocol::message::{Call, CallId, StandinId};
use std::collections::HashMap;
use std::time::Instant;

/// A descriptor that a call returned has a stand-in now. It is held at once: a child whose deputy
/// was made before may ask for it next.
pub fn adopt(room: &Room, pid: i32, fd: i32, standin: StandinId) {
    room.table().took(pid, fd, standin);
    room.anchor(pid, fd, standin);
}

/// Puts the deputy's own numbers into a call. `Err`: a stand-in that it has no descriptor for.
pub fn resolve(call: &mut Call, deputy: &Deputy) -> Result<(), StandinId> {
    let number = |standin: StandinId| deputy.standins.get(&standin).and_then(|fds| fds.first()).copied().ok_or(standin);
    if let Some(standin) = call.standin {
        call.args[0] = number(standin)? as u64;
    }
    if let Some((at, standin)) = call.also
        && let Some(argument) = call.args.get_mut(usize::from(at))
    {
        *argument = number(standin)? as u64;
    }
    for (at, standin) in &call.passed {
        let at = *at as usize;
        if let Some(word) = call.data.get_mut(at..at + 4) {
            word.copy_from_slice(&number(*standin)?.to_le_bytes());
        }
    }
    Ok(())
}

/// Has a deputy thread take the descriptor of a stand-in, for a call that needs it.
pub fn take(anchors: &HashMap<StandinId, Anchor>, standin: StandinId, id: CallId, call: Call) -> Result<Job, i32> {
    let anchor = anchors.get(&standin).ok_or(libc::EBADF)?;
    let file = anchor.file.try_clone().map_err(|_| libc::EMFILE)?;
    let purpose = Purpose::Take { id, standin, call: Box::new(call) };
    Ok(Job::with_fd(channel::order(abi::OP_TAKE, [0; 2], &[]), file, purpose))
}

/// Nobody in the room has it any more: the deputies close theirs. What the program does next it
/// must find done, so later calls wait for it ([`crate::deputy::closes`]); a process that had it
/// too, and waits for something else, is interrupted for it.
///
/// The room's kernel tells of a close some time after it, and a fork of the same process may come
/// first. A child of a deputy that forks meanwhile has the descriptor, too: such a deputy closes
/// when the child is known ([`forked`]).
pub fn close(room: &Room, standin: StandinId) {
    // Before the deputies: the last one to close it is theirs, and its peers are to be told then.
    room.release(standin);
    close_everywhere(&mut room.table(), standin);
    // Once more, behind a request to watch it that is still to be obeyed.
    room.poller.order(Order::Release(standin));
}

/// Has all deputies close it that have it.
pub fn close_everywhere(table: &mut DeputyTable, standin: StandinId) {
    let DeputyTable { deputies, closes, .. } = table;
    for deputy in deputies.values_mut().filter(|d| d.phase == Phase::Away) {
        if deputy.forks > 0 && deputy.standins.contains_key(&standin) {
            deputy.late_closes.push((standin, closes.begin(0)));
        } else {
            close_in(deputy, standin, closes);
        }
    }
}

/// A fork has ended, and its child, if there is one, is in the table: parent and child make the
/// closes that waited for that.
pub fn forked(table: &mut DeputyTable, parent: i32) {
    let Some(parent) = table.deputies.get_mut(&parent) else { return };
    parent.forks = parent.forks.saturating_sub(1);
    if parent.forks == 0 {
        let late = std::mem::take(&mut parent.late_closes);
        late.into_iter().for_each(|(standin, _)| close_everywhere(table, standin));
    }
}

fn close_in(deputy: &mut Deputy, standin: StandinId, closes: &mut Closes) {
    for fd in deputy.standins.remove(&standin).unwrap_or_default() {
        if fd == libc::STDERR_FILENO {
            deputy.stderr = deputy.pidfd.get_fd(fd).ok().map(|file| (Instant::now(), file));
        }
        let call = Call::new(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        if let Some(packet) = channel::call(&call) {
            let purpose = deputy.soonest().map_or(Purpose::Nothing, |tid| Purpose::Close(closes.begin(tid)));
            deputy.give_soon(Job::new(packet, purpose));
        }
    }
}
