//! What home says, and what follows from it.

use super::guests::Waiting;
use super::marshal::{Back, unpack};
use super::report;
use super::shared::{Pending, Shared};
use super::tracer::Order;
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
    match room.take(id) {
        Some(Pending::Notified { waiting, back, then_here }) => answer(&waiting, result, out, &back, then_here),
        Some(Pending::Standin(asked)) => room.standins.finish(asked, result, out),
        Some(Pending::NewThread { host }) => room.orders.give(Order::NewThread { host, result }),
        None => tracing::error!("home answered call {} that nobody made", id.0),
    }
}

/// The memory of a call that failed is left alone.
fn answer(waiting: &Waiting, result: i64, out: &[u8], back: &[Back], then_here: bool) {
    if result >= 0 {
        for (to, bytes) in unpack(back, out) {
            if os::vm::write(waiting.host_tid.0, to, bytes).is_err() {
                return waiting.answer(Answer::Value(-i64::from(libc::EFAULT)));
            }
        }
    }
    waiting.answer(if then_here && result >= 0 { Answer::Continue } else { Answer::Value(result) });
}
