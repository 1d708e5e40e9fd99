//! Ways from this room to others of the same home, and from them: over these a process moves
//! straight from node to node. Home tells both rooms a ticket; the warden that has the process
//! connects to the other node's daemon, which hands the bare socket on to the warden there
//! ([`serve`]).

use crate::state::shared::Shared;
use crate::state::transfer::direct_links::{DirectLink, DirectLinkError, Reader, Way};
use crate::state::transfer::incoming_queue::IncomingItem;
use crate::state::transfer::page_source::Source;
use crate::state::transfer::postcopy_queue::PostcopyEvent;
use crate::supervisor::transfer::lane::reach;
use crate::supervisor::transfer::{sibling, ways};
use checkpoint::{BodyError, Lender, PeerPages};
use link::Receiver;
use os::contain::contained;
use room_protocol::message::onward::{Hello, Lane, Purpose, Said, Ticket, Wanted};
use room_protocol::{Kind, ToHome, ToRoom, page_frames};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long who has connected may take to say what it brings.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// How long the other room may take to say what it has: it may be busy with others that come.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How long it may take until what is under way to it is in place there.
const IN_PLACE_WITHIN: Duration = Duration::from_secs(60);
/// How long the other room may take for a batch of pages that it reads.
const LENT_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection waits that could not be taken.
const REFUSED_FOR: Duration = Duration::from_millis(100);
/// Connections that are served at once; more are closed.
const SERVED_MAX: usize = 16;

/// Makes the way to another room in a thread of its own, and tells home.
pub fn connect(room: &Arc<Shared>, pid: i32, lane: Lane) {
    room.direct_links.ways().out.insert(pid, Way { ticket: lane.ticket, out: None, ahead: None });
    let task = room.clone();
    let connect = move || {
        let made = reach(&task, Purpose::Process(pid), &lane);
        let result = made.as_ref().map(drop).map_err(|e| format!("reaching {} at {}: {e}", lane.node, lane.address));
        if let (Ok(out), Some(way)) = (made, task.direct_links.ways().out.get_mut(&pid))
            && way.ticket == lane.ticket
        {
            way.out = Some(out);
        }
        task.tell(&ToHome::Onward { pid, said: Said::Connected(result) });
    };
    if let Err(e) = std::thread::Builder::new().name("lane".into()).spawn(connect) {
        let result = Err(format!("no thread to reach another node: {e}"));
        room.tell(&ToHome::Onward { pid, said: Said::Connected(result) });
    }
}

/// What the other room has of the process from an earlier stay: it says so when it lays its memory
/// out.
pub fn hear_stocked(way: &DirectLink) -> Result<PeerPages, BodyError> {
    let mut stocked = PeerPages::default();
    hear(way, ANSWER_WITHIN, |wanted| match wanted {
        Wanted::PeerPages { pages, last } => {
            stocked.add(pages);
            Some(last)
        }
        _ => None,
    })?;
    Ok(stocked)
}

/// Until all that was sent of the process is in place there.
pub fn await_in_place(way: &DirectLink, pid: i32) -> Result<(), BodyError> {
    way.link.send(Kind::Await, 0, 0, &[&pid.to_le_bytes()]).map_err(|e| broken(&e.to_string()))?;
    hear(way, IN_PLACE_WITHIN, |wanted| (wanted == Wanted::InPlace).then_some(true))
}

fn broken(why: &str) -> BodyError {
    BodyError::NotMigratable(format!("the way to the other room: {why}"))
}

/// Hears what the other room says until `take` says that this is all; it says nothing of what may
/// not come.
fn hear(way: &DirectLink, limit: Duration, mut take: impl FnMut(Wanted) -> Option<bool>) -> Result<(), BodyError> {
    let mut back = way.back.lock().unwrap_or_else(PoisonError::into_inner);
    let back = back.as_mut().ok_or_else(|| broken("it is in use"))?;
    let within = |limit| way.socket.set_read_timeout(limit).map_err(|e| broken(&e.to_string()));
    within(Some(os::fault::patience(limit)))?;
    let mut body = Vec::new();
    loop {
        let head = back.receive(&mut body).map_err(|e| broken(&e.to_string()))?;
        let wanted = postcard::from_bytes(&body).ok().filter(|_| head.kind == Kind::Message);
        match wanted.and_then(&mut take) {
            Some(true) => return within(None),
            Some(false) => {}
            None => return Err(broken("it says something that it may not")),
        }
    }
}

