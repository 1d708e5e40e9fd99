//! Frames to and from home. Answers for files may overtake invalidations (they decide themselves
//! which); all other messages wait for those that were sent before them, in a thread of their own,
//! so that files go on meanwhile.

use crate::state::guests::ToBeTraced;
use crate::state::orders::{Afterwards, Order};
use crate::state::shared::Shared;
use crate::state::transfer::incoming_queue::IncomingItem;
use crate::state::transfer::page_source::Source;
use crate::state::transfer::postcopy_queue::PostcopyEvent;
use crate::supervisor::memory_group as relatives;
use crate::warden::setup::obey;
use homefs::client::{Client, LateReply, Uplink};
use homefs::invalidation::Invalidation;
use homefs::offer::Offer;
use link::{LinkError, Receiver};
use os::ptrace::HostTid;
use room_protocol::Kind;
use room_protocol::message::OpenAtHome;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The files' way to home.
pub struct Files {
    room: Arc<Shared>,
}

impl Files {
    /// Over the room's link.
    pub fn new(room: Arc<Shared>) -> Files {
        Files { room }
    }
}

impl Files {
    fn thread(&self, tid: u32) -> Option<HostTid> {
        self.room.guests().host(i32::try_from(tid).ok()?)
    }
}

impl Uplink for Files {
    fn request(&self, mount: u16, bytes: &[u8]) {
        // A link that fails is noticed by its receiver, which closes the client.
        let _ = self.room.home.uplink.send(Kind::Fuse, mount, 0, &[bytes]);
    }

    fn behind(&self, mount: u16, bytes: &[u8]) {
        let _ = self.room.home.uplink.post(Kind::Behind, mount, 0, &[bytes]);
        // Bytes that go straight to another room wait until home has served the request.
        self.room.home.streams.learn();
    }

    fn current_call(&self, tid: u32) -> Option<String> {
        let host = self.thread(tid)?;
        os::waiting::line(host.0)
    }

    fn disguised(&self, inode: u64) {
        self.room.fifos.add(inode);
    }

    fn locks(&self, node: u64, fh: u64) {
        self.room.locked.add(OpenAtHome { node, fh });
    }

    fn closed(&self, node: u64, fh: u64) {
        self.room.locked.closed(OpenAtHome { node, fh });
    }

    fn tells(&self, tid: u32, node: u64, fh: u64) -> bool {
        self.room.locked.tells(tid, OpenAtHome { node, fh })
    }

    fn interrupted(&self, tid: u32, reply: LateReply) {
        match self.thread(tid) {
            Some(host) => self.room.orders.give(Order::Interrupted { host, then: Afterwards::Give(reply) }),
            None => reply.give(),
        }
    }

    fn executes_at_home(&self, tid: u32) -> bool {
        let is_due = |traced| matches!(traced, ToBeTraced::Promised | ToBeTraced::Due);
        let Some(who) = self.thread(tid).and_then(|host| self.room.guests().who(host)) else { return false };
        let (is_due, gains) = {
            let guests = self.room.guests();
            let Some(guest) = guests.get(who.pid) else { return false };
            (is_due(guest.traced), guest.runs && guest.gains_by_exec)
        };
        // One that has its parent's memory could not begin its program there with more rights: it
        // keeps those that it has.
        is_due || gains && relatives::begetter(&self.room, who.pid).is_none()
    }

    fn begins_at_home(&self, tid: u32, reply: LateReply) {
        match self.thread(tid) {
            Some(host) => self.room.orders.give(Order::BeginsAtHome { host, reply }),
            None => reply.give(),
        }
    }

    fn contain(&self, tid: u32, work: &mut dyn FnMut()) -> bool {
        self.room.contain(self.room.process_of(tid), work).is_some()
    }

    fn broken_pipe(&self, tid: u32, reply: LateReply) {
        match self.thread(tid) {
            Some(host) => self.room.orders.give(Order::BrokenPipe { host, reply }),
            None => reply.give(),
        }
    }

    fn applied(&self, seq: u64) {
        let _ = self.room.home.uplink.send(Kind::Applied, 0, seq, &[]);
    }
}

