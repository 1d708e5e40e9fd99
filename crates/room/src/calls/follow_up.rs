//! What follows from the result of a forwarded call: memory that it wrote, descriptors that it
//! made, more to send. [`After`] says which of these a call needs.

use crate::calls::adoption::adopt;
use crate::calls::delivery;
use crate::calls::delivery::Arrived;
use crate::calls::served::sysv;
use crate::calls::served::sysv::IpcReply;
use crate::sandbox::guest_memory;
use crate::sandbox::spares::Spare;
use crate::state::calls::after::{After, IpcStep, Limited, Made};
use crate::state::calls::marshal::{Back, unpack};
use crate::state::calls::message::incoming::Incoming;
use crate::state::calls::message::outgoing::Outgoing;
use crate::state::calls::message::received::Received;
use crate::state::calls::message::series::Series;
use crate::state::due_before_return::{Descriptor, Due};
use crate::state::going_home::HomeCall;
use crate::state::guests::{Accepted, Waiting, Who};
use crate::state::pending::{ERESTARTNOINTR, Pending};
use crate::state::shared::Shared;
use os::ptrace::HostTid;
use os::seccomp::{Answer, Given};
use room_protocol::message::{Call, CallId, StandinId};
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError};

/// Does what follows from home's answer. Returns the result that the guest gets, or `None` if the
/// guest has it already or its call goes on.
pub fn apply(room: &Shared, id: CallId, result: i64, out: &[u8]) -> Option<i64> {
    let (host, waiting, after) = room.home.after(id)?;
    let call = AnsweredCall { room, id, arrived: Arrived { host, waiting: waiting.as_ref(), result, out } };
    Some(match after {
        After::Here | After::Sought { .. } | After::Watched(_) => result,
        After::Write(back) | After::WriteElseHere(back) => call.written(&back),
        After::Flags(_) | After::Result(_) | After::Compare(_) if result < 0 => result,
        After::Flags(new) => {
            let set = os::fds::set_flags(new.file.as_fd(), new.which, new.to);
            set.map_or_else(|e| -i64::from(e.errno()), |()| result)
        }
        After::Result(result) => result,
        After::Compare(compared) => compared.result(),
        After::KeepsCapabilities(keeps) => {
            room.owed.add(host, Due::KeepsCapabilities(keeps));
            result
        }
        After::Nice { host, value } => {
            set_nice(host, value);
            result
        }
        After::Scheduled(follow) => {
            follow.run();
            result
        }
        After::Limited(of, back) => {
            limit(room, of);
            call.written(&back)
        }
        After::HereIfAbsent { makes: true, .. } if result >= 0 => -i64::from(libc::EEXIST),
        After::HereIfAbsent { pid, .. } => {
            call.note_memory_of_home(pid);
            result
        }
        After::HereElseHome { .. } if result >= 0 => result,
        After::HomeIfThere { .. } | After::HereElseHome { .. } => return call.go_home(after),
        After::Descriptor(made) => return descriptor(room, id, &made, result as i32, out),
        After::Owed { who, number_at } => call.owe_descriptor(who, number_at),
        After::Ipc(then) => return call.continue_ipc(then),
        After::Received(incoming) => return call.receive(&incoming),
        After::Looking(mut received) => {
            received.hear(result, out);
            return call.look(*received);
        }
        After::Sent(outgoing) => return call.continue_sending(outgoing),
        After::Series(series) => return call.continue_series(series),
    })
}

/// A guest's call, and home's answer to what was forwarded of it.
struct AnsweredCall<'a> {
    room: &'a Shared,
    id: CallId,
    arrived: Arrived<'a>,
}