/// Hears in a thread of its own what the other room says of pages that follow.
pub fn listen(way: &DirectLink, lender: &Arc<Lender>) -> Result<(), BodyError> {
    let back = way.back.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut back = back.ok_or_else(|| BodyError::NotMigratable("its way is in use".into()))?;
    let lender = lender.clone();
    let hear = move || {
        let mut body = Vec::new();
        loop {
            let heard = back.receive(&mut body).map(|head| head.kind == Kind::Message);
            match heard.map(|is_message| postcard::from_bytes(&body).ok().filter(|_| is_message)) {
                Ok(Some(Wanted::Fetch(ranges))) => lender.ask(&ranges),
                Ok(Some(Wanted::Filled)) => lender.arrived(),
                Ok(Some(Wanted::Enough)) => lender.stop(),
                Ok(Some(Wanted::PeerPages { .. } | Wanted::InPlace)) | Ok(None) => {
                    return lender.cut("the other room says something that it may not");
                }
                Err(e) => return lender.cut(&format!("the way to the other room: {e}")),
            }
        }
    };
    let thread = std::thread::Builder::new().name("lane".into()).spawn(hear);
    thread.map(drop).map_err(|e| os::Error::new("starting a thread", e).into())
}

/// Takes sockets from this node's daemon, for ever.
pub fn serve(room: &Arc<Shared>, listener: &OwnedFd) {
    loop {
        let daemon = match os::socket::accept(listener.as_fd()) {
            Ok(daemon) => daemon,
            // For want of descriptors, say: the next one is taken when there is one.
            Err(e) => {
                tracing::error!("{e}");
                std::thread::sleep(REFUSED_FOR);
                continue;
            }
        };
        let Ok((_, mut handed)) = os::socket::receive(daemon.as_fd(), &mut [0; 1], 0) else { continue };
        let Some(socket) = handed.pop().map(TcpStream::from) else { continue };
        if room.direct_links.served.fetch_add(1, Ordering::AcqRel) >= SERVED_MAX {
            room.direct_links.served.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!("too many ways from other nodes at once");
            continue;
        }
        let task = room.clone();
        let take = move || {
            match contained(|| take_in(&task, socket)) {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::info!("a way from another node: {e}"),
                Err(failure) => {
                    tracing::error!("a way from another node: the warden failed: {}", failure.words)
                }
            }
            task.direct_links.served.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().name("lane".into()).spawn(take).is_err() {
            room.direct_links.served.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn take_in(room: &Arc<Shared>, socket: TcpStream) -> Result<(), DirectLinkError> {
    let kept = socket.try_clone()?;
    let (link, mut from, certificates) = link::accept(socket, room.direct_links.identity()?.server_config())?;
    let peer = identity::peer_node(Some(&certificates))?;
    kept.set_read_timeout(Some(HELLO_WITHIN))?;
    let mut hello = Vec::new();
    let head = from.receive(&mut hello)?;
    let hello = postcard::from_bytes::<Hello>(&hello).ok().filter(|_| head.kind == Kind::Message);
    let Hello { version, purpose, ticket } = hello.ok_or(DirectLinkError::Odd("it does not say what it brings"))?;
    if version != room_protocol::VERSION {
        return Err(DirectLinkError::Odd("it speaks another version of the room protocol: upgrade one of the nodes"));
    }
    kept.set_read_timeout(None)?;
    let pid = match purpose {
        Purpose::Streams => return ways::take_in(room, peer.as_str(), &ticket, link, from),
        Purpose::Pages(pid) => {
            kept.set_write_timeout(Some(LENT_WITHIN))?;
            let may = room.direct_links.take_reader(&Reader { pid, ticket, node: peer.as_str().to_owned() });
            return if may {
                sibling::lend(room, pid, &link)
            } else {
                Err(DirectLinkError::Odd("it may read nothing"))
            };
        }
        Purpose::Process(pid) => pid,
    };
    {
        let mut ways = room.direct_links.ways();
        let coming = ways.coming.get_mut(&pid);
        let coming = coming.filter(|c| c.ticket == ticket && c.from == peer.as_str() && c.socket.is_none());
        coming.ok_or(DirectLinkError::Odd("nobody expects what it brings"))?.socket = Some(kept);
    }
    let mut body = IncomingBody { room, pid, ticket, from, source: Source::Room(Arc::new(link)) };
    let received = body.receive();
    let lends = matches!(received, Ok(true));
    let lent = if lends { body.follow() } else { Ok(()) };
    let ended = received.map(drop).and(lent);
    if let Err(e) = &ended {
        let why = format!("its way from {peer}: {e}");
        match lends {
            // A process that misses no page does not mind.
            true => room.postcopy.give(PostcopyEvent::Broken { pid, source: body.source, why }),
            // Home waits to hear that it stands.
            false => {
                drop(room.direct_links.if_coming(pid, &ticket, |_| room.incoming.give(IncomingItem::Lost { pid, why })))
            }
        }
    }
    if lends {
        room.direct_links.ways().coming.retain(|p, coming| *p != pid || coming.ticket != ticket);
    }
    if lends { Ok(()) } else { ended }
}

/// A process that another room brings.
struct IncomingBody<'a> {
    room: &'a Shared,
    /// PID of the process, at home.
    pid: i32,
    /// Home has announced the process with this.
    ticket: Ticket,
    /// The receiving end of the way.
    from: Receiver,
    /// The other room, for what is said back.
    source: Source,
}

impl IncomingBody<'_> {
    /// Receives image and pages, until all is there. Tells whether more pages follow.
    fn receive(&mut self) -> Result<bool, DirectLinkError> {
        let mut body = Vec::new();
        loop {
            let head = self.from.receive(&mut body)?;
            let (whose, item, lends) = match head.kind {
                Kind::Image => (page_frames::process(&body), IncomingItem::Part(std::mem::take(&mut body)), None),
                Kind::Pages => {
                    (page_frames::process(&body), IncomingItem::Pages(self.room.bodies.hand_on(&mut body)), None)
                }
                Kind::PeerPages => {
                    (page_frames::process(&body), IncomingItem::PeerPages(std::mem::take(&mut body)), None)
                }
                Kind::HugePageHints => {
                    (page_frames::process(&body), IncomingItem::HugePageHints(std::mem::take(&mut body)), None)
                }
                Kind::Later => (page_frames::process(&body), IncomingItem::Later(std::mem::take(&mut body)), None),
                Kind::Await => (page_frames::process(&body), IncomingItem::Await(self.source.clone()), None),
                Kind::Message => match postcard::from_bytes(&body) {
                    Ok(ToRoom::LayOut { pid, stocked, .. }) => {
                        let stocked = stocked.then(|| self.source.clone());
                        (Some(pid), IncomingItem::LayOut { pid, stocked, sibling: None }, None)
                    }
                    Ok(ToRoom::Rebuild { pid, gone, image, loan }) => (
                        Some(pid),
                        IncomingItem::Rebuild { pid, gone, image, loan, source: self.source.clone() },
                        Some(loan != 0),
                    ),
                    _ => return Err(DirectLinkError::Odd("it says something that only home may")),
                },
                _ => return Err(DirectLinkError::Odd("it sends something else than a process")),
            };
            if whose != Some(self.pid) {
                return Err(DirectLinkError::Odd("it sends another process"));
            }
            self.room.incoming.make_way();
            self.room.direct_links.if_coming(self.pid, &self.ticket, |coming| {
                coming.lends = lends.unwrap_or_default();
                self.room.incoming.give(item);
            })?;
            if let Some(lends) = lends {
                return Ok(lends);
            }
        }
    }

    /// Receives the pages that follow, until the other end closes the way: the other end knows when
    /// none is needed any more.
    fn follow(&mut self) -> Result<(), DirectLinkError> {
        let mut body = Vec::new();
        loop {
            let head = self.from.receive(&mut body)?;
            if page_frames::process(&body) != Some(self.pid) {
                return Err(DirectLinkError::Odd("it sends another process"));
            }
            let followed = match head.kind {
                Kind::Pushed => {
                    PostcopyEvent::Pushed { body: self.room.bodies.hand_on(&mut body), source: self.source.clone() }
                }
                Kind::Vacant => PostcopyEvent::Vacant { body: std::mem::take(&mut body), source: self.source.clone() },
                _ => return Err(DirectLinkError::Odd("it sends something else than what follows")),
            };
            self.room.direct_links.if_coming(self.pid, &self.ticket, |_| self.room.postcopy.give(followed))?;
        }
    }
}
