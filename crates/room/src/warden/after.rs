//! What follows from the result of a forwarded call: memory that it wrote, descriptors that it
//! made, more to send.

use super::calls::sysv;
use super::compared::Compared;
use super::due_before_return::{Descriptor, Due};
use super::going_home::{self, HomeCall};
use super::guests::{Accepted, Waiting, Who};
use super::home::ERESTARTNOINTR;
use super::marshal::{Back, unpack};
use super::message::{Incoming, Outgoing, Received, Series};
use super::scheduled::Follow;
use super::shared::{Pending, Shared};
use super::spares::Spare;
use crate::guest_memory;
use os::process::Limit;
use os::ptrace::HostTid;
use os::seccomp::{Answer, Given};
use room_protocol::ToHome;
use room_protocol::message::{Call, CallId, StandinId};
use std::os::fd::AsFd;
use std::sync::Arc;

/// What is to be done when a call succeeded.
#[derive(Clone, Debug)]
pub enum After {
    /// These bytes go into the guest's memory.
    Write(Vec<Back>),
    /// The same; if home fails, the hosting kernel makes the call.
    WriteElseHere(Vec<Back>),
    /// The hosting kernel makes the same call.
    Here,
    /// The same, if home said that there is no shared memory of this key there; else its number is
    /// home's.
    HereIfAbsent {
        /// Who made the call.
        pid: i32,
        /// The call makes memory that is not there yet, or fails.
        makes: bool,
    },
    /// The process goes home for its call, if what that is about is there.
    HomeIfThere {
        /// Who made the call.
        pid: i32,
        /// The number that it has.
        nr: u32,
    },
    /// Home's open file is somewhere else now: so is the hosting kernel's, if it comes to the same
    /// offset. (It does not if others have moved home's.)
    Sought {
        /// What stands for it.
        standin: StandinId,
        /// Where the kernel here comes to, if that is known.
        expected: Option<u64>,
    },
    /// The thread here keeps its capabilities through a change of user, or does not, as at home
    /// (PR_SET_KEEPCAPS).
    KeepsCapabilities(bool),
    /// A thread here gets the nice value that its deputy has.
    Nice {
        /// TID of the thread on this node.
        host: HostTid,
        /// The value that is set.
        value: i32,
    },
    /// Home has said what this is ready for, before the hosting kernel asks.
    Watched(StandinId),
    /// A thread here is scheduled as its deputy.
    Scheduled(Follow),
    /// These bytes go into the guest's memory, and a process that may live here has another limit.
    Limited(Limited, Vec<Back>),
    /// Home lets the caller know: this is the result, ...
    Result(i64),
    /// ... or what the kernel here says of these.
    Compare(Compared),
    /// The result is a descriptor of the deputy.
    Descriptor(Arc<Made>),
    /// The same; its thread takes it when its own call is over, and gets the number there.
    Owed {
        /// The thread whose call it is.
        who: Who,
        /// Where in its memory.
        number_at: u64,
    },
    /// A message was received.
    Received(Arc<Incoming>),
    /// Home says what the descriptors are that came with it.
    Looking(Box<Received>),
    /// A message was sent, or the first part of one.
    Sent(Box<Outgoing>),
    /// One of several messages was sent or received.
    Series(Box<Series>),
    /// The hosting kernel makes the call, if home says so; else it is made at home.
    HereElseHome {
        /// Process that makes it.
        pid: i32,
        /// The number of the system call.
        nr: u32,
        /// The file that the call is about, for people.
        file: Option<Vec<u8>>,
    },
    /// A System V object was asked.
    Ipc(sysv::Then),
}

/// A limit that home has set.
#[derive(Clone, Copy, Debug)]
pub struct Limited {
    /// Process or thread of home's.
    pub target: i32,
    /// Number of the limit (`RLIMIT_`).
    pub which: u32,
    /// What it is now.
    pub limit: Limit,
}

/// A descriptor that a call makes.
#[derive(Clone, Debug)]
pub struct Made {
    /// The thread whose call it is.
    pub who: Who,
    /// Whether SOCK_NONBLOCK was given.
    pub nonblocking: bool,
    /// Whether SOCK_CLOEXEC was given.
    pub close_on_exec: bool,
    /// Where it was taken from, if it would be lost with its call.
    pub listener: Option<StandinId>,
    /// Other bytes that the call wrote.
    pub back: Vec<Back>,
}