impl AnsweredCall<'_> {
    /// Writes home's bytes into the guest's memory. Returns the result of the call, or EFAULT.
    fn written(&self, back: &[Back]) -> i64 {
        let Arrived { host, result, out, .. } = self.arrived;
        if write(host, back, out) { result } else { -i64::from(libc::EFAULT) }
    }

    /// Notes that the shared memory whose number the call returned is home's.
    fn note_memory_of_home(&self, pid: i32) {
        let result = self.arrived.result;
        if let Some(guest) = self.room.guests().get_mut(pid).filter(|_| result >= 0) {
            guest.memory_of_home.insert(result as i32);
        }
    }

    /// Has the process go home for its call, as `after` says; returns the result of a call that
    /// does not wait any more.
    fn go_home(&self, after: After) -> Option<i64> {
        let (pid, nr, errno, file) = match after {
            After::HomeIfThere { pid, nr } => (pid, nr, libc::EINVAL, None),
            After::HereElseHome { pid, nr, file } => (pid, nr, libc::ENODEV, file),
            _ => return Some(self.arrived.result),
        };
        go_home(self.room, self.id, pid, |waiting| HomeCall { waiting, nr, errno, file, first: None })
    }

    /// Keeps the descriptor that home made until the thread's own call is over. Returns the result
    /// of the call.
    fn owe_descriptor(&self, who: Who, number_at: u64) -> i64 {
        let Arrived { host, result, .. } = self.arrived;
        let Some(Spare { file, .. }) = adopt(self.room, who, result as i32, false) else {
            return -i64::from(libc::ENFILE);
        };
        let descriptor = Descriptor { file, close_on_exec: true, number_at, has_offset: false };
        self.room.owed.add(host, Due::Descriptor(descriptor));
        result
    }

    /// Goes on with a call on a System V object.
    fn continue_ipc(&self, then: IpcStep) -> Option<i64> {
        let Arrived { host, result, out, .. } = self.arrived;
        match sysv::reply(host, then, result, out) {
            IpcReply::Result(result) => Some(result),
            IpcReply::Next { who, call, back } => {
                let interrupted = -i64::from(libc::EINTR);
                let next = go_on(self.room, self.id, who, *call, After::Write(back));
                next.err().map(|Interrupted| interrupted)
            }
        }
    }

    /// Gives the guest a message that home received, or first asks about its descriptors.
    fn receive(&self, incoming: &Arc<Incoming>) -> Option<i64> {
        match Received::of(incoming, self.arrived.result, self.arrived.out) {
            Some(received) => self.look(received),
            None => Some(delivery::deliver(self.room, incoming, &self.arrived)),
        }
    }

    /// Asks home about a descriptor that came; when all are known, or the caller was interrupted,
    /// the guest gets the message.
    fn look(&self, received: Received) -> Option<i64> {
        let Arrived { host, waiting, .. } = self.arrived;
        if let Some(call) = received.ask()
            && go_on(self.room, self.id, received.who(), call, After::Looking(Box::new(received.clone()))).is_ok()
        {
            return None;
        }
        Some(delivery::deliver_received(self.room, received, host, waiting))
    }

    /// Sends the next part of a message, if one is left.
    fn continue_sending(&self, mut outgoing: Box<Outgoing>) -> Option<i64> {
        let who = outgoing.who;
        match outgoing.next(self.arrived.result) {
            None => Some(outgoing.total(self.arrived.result)),
            Some(Err(errno)) => Some(outgoing.total(-i64::from(errno))),
            Some(Ok(call)) => {
                let sent = outgoing.total(0);
                let next = go_on(self.room, self.id, who, call, After::Sent(outgoing));
                next.err().map(|Interrupted| sent)
            }
        }
    }

    /// Goes on with the next of several messages, if one is left.
    fn continue_series(&self, mut series: Box<Series>) -> Option<i64> {
        let who = series.who;
        match delivery::step(self.room, &mut series, &self.arrived) {
            Err(all) => Some(all),
            Ok(call) => {
                let done = series.all(-i64::from(libc::EINTR));
                let next = go_on(self.room, self.id, who, call, After::Series(series));
                next.err().map(|Interrupted| done)
            }
        }
    }
}

/// Gives a thread the nice value that its deputy has.
fn set_nice(host: HostTid, value: i32) {
    // SAFETY: numbers only. A thread that is gone needs none.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, host.0 as libc::id_t, value.clamp(0, 19)) };
}

/// Writes home's bytes where they belong in the guest's memory; returns whether all are there.
fn write(host: HostTid, back: &[Back], out: &[u8]) -> bool {
    unpack(back, out).all(|(to, bytes)| guest_memory::write(host.0, to, bytes).is_ok())
}

/// Gives a process that lives here the limit that its deputy has.
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

/// Has the caller go on at home. A caller that waits no more makes its call again here.
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

/// Has the guest's call return a new descriptor, exactly once. The next call on the listener gets
/// what an interrupted call had accepted.
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

/// Ends a guest's call with a descriptor as its result. The guest goes on before the warden has
/// closed the open file: a call that it makes then waits for that ([`Device::settle`]).
///
/// [`Device::settle`]: crate::state::files::standins::device::Device::settle
pub fn hand_over(room: &Shared, waiting: &Waiting, made: &Made, accepted: Accepted) {
    let handing_over = room.standins.handing_over.lock().unwrap_or_else(PoisonError::into_inner);
    if !write(waiting.host_tid, &made.back, &accepted.out) {
        waiting.answer(Answer::Value(-i64::from(libc::EFAULT)));
        return;
    }
    let file = accepted.spare.file.as_fd();
    let given = Given { file, close_on_exec: made.close_on_exec, answers: true };
    match os::seccomp::give(waiting.listener.as_fd(), waiting.id, given) {
        Ok(Some(_)) => {
            drop(accepted);
            if let Some(timed) = &waiting.timed {
                timed.ends_at_home();
            }
        }
        Ok(None) => keep(room, made, accepted),
        Err(e) => waiting.answer(Answer::Value(-i64::from(e.errno()))),
    }
    drop(handing_over);
}

/// Keeps what an interrupted call had accepted for the next call on its listener.
fn keep(room: &Shared, made: &Made, accepted: Accepted) {
    let Some(listener) = made.listener else { return };
    if let Some(guest) = room.guests().get_mut(made.who.pid) {
        guest.unclaimed.entry(listener).or_default().push_back(Arc::new(accepted));
    }
    room.standins.unclaimed(listener, true);
}

/// Takes what an interrupted call on this listener had accepted.
pub fn claim(room: &Shared, who: Who, listener: StandinId) -> Option<Accepted> {
    let mut guests = room.guests();
    let kept = guests.get_mut(who.pid)?.unclaimed.get_mut(&listener)?;
    let accepted = kept.pop_front();
    let more = !kept.is_empty();
    drop(guests);
    room.standins.unclaimed(listener, more);
    Arc::into_inner(accepted?)
}

/// The guest's thread does not wait any more.
pub struct Interrupted;

/// Has home make the next of several calls that together are one of the guest's.
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
