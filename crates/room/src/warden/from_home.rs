//! Obeys home's messages, by subject, and ends the calls that home answers.

use crate::calls::follow_up;
use crate::sandbox::porter::body::{IPC_LOCK, SYS_NICE};
use crate::state::calls::after::After;
use crate::state::due_before_return::Due;
use crate::state::exec_rights::gains_by_exec;
use crate::state::files::standins::requests::StandinRequestKind;
use crate::state::orders::{News, Order, Recall};
use crate::state::pending::{ERESTARTNOINTR, Pending, Written};
use crate::state::shared::Shared;
use crate::state::transfer::direct_links::Reader;
use crate::state::transfer::incoming_queue::IncomingItem;
use crate::state::transfer::page_source::Source;
use crate::state::transfer::postcopy_queue::PostcopyEvent;
use crate::state::ways::ExpectedWay;
use crate::supervisor::held_files as held;
use crate::supervisor::transfer::{advance, direct_link, ways};
use crate::warden::report;
use checkpoint::Lender;
use os::contain::on_account_of;
use os::pidfd::PidFd;
use os::seccomp::Answer;
use room_protocol::ToRoom;
use room_protocol::message::{CallId, Credentials, onward};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Obeys one message of home's. Returns `false` if the room is to end.
pub fn obey(room: &Arc<Shared>, message: ToRoom) -> bool {
    match message {
        ToRoom::Clock { realtime_ns, .. } => match room.wall.get() {
            Some(wall) => wall.heard(realtime_ns),
            None => tracing::error!("home told its clock unasked"),
        },
        ToRoom::Open(_) => tracing::error!("home opened the room twice"),
        ToRoom::Yield { file } => held::give_up(room, file),
        ToRoom::Report => report::tell(room),
        ToRoom::CountCalls { pid, whose } => report::tell_calls(room, pid, whose),
        ToRoom::Close => return false,
        ToRoom::Suspend { for_ms } => {
            tracing::info!("the room is suspended for at most {} s", for_ms / 1000);
            room.suspension.begin(&room.home.uplink, Duration::from_millis(for_ms.into()));
            room.orders.give(Order::Suspend);
        }
        ToRoom::Wake => {
            tracing::info!("the room is not suspended any more");
            room.suspension.end();
            room.orders.give(Order::Wake);
        }
        message => {
            if !matches!(message, ToRoom::Fence { .. } | ToRoom::Way { .. }) {
                room.home.streams.learn();
            }
            match obey_about_bodies(room, message) {
                Ok(()) => {}
                Err(message) => obey_about_moves(room, *message),
            }
        }
    }
    true
}

/// Obeys a message about a body that begins, runs or ends; gives back one about another subject.
fn obey_about_bodies(room: &Shared, message: ToRoom) -> Result<(), Box<ToRoom>> {
    match message {
        ToRoom::Expect { pid } => {
            room.vigil.over_beginning();
            room.orders.give(Order::Expect { pid });
        }
        ToRoom::Place(place) => {
            room.vigil.over_beginning();
            room.orders.give(Order::Place(place));
        }
        ToRoom::Return { id, result, out, ready } => {
            room.who_asked(id).into_iter().for_each(on_account_of);
            ready.into_iter().for_each(|(standin, events)| room.standins.returned(standin, events));
            returned(room, id, result, out);
        }
        ToRoom::Readiness { standin, events } => room.standins.changed(standin, events),
        ToRoom::Rights { tid, credentials } => take_rights(room, tid, credentials),
        ToRoom::Signal { pid, tid, info } => {
            os::fault::past("signal there");
            match info.try_into() {
                Ok(info) => room.orders.give(Order::Signal { pid, tid, info }),
                Err(_) => tracing::error!("home sent a signal without its 128 bytes"),
            }
        }
        ToRoom::Stop { pid } => room.orders.give(Order::Stop { pid }),
        ToRoom::GoOn { pid } => room.orders.give(Order::GoOn { pid }),
        ToRoom::Kill { pid } => {
            forget_move(room, pid);
            room.guests().end(pid);
            room.orders.give(Order::Kill { pid });
        }
        ToRoom::Release { pid } => {
            forget_move(room, pid);
            room.orders.give(Order::Release { pid });
        }
        other => return Err(Box::new(other)),
    }
    Ok(())
}