impl After {
    /// Home has done its part, and the hosting kernel makes the same call.
    pub fn goes_on_here(&self, result: i64) -> bool {
        match self {
            After::Here | After::HereElseHome { .. } => result >= 0,
            After::HereIfAbsent { .. } => result == -i64::from(libc::ENOENT),
            After::Watched(_) => true,
            After::WriteElseHere(_) => {
                ![-i64::from(libc::EFAULT), -i64::from(libc::EINTR)].contains(&result) && result < 0
            }
            _ => false,
        }
    }

    /// It touches the guest: to be left to the thread that may wait for that.
    pub fn takes_time(&self, result: i64) -> bool {
        match self {
            After::Write(back) | After::WriteElseHere(back) => result >= 0 && !back.is_empty(),
            After::Here | After::Sought { .. } | After::Watched(_) => false,
            After::KeepsCapabilities(_)
            | After::Nice { .. }
            | After::Limited(..)
            | After::Scheduled(_)
            | After::Result(_)
            | After::Compare(_)
            | After::Descriptor(_)
            | After::Owed { .. }
            | After::Received(_) => result >= 0,
            After::Sent(outgoing) => outgoing.is_part(),
            After::Series(_) | After::HereIfAbsent { .. } | After::Ipc(_) | After::Looking(_) => true,
            After::HomeIfThere { .. } => result >= 0,
            After::HereElseHome { .. } => result < 0,
        }
    }
}

/// Does it: the result that the guest gets, or `None` if it has got it already, or its call goes
/// on.
pub fn apply(room: &Shared, id: CallId, result: i64, out: &[u8]) -> Option<i64> {
    let (host, waiting, after) = room.after(id)?;
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
        After::Ipc(then) => return sysv::follow(room, (id, host), then, (result, out)),
        After::Received(incoming) => match Received::of(&incoming, result, out) {
            Some(received) => return look(room, id, host, waiting, received),
            None => incoming.deliver(room, host, waiting.as_ref(), result, out),
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
            match series.step(room, host, waiting.as_ref(), result, out) {
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
        && go_on(room, id, received.who(), call, received.clone().then()).is_ok()
    {
        return None;
    }
    Some(received.deliver(room, host, waiting.as_ref()))
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

/// Makes a stand-in of a descriptor that home made for a guest.
pub fn adopt(room: &Shared, who: Who, fd: i32, nonblocking: bool) -> Option<Spare> {
    let spare = room.spares.take()?;
    if nonblocking && let Err(e) = os::fds::set_nonblocking(spare.file.as_fd(), true) {
        tracing::warn!("{e}");
    }
    Some(adopted(room, who, fd, spare))
}

/// The stand-in is that of this descriptor of home's.
pub fn adopted(room: &Shared, who: Who, fd: i32, spare: Spare) -> Spare {
    if let Some(guest) = room.guests().get_mut(who.pid) {
        guest.numbers.insert(spare.standin, fd);
    }
    room.tell(&ToHome::Adopt { pid: who.pid, fd, standin: spare.standin });
    spare
}

/// A new descriptor: the guest's call returns it, exactly once. What an interrupted call had
/// accepted is kept for the next. The caller goes on at home; or its call is made again, if it does
/// not wait any more.
fn go_home(room: &Shared, id: CallId, pid: i32, call: impl FnOnce(Waiting) -> HomeCall) -> Option<i64> {
    match room.expected(id)? {
        Pending::Notified { waiting, .. } => {
            going_home::go(room, pid, call(waiting));
            None
        }
        held => {
            room.expect_again(id, held);
            Some(ERESTARTNOINTR)
        }
    }
}

fn descriptor(room: &Shared, id: CallId, made: &Made, fd: i32, out: &[u8]) -> Option<i64> {
    let Some(spare) = adopt(room, made.who, fd, made.nonblocking) else { return Some(-i64::from(libc::ENFILE)) };
    // From here on the listener alone decides whether the caller still waits.
    let accepted = Accepted { spare, out: out.to_vec() };
    match room.expected(id)? {
        Pending::Notified { waiting, .. } => hand_over(room, &waiting, made, accepted),
        held => {
            keep(room, made, accepted);
            room.expect_again(id, held);
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
    let next = room.expect_more(id, |pending| match pending {
        Pending::Notified { after, asked, .. } => {
            (*after, *asked) = (then, false);
            true
        }
        _ => false,
    });
    let id = next.ok_or(Interrupted)?;
    room.ask(id, who, call);
    Ok(())
}
