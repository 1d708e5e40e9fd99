//! What home says, and what follows from it.

use super::guests::Waiting;
use super::marshal::{Back, unpack};
use super::report;
use super::shared::{Pending, Shared};
use super::tracer::Order;
use os::ptrace::HostTid;
use os::seccomp::Answer;
use wire::ToRoom;
use wire::message::CallId;

/// Obeys one message. `false`: the room is to end.
pub fn obey(room: &Shared, message: ToRoom) -> bool {
    match message {
        ToRoom::Open(_) => tracing::error!("home opened the room twice"),
        ToRoom::Place(place) => room.orders.give(Order::Place(place)),
        ToRoom::Return { id, result, out } => returned(room, id, result, &out),
        ToRoom::Signal { pid, tid, info } => match info.try_into() {
            Ok(info) => room.orders.give(Order::Signal { pid, tid, info }),
            Err(_) => tracing::error!("home sent a signal without its 128 bytes"),
        },
        ToRoom::Kill { pid } => room.orders.give(Order::Kill { pid }),
        ToRoom::Readiness { pid, standin, .. } => room.standins.ready(pid, standin),
        ToRoom::Report => report::tell(room),
        ToRoom::Close => return false,
    }
    true
}

fn returned(room: &Shared, id: CallId, result: i64, out: &[u8]) {
    room.answered(id, |pending| {
        match pending {
            Pending::Notified { waiting, back, exact: true, .. } => {
                let host = waiting.host_tid;
                let result = if write_back(host, result, out, &back) { result } else { -i64::from(libc::EFAULT) };
                room.orders.give(Order::Answer { host });
                return Some(Pending::Missed { host, result });
            }
            Pending::Notified { waiting, back, then_here, exact: false } => {
                answer(&waiting, result, out, &back, then_here)
            }
            Pending::Standin(asked) => room.standins.finish(asked, result, out),
            Pending::Birth { host } => room.orders.give(Order::Reserved { host, result }),
            Pending::Held { host, back } => {
                let result = if write_back(host, result, out, &back) { result } else { -i64::from(libc::EFAULT) };
                room.orders.give(Order::Ended { id, result });
            }
            Pending::Missed { .. } => tracing::error!("home answered call {} twice", id.0),
        }
        None
    });
}

/// The memory of a call that failed is left alone. `false`: the guest has no such memory.
fn write_back(host: HostTid, result: i64, out: &[u8], back: &[Back]) -> bool {
    result < 0 || unpack(back, out).all(|(to, bytes)| os::vm::write(host.0, to, bytes).is_ok())
}

/// Answers the caller. If it was interrupted just before, the kernel has it make the call again, which does no harm. (Where it would, the tracer gives the
/// result: a listener's answer can get lost although the kernel took it, when a signal wakes the caller at that moment; seccomp_do_user_notification.)
fn answer(waiting: &Waiting, result: i64, out: &[u8], back: &[Back], then_here: bool) {
    let answer = match write_back(waiting.host_tid, result, out, back) {
        false => Answer::Value(-i64::from(libc::EFAULT)),
        true if then_here && result >= 0 => Answer::Continue,
        true => Answer::Value(result),
    };
    waiting.answer(answer);
}
