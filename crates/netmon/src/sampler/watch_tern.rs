//! Queues of tern itself: links between nodes, streams of processes that are away, calls under way.
//!
//! Home's ternd is asked, by a thread of its own: an answer may take a while, and the other
//! samplers do not wait for it.

use std::collections::HashMap;
use std::sync::Arc;

use control_protocol::queues::{GuestQueue, LinkQueue, RoomQueues, StreamQueue, StreamWay};

use super::fast::{Shared, Went};
use super::output::{Draft, Output};
use crate::cluster::Cluster;
use crate::layer::{Layer, guest, link, stream};
use crate::pace::Taken;
use crate::record::{Change, Detail};
use crate::source::processes::Choice;

/// ternd is asked so often, nanoseconds.
const PERIOD_NS: u64 = 100_000_000;
/// Once in so many turns processes are chosen anew.
const TURNS_OF_CHOICE: u32 = 10;
/// So many answers in a row may be missing before objects count as gone.
const SILENT_MAX: u32 = 20;
/// Numbers of this sampler's objects; those of the slow sampler are smaller.
const FIRST_OBJECT: u32 = 1 << 30;

/// The sampler of tern's queues.
pub struct TernWatch {
    shared: Shared,
    cluster: Arc<dyn Cluster>,
    layers: Vec<Layer>,
    choice: Choice,
    output: Output,
    known: HashMap<Key, u32>,
    /// The processes of this machine that are chosen.
    pids: Vec<i32>,
    turn: u32,
    /// Answers that were missing in a row.
    silent: u32,
    has_told: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Link { room: String },
    Stream { room: String, id: u64 },
    Guest { room: String, pid: i32 },
}

impl TernWatch {
    /// Makes the sampler.
    pub fn new(shared: Shared, cluster: Arc<dyn Cluster>, layers: &[Layer], choice: Choice) -> TernWatch {
        let output = Output::beginning_at(FIRST_OBJECT, shared.sender.clone(), shared.clock);
        let layers = layers.to_vec();
        TernWatch {
            shared,
            cluster,
            layers,
            choice,
            output,
            known: HashMap::new(),
            pids: Vec::new(),
            turn: 0,
            silent: 0,
            has_told: false,
        }
    }

    /// Takes samples until it shall end.
    pub fn run(mut self) -> Went {
        let mut went = Went::default();
        let mut due_ns = self.shared.clock.now_ns();
        while !self.shared.ends() && self.looks_at_any() {
            self.shared.clock.wait_until(due_ns);
            let began_ns = self.shared.clock.now_ns();
            self.sample();
            if !self.output.send() {
                break;
            }
            let ended_ns = self.shared.clock.now_ns();
            due_ns = went.pace.count(Taken { due_ns, began_ns, ended_ns }, PERIOD_NS);
        }
        went
    }

    fn looks_at_any(&self) -> bool {
        [Layer::Link, Layer::Stream, Layer::Guest].iter().any(|layer| self.layers.contains(layer))
    }

    fn sample(&mut self) {
        if self.choice != Choice::All && self.turn.is_multiple_of(TURNS_OF_CHOICE) {
            self.pids = self.choice.pids();
        }
        self.turn += 1;
        match self.cluster.queues() {
            Ok(rooms) => {
                self.silent = 0;
                self.take(&rooms);
            }
            Err(reason) => {
                self.silent += 1;
                if !std::mem::replace(&mut self.has_told, true) {
                    self.output.note(format!("queues of tern are not shown: {reason}"));
                }
                if self.silent == SILENT_MAX {
                    self.take(&[]);
                }
            }
        }
    }

    /// Takes in what ternd has told. Objects that it does not name any more are gone.
    fn take(&mut self, rooms: &[RoomQueues]) {
        let before = std::mem::take(&mut self.known);
        for room in rooms {
            self.take_room(room, &before);
        }
        for (key, object) in before {
            if !self.known.contains_key(&key) {
                self.output.gone(object, gone(&key));
            }
        }
    }