/// Obeys a message about a process that comes, leaves, or has pages that follow it.
fn obey_about_moves(room: &Arc<Shared>, message: ToRoom) {
    match message {
        ToRoom::Rebuild { pid, gone, image, loan } => {
            room.incoming.give(IncomingItem::Rebuild { pid, gone, image, loan, source: Source::Home });
        }
        ToRoom::LayOut { pid, stocked, sibling } => {
            room.incoming.give(IncomingItem::LayOut { pid, stocked: stocked.then_some(Source::Home), sibling });
        }
        ToRoom::Memories { pid, group, memories } => room.orders.give(Order::Memories { pid, group, memories }),
        ToRoom::Taken { pid, bytes } => room.windows.taken(pid, bytes),
        ToRoom::Flags { pid, flags } => set_flags(room, pid, &flags),
        ToRoom::PeerPages { pid, pages, first } => room.stocked.hear(pid, pages, first),
        ToRoom::Resume { pid } => {
            room.direct_links.arrived(pid);
            room.stocked.forget(pid);
            room.homeward.forget(pid);
            room.orders.give(Order::Resume { pid });
        }
        ToRoom::Stays { pid, why } => {
            room.going_home.stay(&room.home, pid, &why);
            room.orders.give(Order::StayHere { pid });
        }
        ToRoom::Recall { pid, follow_bytes, pace, onward, ahead, family } => {
            let recall = Recall { follow_bytes, pace, onward, ahead, family };
            room.orders.give(Order::Recall { pid, recall });
        }
        ToRoom::Onward { pid, order } => obey_onward(room, pid, order),
        ToRoom::Fence { way, number } => room.home.streams.confirm(way, number),
        ToRoom::Way { way, order: onward::WayOrder::Connect(lane) } => ways::connect(room, way, lane),
        ToRoom::Way { way, order: onward::WayOrder::Admit { ticket, from } } => {
            room.home.streams.ways.expect(ticket, ExpectedWay { way, from });
        }
        ToRoom::Shared { pid, result } => room.orders.give(Order::Shared { pid, result }),
        ToRoom::Fetch { pid, ranges } => room.lenders.with(pid, |lender| lender.ask(&ranges)),
        ToRoom::Push { pid } => room.lenders.with(pid, Lender::push),
        ToRoom::Filled { pid } => room.lenders.with(pid, Lender::arrived),
        ToRoom::Broken { pid, why } => {
            room.postcopy.give(PostcopyEvent::Broken { pid, source: Source::Home, why });
        }
        // Obeyed before.
        ToRoom::Clock { .. }
        | ToRoom::Open(_)
        | ToRoom::Yield { .. }
        | ToRoom::Report
        | ToRoom::CountCalls { .. }
        | ToRoom::Close => {}
        ToRoom::Suspend { .. } | ToRoom::Wake => {}
        ToRoom::Expect { .. } | ToRoom::Place(_) | ToRoom::Return { .. } | ToRoom::Readiness { .. } => {}
        ToRoom::Rights { .. } | ToRoom::Signal { .. } | ToRoom::Stop { .. } | ToRoom::GoOn { .. } => {}
        ToRoom::Kill { .. } | ToRoom::Release { .. } => {}
    }
}

