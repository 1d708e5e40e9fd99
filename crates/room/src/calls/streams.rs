//! The thread that pumps the room's streams, and what follows when one is over.

use crate::state::orders::Order;
use crate::state::shared::Shared;
use relay::StreamError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Pumps as long as the room is there.
pub fn serve(room: &Shared) {
    let Some(waits_on) = room.home.streams.waits_on() else { return };
    loop {
        let timeout = room.home.streams.timeout().map(|timeout| Timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let _ = poll(&mut [PollFd::new(&waits_on, PollFlags::IN)], timeout.as_ref());
        settle(room);
        room.home.streams.flush_across(&room.home.uplink);
    }
}

/// Sends home what guests have written until now, and takes notice of streams that are over: what
/// a guest closed before its call is closed at home before it, too.
pub fn settle(room: &Shared) {
    let streams = &room.home.streams;
    streams.flush(&room.home.uplink);
    for (standin, why) in streams.take_over() {
        match why {
            StreamError::Closed => match streams.partner(standin) {
                None => streams.close(standin),
                // Bytes that the other one has not read go home first.
                Some(partner) => room.orders.give(Order::Unstream { standin: partner }),
            },
            why => {
                tracing::debug!("stream {} becomes a stand-in again: {why}", standin.0);
                streams.keep(standin);
                room.orders.give(Order::Unstream { standin });
            }
        }
    }
}
