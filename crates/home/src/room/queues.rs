//! Tells where messages of the room's processes wait, for `tern netmon`.

use crate::deputy::record::Deputy;
use crate::deputy::thread::Thread;
use crate::room::state::Room;
use crate::room::streams::StreamState;
use control_protocol::queues::{GuestQueue, LinkQueue, NAME_BYTES_MAX, ROWS_MAX, RoomQueues, StreamQueue};
use room_protocol::message::StandinId;

impl Room {
    /// Gives the lengths of the room's queues at this moment. Asks nobody.
    pub fn queues(&self) -> RoomQueues {
        let mut queues = RoomQueues {
            room: self.args.room.clone(),
            node: self.args.host.clone(),
            owner: self.args.owner,
            link: self.link_queue(),
            streams: self.link.streams.states(ROWS_MAX).into_iter().map(stream).collect(),
            guests: Vec::new(),
        };
        let table = self.table();
        for stream in &mut queues.streams {
            stream.pid = table.holder(0, standin(stream.id)).map(|(pid, _)| pid);
        }
        queues.guests = table.deputies.iter().take(ROWS_MAX).map(|(pid, deputy)| guest(*pid, deputy)).collect();
        queues
    }

    fn link_queue(&self) -> LinkQueue {
        let Some(downlink) = self.link.downlink() else { return LinkQueue::default() };
        let unsent = downlink.socket().and_then(|socket| os::streams::unsent_bytes(socket).ok());
        LinkQueue {
            unsent_bytes: unsent.unwrap_or(0) as u64,
            relay_bytes: self.link.streams.under_way(),
            relay_limit: relay::UNDER_WAY_BYTES_MAX,
            frames: downlink.counters().frames(),
            bytes: downlink.counters().bytes(),
            silent_ms: self.link.silent_ms().unwrap_or(0),
        }
    }
}

/// Gives the stand-in of a stream's number ([`relay::StreamId`] as [`StreamState`] has it).
fn standin(stream: u64) -> StandinId {
    StandinId((stream >> 32) as u32)
}

fn stream(state: StreamState) -> StreamQueue {
    let StreamState { id, account, way, unread, unsent, names } = state;
    let (own, peer) = names.map(|names| (names.own, names.peer)).unwrap_or_default();
    StreamQueue {
        id,
        pid: None,
        own: short(&own),
        peer: short(&peer),
        way,
        unread_bytes: unread,
        to_room_bytes: account.under_way,
        window_bytes: account.window,
        taken_bytes: account.taken,
        waiting_bytes: account.waiting,
        unsent_bytes: unsent,
        received_bytes: account.received,
    }
}

fn guest(pid: i32, deputy: &Deputy) -> GuestQueue {
    let program = deputy.program.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    GuestQueue {
        pid,
        uid: deputy.credentials.uid[0],
        program: short(&String::from_utf8_lossy(program)),
        calls_under_way: deputy.threads.values().map(Thread::jobs).sum::<usize>() as u64,
        calls: deputy.calls,
        standins: deputy.standins.len() as u64,
    }
}

fn short(text: &str) -> String {
    let end = (0..=text.len().min(NAME_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].to_owned()
}
