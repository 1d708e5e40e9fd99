//! What follows from the result of a forwarded call: memory that it wrote, descriptors that it
//! made, more to send. [`After`] says which of these a call needs.

use crate::calls::adoption::adopt;
use crate::calls::delivery;
use crate::calls::delivery::Arrived;
use crate::calls::served::sysv;
use crate::calls::served::sysv::IpcReply;
use crate::sandbox::guest_memory;
use crate::sandbox::spares::Spare;
use crate::state::calls::after::{After, Limited, Made};
use crate::state::calls::marshal::{Back, unpack};
use crate::state::calls::message::received::Received;
use crate::state::due_before_return::{Descriptor, Due};
use crate::state::going_home::HomeCall;
use crate::state::guests::{Accepted, Waiting, Who};
use crate::state::pending::{ERESTARTNOINTR, Pending};
use crate::state::shared::Shared;
use os::ptrace::HostTid;
use os::seccomp::{Answer, Given};
use room_protocol::message::{Call, CallId, StandinId};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Does it: the result that the guest gets, or `None` if it has got it already, or its call goes
/// on.
pub fn apply(room: &Shared, id: CallId, result: i64, out: &[u8]) -> Option<i64> {
    let (host, waiting, after) = room.home.after(id)?;
    Some(match after {
        After::Write(back) | After::WriteElseHere(back) if write(host, &back, out) => result,
        After::Write(_) | After::WriteElseHere(_) => -i64::from(libc::EFAULT),
        After::Here | After::Sought { .. } | After::Watched(_) => result,
        After::Result(_) | After::Compare(_) if result < 0 => result,
        After::Result(result) => result,
        After::Compare(compared) => compared.result(),
        After::KeepsCapabilities(keeps) => {
            room.owed.add(host, Due::KeepsCapabilities(keeps));
            result
        }
        After::Nice { host, value } => {
            // SAFETY: numbers only. A thread that is gone needs none.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, host.0 as libc::id_t, value.clamp(0, 19)) };
            result
        }
        After::Scheduled(follow) => {
            follow.run();
            result
        }
        After::Limited(of, back) => {
            limit(room, of);
            if write(host, &back, out) { result } else { -i64::from(libc::EFAULT) }
        }
        After::HereIfAbsent { makes: true, .. } if result >= 0 => -i64::from(libc::EEXIST),
        After::HereIfAbsent { pid, .. } => {
            if let Some(guest) = room.guests().get_mut(pid).filter(|_| result >= 0) {
                guest.memory_of_home.insert(result as i32);
            }
            result
        }
        After::HomeIfThere { pid, nr } => {
            let call = |waiting| HomeCall { waiting, nr, errno: libc::EINVAL, file: None, first: None };
            return go_home(room, id, pid, call);
        }
        After::HereElseHome { .. } if result >= 0 => result,
        After::HereElseHome { pid, nr, file } => {
            let call = |waiting| HomeCall { waiting, nr, errno: libc::ENODEV, file, first: None };
            return go_home(room, id, pid, call);
        }
        After::Descriptor(made) => return descriptor(room, id, &made, result as i32, out),
        After::Owed { who, number_at } => match adopt(room, who, result as i32, false) {
            Some(Spare { file, .. }) => {
                room.owed
                    .add(host, Due::Descriptor(Descriptor { file, close_on_exec: true, number_at, has_offset: false }));
                result
            }
            None => -i64::from(libc::ENFILE),
        },
        After::Ipc(then) => match sysv::reply(host, then, result, out) {
            IpcReply::Result(result) => result,
            IpcReply::Next { who, call, back } => {
                let interrupted = -i64::from(libc::EINTR);
                return go_on(room, id, who, *call, After::Write(back)).err().map(|Interrupted| interrupted);
            }
        },
        After::Received(incoming) => match Received::of(&incoming, result, out) {
            Some(received) => return look(room, id, host, waiting, received),
            None => delivery::deliver(room, &incoming, &Arrived { host, waiting: waiting.as_ref(), result, out }),
        },
        After::Looking(mut received) => {
            received.hear(result, out);
            return look(room, id, host, waiting, *received);
        }
        After::Sent(mut outgoing) => {
            let who = outgoing.who;
            match outgoing.next(result) {
                None => outgoing.total(result),
                Some(Err(errno)) => outgoing.total(-i64::from(errno)),
                Some(Ok(call)) => {
                    let sent = outgoing.total(0);
                    return go_on(room, id, who, call, After::Sent(outgoing)).err().map(|Interrupted| sent);
                }
            }
        }
        After::Series(mut series) => {
            let who = series.who;
            match delivery::step(room, &mut series, &Arrived { host, waiting: waiting.as_ref(), result, out }) {
                Err(all) => all,
                Ok(call) => {
                    let done = series.all(-i64::from(libc::EINTR));
                    return go_on(room, id, who, call, After::Series(series)).err().map(|Interrupted| done);
                }
            }
        }
    })
}