/// Receives until the room is to end; says why.
pub fn receive(mut downlink: Receiver, room: &Arc<Shared>, client: &Arc<Client>) -> &'static str {
    let waiting = Arc::new(Waiting::default());
    let (held, held_room, held_client) = (waiting.clone(), room.clone(), client.clone());
    let spawned = std::thread::Builder::new().name("held".into()).spawn(move || held.serve(&held_room, &held_client));
    if spawned.is_err() {
        return "no thread for messages that wait";
    }
    os::warm::up();
    let mut body = Vec::new();
    let why = loop {
        let head = match downlink.receive(&mut body) {
            Ok(head) => head,
            Err(LinkError::Closed) => break "home closed the room",
            Err(e) => {
                tracing::warn!("{e}");
                break "the link to home is lost";
            }
        };
        match head.kind {
            Kind::Fuse => {
                room.home.streams.learn();
                client.deliver(head.mount, &body, head.seq);
            }
            Kind::Invalidate => match Invalidation::decode(&body) {
                Ok(invalidation) => client.invalidate(head.seq, invalidation),
                Err(_) => break "home sent an invalidation that is none",
            },
            Kind::Offer => match Offer::decode(&body) {
                Ok(offer) => client.offer(head.seq, offer),
                Err(_) => break "home sent an offer that is none",
            },
            Kind::Image => room.incoming.give(IncomingItem::Part(std::mem::take(&mut body))),
            Kind::Pages => room.incoming.give(IncomingItem::Pages(room.bodies.hand_on(&mut body))),
            Kind::PeerPages => room.incoming.give(IncomingItem::PeerPages(std::mem::take(&mut body))),
            Kind::HugePageHints => room.incoming.give(IncomingItem::HugePageHints(std::mem::take(&mut body))),
            Kind::Later => room.incoming.give(IncomingItem::Later(std::mem::take(&mut body))),
            Kind::Vacant => {
                room.postcopy.give(PostcopyEvent::Vacant { body: std::mem::take(&mut body), source: Source::Home });
            }
            Kind::Pushed => {
                room.postcopy
                    .give(PostcopyEvent::Pushed { body: room.bodies.hand_on(&mut body), source: Source::Home });
            }
            Kind::Message | Kind::Stream if waiting.must_wait(client, head.seq) => {
                waiting.push(Held { seq: head.seq, kind: head.kind, body: std::mem::take(&mut body) });
            }
            Kind::Message if obey(room, &body) => {}
            Kind::Message => break "home ended the room",
            Kind::Stream => match room.home.streams.obey(&body) {
                Ok(()) => {}
                Err(why) => {
                    tracing::error!("home broke the protocol of streams: {why}");
                    break "home broke the protocol of streams";
                }
            },
            Kind::Applied | Kind::Packed | Kind::Advance | Kind::Await | Kind::Behind => {
                break "home sent what only a room sends";
            }
        }
    };
    waiting.close();
    why
}

/// Messages that wait for invalidations, in their order.
#[derive(Default)]
struct Waiting {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// A frame that waits until this invalidation is applied.
struct Held {
    seq: u64,
    kind: Kind,
    body: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Held>,
    /// One is taken out and not obeyed yet.
    busy: bool,
    closed: bool,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn must_wait(&self, client: &Client, seq: u64) -> bool {
        let queue = self.lock();
        queue.busy || !queue.messages.is_empty() || !client.is_applied(seq)
    }

    fn push(&self, held: Held) {
        self.lock().messages.push_back(held);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    fn serve(&self, room: &Arc<Shared>, client: &Client) {
        while let Some(Held { seq, kind, body }) = self.take() {
            client.wait_applied(seq);
            if kind == Kind::Stream {
                room.home.streams.obey(&body).unwrap_or_else(|why| tracing::error!("home: {why}"));
            } else {
                obey(room, &body);
            }
            self.lock().busy = false;
        }
    }

    fn take(&self) -> Option<Held> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(message) = queue.messages.pop_front() {
                queue.busy = true;
                return Some(message);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