/// Obeys an order about a process that goes on to another room, or whose memory goes home ahead.
fn obey_onward(room: &Arc<Shared>, pid: i32, order: onward::Order) {
    match order {
        onward::Order::Outline => room.orders.give(Order::Outline { pid }),
        onward::Order::Ahead(wish) => room.orders.give(Order::Ahead { pid, wish }),
        onward::Order::Homeward(wish) => {
            room.homeward.begin(pid, wish.ahead.ticket);
            room.orders.give(Order::Homeward { pid, wish });
        }
        onward::Order::Advance { number, pace } => advance::start(room, pid, number, pace),
        onward::Order::Enough => {
            room.homeward.forget(pid);
            room.windows.close(pid);
        }
        onward::Order::Connect(lane) => direct_link::connect(room, pid, lane),
        onward::Order::Admit { ticket, from } => room.direct_links.admit(pid, ticket, from),
        onward::Order::Lend { ticket, to } => room.direct_links.lend(Reader { pid, ticket, node: to }),
    }
}

/// Forgets all that is known of a move of this process, whose body ends here.
fn forget_move(room: &Shared, pid: i32) {
    room.direct_links.end(pid);
    room.homeward.forget(pid);
    room.stocked.forget(pid);
    room.incoming.give(IncomingItem::Forget { pid });
}

/// Notes the rights that a thread has at home now: its thread here takes them before its call
/// returns.
fn take_rights(room: &Shared, tid: i32, credentials: Box<Credentials>) {
    let mut guests = room.guests();
    let Some(host) = guests.host(tid) else { return };
    let pid = guests.who(host).map(|who| who.pid);
    pid.into_iter().for_each(on_account_of);
    if let Some(pid) = pid {
        let is_free = credentials.capabilities.effective & IPC_LOCK != 0;
        guests.limit_locked(pid, |locked| locked.is_free = is_free);
        if let Some(guest) = guests.get_mut(pid) {
            guest.gains_by_exec = gains_by_exec(&credentials);
            guest.is_first_of_all = credentials.capabilities.effective & SYS_NICE != 0;
        }
    }
    room.owed.add(host, Due::Rights(credentials));
}

/// Sets flags of the stand-ins of a body that has come and does not run yet.
fn set_flags(room: &Shared, pid: i32, flags: &[(i32, i32)]) {
    let Some(host) = room.guests().host(pid) else { return };
    let set = |(fd, to): &(i32, i32)| {
        let file = PidFd::open(host.0)?.get_fd(*fd)?;
        os::fds::set_flags(file.as_fd(), libc::O_APPEND | libc::O_NONBLOCK, *to)
    };
    if let Err(e) = flags.iter().try_for_each(set) {
        tracing::warn!("process {pid} has files with other flags than at home: {e}");
    }
}

/// Memory that a call wrote is put into the guest's by a thread of its own ([`serve_memory`]):
/// touching a guest's page may need a file from home, whose answer the receiving thread must be
/// free to take.
fn returned(room: &Shared, id: CallId, result: i64, out: Vec<u8>) {
    let result = believable(result);
    match room.ledger.end_told(id, result, &out).filter(|child| room.guests().get(*child).is_some()) {
        Some(child) => room.orders.give(Order::TellEnd { child, news: News::Wait { id, result, out } }),
        None => waited(room, id, result, out),
    }
}

/// A call of a guest is over; if it told of the end of a child, that has ended here too.
pub fn waited(room: &Shared, id: CallId, result: i64, mut out: Vec<u8>) {
    room.ledger.answered(id, result, &mut out);
    room.devices.completed(id, &mut out);
    match room.home.after(id).filter(|(_, _, after)| after.takes_time(result)) {
        Some(_) => room.home.memory.give(Written { id, result, out }),
        None => finish(room, id, result, &out),
    }
}

/// Puts what calls wrote into guests' memory, gives them descriptors, and ends the calls; for ever.
pub fn serve_memory(room: &Shared) {
    while let Some(Written { id, result, out }) = room.home.memory.take() {
        room.contain(room.who_asked(id), || {
            if let Some(result) = follow_up::apply(room, id, result, &out) {
                finish(room, id, result, &[]);
            }
        });
    }
}

/// What no kernel returns is an error, and none that a number could not hold with another sign.
fn believable(result: i64) -> i64 {
    const ERRNO_MAX: i64 = 4095;
    if result < -ERRNO_MAX { -i64::from(libc::EIO) } else { result }
}