    fn take_room(&mut self, room: &RoomQueues, before: &HashMap<Key, u32>) {
        // A deputy stands where its process stood among parents and children.
        let named = |pid: i32, program: &str| match &self.choice {
            Choice::All => true,
            Choice::Named(names) => names.include(pid, program) || self.pids.contains(&pid),
        };
        let program = |pid: Option<i32>| {
            let of = |pid| room.guests.iter().find(|guest| guest.pid == pid);
            pid.and_then(of).map_or("", |guest| guest.program.as_str())
        };
        let guests: Vec<&GuestQueue> = room.guests.iter().filter(|guest| named(guest.pid, &guest.program)).collect();
        let streams: Vec<&StreamQueue> =
            room.streams.iter().filter(|stream| named(stream.pid.unwrap_or(0), program(stream.pid))).collect();
        if self.choice != Choice::All && guests.is_empty() {
            return;
        }
        let name = || room.room.clone();
        self.put(Key::Link { room: name() }, before, link_draft(room), link_changes(room.link));
        for stream in streams {
            let draft = stream_draft(room, stream, program(stream.pid));
            self.put(Key::Stream { room: name(), id: stream.id }, before, draft, stream_changes(stream));
        }
        for guest in guests {
            let draft = guest_draft(room, guest);
            self.put(Key::Guest { room: name(), pid: guest.pid }, before, draft, guest_changes(guest));
        }
    }

    fn put(&mut self, key: Key, before: &HashMap<Key, u32>, draft: Draft, changes: Vec<Change>) {
        if !self.layers.contains(&draft.layer) {
            return;
        }
        let object = before.get(&key).copied().unwrap_or_else(|| self.output.object(draft));
        self.output.sample(object, changes);
        self.known.insert(key, object);
    }
}

fn gone(key: &Key) -> String {
    match key {
        Key::Link { .. } => "the room is closed".into(),
        Key::Stream { .. } => "the stream was closed, or its process has left the room".into(),
        Key::Guest { pid, .. } => format!("process {pid} has ended, or has left the room"),
    }
}

fn link_draft(room: &RoomQueues) -> Draft {
    let name = format!("link to {} of user {}", room.node, room.owner);
    let details = vec![Detail::new("node", &room.node), Detail::new("room", &room.room)];
    Draft { layer: Layer::Link, name, pid: None, details }
}

fn link_changes(link: LinkQueue) -> Vec<Change> {
    vec![
        Change::exact(link::UNSENT_BYTES, link.unsent_bytes),
        Change::exact(link::RELAY_BYTES, link.relay_bytes),
        Change::exact(link::RELAY_LIMIT, link.relay_limit),
        Change::exact(link::FRAMES, link.frames),
        Change::exact(link::BYTES, link.bytes),
        Change::exact(link::SILENT_MS, link.silent_ms),
    ]
}

fn stream_draft(room: &RoomQueues, stream: &StreamQueue, program: &str) -> Draft {
    let way = match stream.way {
        StreamWay::Home => "home",
        StreamWay::Room => "room",
        StreamWay::OtherRoom => "other room",
    };
    let owner = stream.pid.map(|pid| format!(" {program}[{pid}]")).unwrap_or_default();
    let name = format!("stream {} to {} on {}{owner}", stream.own, stream.peer, room.node);
    let details = vec![
        Detail::new("node", &room.node),
        Detail::new("room", &room.room),
        Detail::new("local", &stream.own),
        Detail::new("remote", &stream.peer),
        Detail::new("program", program),
        Detail::new("way", way),
    ];
    Draft { layer: Layer::Stream, name, pid: stream.pid, details }
}

fn stream_changes(stream: &StreamQueue) -> Vec<Change> {
    vec![
        Change::exact(stream::UNREAD_BYTES, stream.unread_bytes),
        Change::exact(stream::TO_ROOM_BYTES, stream.to_room_bytes),
        Change::exact(stream::WINDOW_BYTES, stream.window_bytes),
        Change::exact(stream::TAKEN_BYTES, stream.taken_bytes),
        Change::exact(stream::WAITING_BYTES, stream.waiting_bytes),
        Change::exact(stream::UNSENT_BYTES, stream.unsent_bytes),
        Change::exact(stream::RECEIVED_BYTES, stream.received_bytes),
    ]
}

fn guest_draft(room: &RoomQueues, guest: &GuestQueue) -> Draft {
    let name = format!("{}[{}] on {}", guest.program, guest.pid, room.node);
    let details =
        vec![Detail::new("node", &room.node), Detail::new("room", &room.room), Detail::new("program", &guest.program)];
    Draft { layer: Layer::Guest, name, pid: Some(guest.pid), details }
}

fn guest_changes(guest: &GuestQueue) -> Vec<Change> {
    vec![
        Change::exact(guest::CALLS_UNDER_WAY, guest.calls_under_way),
        Change::exact(guest::CALLS, guest.calls),
        Change::exact(guest::STANDINS, guest.standins),
    ]
}