/// Asks home about a descriptor that came; when all are known, or the caller was interrupted, the
/// message is given.
fn look(room: &Shared, id: CallId, host: HostTid, waiting: Option<Waiting>, received: Received) -> Option<i64> {
    if let Some(call) = received.ask()
        && go_on(room, id, received.who(), call, After::Looking(Box::new(received.clone()))).is_ok()
    {
        return None;
    }
    Some(delivery::deliver_received(room, received, host, waiting.as_ref()))
}

fn write(host: HostTid, back: &[Back], out: &[u8]) -> bool {
    unpack(back, out).all(|(to, bytes)| guest_memory::write(host.0, to, bytes).is_ok())
}

/// A process that lives here follows the limit that its deputy has.
fn limit(room: &Shared, of: Limited) {
    let Limited { target, which, limit } = of;
    let mut guests = room.guests();
    let Some(host) = guests.host(target) else { return };
    let pid = guests.who(host).map_or(target, |who| who.pid);
    match which {
        libc::RLIMIT_NPROC => {}
        libc::RLIMIT_MEMLOCK => guests.limit_locked(pid, |locked| locked.limit = limit),
        _ => {
            if let Err(e) = os::process::limit(host.0, which, limit) {
                tracing::debug!("{e}");
            }
        }
    }
}

/// Has the caller go on at home; its call is made again here if it does not wait any more.
fn go_home(room: &Shared, id: CallId, pid: i32, call: impl FnOnce(Waiting) -> HomeCall) -> Option<i64> {
    match room.home.expected(id)? {
        Pending::Notified { waiting, .. } => {
            room.going_home.go(&room.home, pid, call(waiting));
            None
        }
        held => {
            room.home.expect_again(id, held);
            Some(ERESTARTNOINTR)
        }
    }
}

/// A new descriptor: the guest's call returns it, exactly once. What an interrupted call had
/// accepted is kept for the next.
fn descriptor(room: &Shared, id: CallId, made: &Made, fd: i32, out: &[u8]) -> Option<i64> {
    let Some(spare) = adopt(room, made.who, fd, made.nonblocking) else { return Some(-i64::from(libc::ENFILE)) };
    // From here on the listener alone decides whether the caller still waits.
    let accepted = Accepted { spare, out: out.to_vec() };
    match room.home.expected(id)? {
        Pending::Notified { waiting, .. } => hand_over(room, &waiting, made, accepted),
        held => {
            keep(room, made, accepted);
            room.home.expect_again(id, held);
            return Some(-i64::from(libc::EINTR));
        }
    }
    None
}

/// Ends a call by a descriptor.
pub fn hand_over(room: &Shared, waiting: &Waiting, made: &Made, accepted: Accepted) {
    if !write(waiting.host_tid, &made.back, &accepted.out) {
        waiting.answer(Answer::Value(-i64::from(libc::EFAULT)));
        return;
    }
    let file = accepted.spare.file.as_fd();
    let given = Given { file, close_on_exec: made.close_on_exec, answers: true };
    match os::seccomp::give(waiting.listener.as_fd(), waiting.id, given) {
        Ok(Some(_)) => {}
        Ok(None) => keep(room, made, accepted),
        Err(e) => waiting.answer(Answer::Value(-i64::from(e.errno()))),
    }
}

fn keep(room: &Shared, made: &Made, accepted: Accepted) {
    let Some(listener) = made.listener else { return };
    if let Some(guest) = room.guests().get_mut(made.who.pid) {
        guest.unclaimed.entry(listener).or_default().push_back(Arc::new(accepted));
    }
    room.standins.unclaimed(listener, true);
}

/// What an interrupted call on this listener had accepted.
pub fn claim(room: &Shared, who: Who, listener: StandinId) -> Option<Accepted> {
    let mut guests = room.guests();
    let kept = guests.get_mut(who.pid)?.unclaimed.get_mut(&listener)?;
    let accepted = kept.pop_front();
    let more = !kept.is_empty();
    drop(guests);
    room.standins.unclaimed(listener, more);
    Arc::into_inner(accepted?)
}

/// The guest waits no more.
pub struct Interrupted;

/// Makes the next of several calls for one of a guest's, which natively would not return before.
pub fn go_on(room: &Shared, id: CallId, who: Who, call: Call, then: After) -> Result<(), Interrupted> {
    let next = room.home.expect_more(id, |pending| match pending {
        Pending::Notified { after, asked, .. } => {
            (*after, *asked) = (then, false);
            true
        }
        _ => false,
    });
    let id = next.ok_or(Interrupted)?;
    room.home.ask(id, who, call);
    Ok(())
}