/// Comes with a signal, which the program gets before the result.
const EPIPE: i64 = -(libc::EPIPE as i64);

/// A call that consumes something has this result once: what it got, did, or an error that its
/// socket had kept for it (ECONNRESET, EINPROGRESS; with EPIPE comes a signal, which the program
/// gets before). One for which there was nothing has the same again.
fn is_told_once(result: i64) -> bool {
    ![libc::EAGAIN, libc::EINTR].contains(&(-result as i32))
}

/// A call of a guest is over.
///
/// A listener's answer can get lost although the kernel took it, when a signal wakes the caller at
/// that moment (seccomp_do_user_notification): the call is made again. Where that would do harm,
/// the tracer gives the result.
pub fn finish(room: &Shared, id: CallId, result: i64, out: &[u8]) {
    room.home.answered(id, |pending| {
        match pending {
            Pending::Notified { waiting, exact: true, .. } if is_told_once(result) => {
                let host = waiting.host_tid;
                room.orders.give(Order::Answer { host });
                return Some(Pending::Missed { waiting, result });
            }
            Pending::Notified { waiting, after: After::Sought { standin, expected }, .. } => {
                let to = u64::try_from(result).ok().filter(|to| expected.is_none_or(|here| here == *to));
                let (files, by) = (&room.standins.files, waiting.host_tid);
                match to {
                    Some(to) => files.will_be_at(standin, to, by, || waiting.answer(Answer::Continue)),
                    None => waiting.answer(Answer::Value(result)),
                }
            }
            Pending::Notified { waiting, after: After::Watched(standin), .. } => {
                if let Ok(ready) = u16::try_from(result) {
                    room.standins.returned(standin, ready);
                }
                waiting.answer(Answer::Continue);
            }
            Pending::Notified { waiting, after, .. } => {
                let here = after.goes_on_here(result);
                waiting.answer(if here { Answer::Continue } else { Answer::Value(result) });
            }
            Pending::Standin(asked) if asked.what == StandinRequestKind::Device => {
                crate::files::devices::answered(room, asked.unique, result, out);
            }
            Pending::Unasked => {}
            Pending::MayStream(standin) if result == 1 => room.orders.give(Order::Stream { standin }),
            Pending::MayStream(standin) => room.home.streams.keep(standin),
            Pending::Proc { unique, .. } => crate::files::proc::answered(room, unique, result, out),
            // Behind the signal, whose order the tracer has already.
            Pending::Standin(asked) if result == EPIPE => room.orders.give(Order::Finish { asked, result }),
            Pending::Standin(asked) => room.standins.finish(asked, result, out),
            Pending::Birth { host } => room.orders.give(Order::Reserved { host, result }),
            // The hosting kernel's part is still to be done: the call is made again, as a whole
            // (what home has set it sets to the same once more).
            Pending::Held { after, .. } if after.goes_on_here(result) => {
                room.orders.give(Order::Ended { id, result: ERESTARTNOINTR });
            }
            Pending::Held { .. } => room.orders.give(Order::Ended { id, result }),
            Pending::Missed { .. } => tracing::error!("home answered call {} twice", id.0),
        }
        None
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failed before: the smallest number has no counterpart.
    #[test]
    fn no_result_is_below_all_errors() {
        for (said, believed) in [(i64::MIN, -5), (-4096, -5), (-4095, -4095), (0, 0), (i64::MAX, i64::MAX)] {
            assert_eq!(believable(said), believed);
        }
    }

    #[test]
    fn what_would_not_come_again_is_told_once() {
        for result in [0, 7, EPIPE, -i64::from(libc::ECONNRESET), -i64::from(libc::EINPROGRESS)] {
            assert!(is_told_once(result), "{result}");
        }
        for result in [libc::EAGAIN, libc::EINTR] {
            assert!(!is_told_once(-i64::from(result)), "{result}");
        }
    }
}
