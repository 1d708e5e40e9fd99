//! Ways from this room to others of the same home, and from them: over these a process moves
//! straight from node to node. Home tells both rooms a ticket; the warden that has the process
//! connects to the other node's daemon, which hands the bare socket on to the warden there
//! ([`serve`]).

use super::following::{Followed, Source};
use super::receiver::Item;
use super::shared::Shared;
use checkpoint::{Ahead, BodyError, Lender, Stocked};
use control_protocol::steward::{Preamble, RoomId};
use identity::Identity;
use link::{LinkError, Receiver, Sender};
use os::contain::contained;
use room_protocol::message::onward::{Hello, Lane, Said, Ticket, Wanted};
use room_protocol::{Kind, ToHome, ToRoom, page_frames};
use std::collections::HashMap;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// How long another node may take to be reached.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long who has connected may take to say what it brings.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// How long the other room may take to say what it has: it may be busy with others that come.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How long it may take until what is under way to it is in place there.
const IN_PLACE_WITHIN: Duration = Duration::from_secs(60);
/// How long a connection waits that could not be taken.
const REFUSED_FOR: Duration = Duration::from_millis(100);
/// Connections that are served at once; more are closed.
const SERVED_MAX: usize = 16;

/// Why a process does not come over such a way.
#[derive(Debug, Error)]
pub enum LaneError {
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The encrypted link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Who it is.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// What came is not what was agreed.
    #[error("{0}")]
    Odd(&'static str),
    /// The kernel refused.
    #[error(transparent)]
    Os(#[from] os::Error),
}

/// All of them, by process.
#[derive(Default)]
pub struct Lanes {
    identity: OnceLock<Identity>,
    ways: Mutex<Ways>,
    served: AtomicUsize,
}

#[derive(Default)]
struct Ways {
    /// Being made, or made.
    out: HashMap<i32, Way>,
    /// Who may bring it; and, when it does, over which socket.
    coming: HashMap<i32, Coming>,
}

struct Way {
    ticket: Ticket,
    out: Option<Out>,
    /// What has gone by it already.
    ahead: Option<Ahead>,
}

/// A way to another room.
#[derive(Clone)]
pub struct Out {
    /// The link to the other room.
    pub link: Arc<Sender>,
    socket: Arc<TcpStream>,
    /// From it, until somebody listens.
    back: Arc<Mutex<Option<Receiver>>>,
}

impl std::fmt::Debug for Out {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Out").field(&self.socket).finish()
    }
}

struct Coming {
    ticket: Ticket,
    from: String,
    socket: Option<TcpStream>,
    /// Pages follow by it when the process runs.
    lends: bool,
}

impl Lanes {
    fn ways(&self) -> MutexGuard<'_, Ways> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This node's certificate.
    pub fn set_identity(&self, identity: Identity) {
        // Set once, when the room is made.
        let _ = self.identity.set(identity);
    }

    fn identity(&self) -> Result<&Identity, LaneError> {
        self.identity.get().ok_or(LaneError::Odd("the room is not made yet"))
    }

    /// The way that process `pid` is to take.
    pub fn out(&self, pid: i32) -> Option<Out> {
        self.ways().out.get(&pid).and_then(|way| way.out.clone())
    }

    /// This of its memory has gone by the way with this ticket. Nobody wants to know if there is
    /// another by now.
    pub fn keep(&self, pid: i32, ticket: &Ticket, ahead: Ahead) {
        if let Some(way) = self.ways().out.get_mut(&pid).filter(|way| way.ticket == *ticket) {
            way.ahead = Some(ahead);
        }
    }

    /// What of its memory has gone by the way that it is to take.
    pub fn take_ahead(&self, pid: i32) -> Option<Ahead> {
        self.ways().out.get_mut(&pid).and_then(|way| way.ahead.take())
    }

    /// This process may be brought.
    pub fn admit(&self, pid: i32, ticket: Ticket, from: String) {
        self.ways().coming.insert(pid, Coming { ticket, from, socket: None, lends: false });
    }

    /// Whatever way this process had, it is not needed any more.
    pub fn end(&self, pid: i32) {
        let mut ways = self.ways();
        let out = ways.out.remove(&pid).and_then(|way| way.out);
        let coming = ways.coming.remove(&pid).and_then(|coming| coming.socket);
        drop(ways);
        // Whoever waits in it goes on.
        out.into_iter().for_each(|out| drop(out.socket.shutdown(Shutdown::Both)));
        coming.into_iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }

    /// This process runs here now: its way is needed only for pages that follow.
    pub fn arrived(&self, pid: i32) {
        if !self.ways().coming.get(&pid).is_some_and(|coming| coming.lends) {
            self.end(pid);
        }
    }

    /// Does this while the process may still be brought by who has this ticket.
    fn if_coming(&self, pid: i32, ticket: &Ticket, act: impl FnOnce(&mut Coming)) -> Result<(), LaneError> {
        let mut ways = self.ways();
        match ways.coming.get_mut(&pid) {
            Some(coming) if coming.ticket == *ticket => {
                act(coming);
                Ok(())
            }
            _ => Err(LaneError::Odd("the process is not expected any more")),
        }
    }
}

/// Makes the way to another room in a thread of its own, and tells home.
pub fn connect(room: &Arc<Shared>, pid: i32, lane: Lane) {
    room.lanes.ways().out.insert(pid, Way { ticket: lane.ticket, out: None, ahead: None });
    let task = room.clone();
    let connect = move || {
        let made = reach(&task, pid, &lane);
        let result = made.as_ref().map(drop).map_err(|e| format!("reaching {} at {}: {e}", lane.node, lane.address));
        if let (Ok(out), Some(way)) = (made, task.lanes.ways().out.get_mut(&pid))
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

fn reach(room: &Shared, pid: i32, lane: &Lane) -> Result<Out, LaneError> {
    os::fault::at("connect there")?;
    let identity = room.lanes.identity()?;
    let mut socket = TcpStream::connect_timeout(&lane.address, CONNECT_WITHIN)?;
    socket.write_all(&Preamble::Lane(RoomId(lane.room)).encode())?;
    let name = identity::server_name(&identity::NodeName::new(lane.node.as_str())?)?;
    let kept = socket.try_clone()?;
    let (link, back, _) = link::connect(socket, identity.client_config(), name)?;
    let hello = Hello { version: room_protocol::VERSION, pid, ticket: lane.ticket };
    let hello = postcard::to_stdvec(&hello).map_err(|_| LaneError::Odd("what is brought cannot be said"))?;
    link.send(Kind::Message, 0, 0, &[&hello])?;
    Ok(Out { link: Arc::new(link), socket: Arc::new(kept), back: Arc::new(Mutex::new(Some(back))) })
}

/// What the other room has of the process from an earlier stay: it says so when it lays its memory
/// out.
pub fn hear_stocked(way: &Out) -> Result<Stocked, BodyError> {
    let mut stocked = Stocked::default();
    hear(way, ANSWER_WITHIN, |wanted| match wanted {
        Wanted::Stocked { pages, last } => {
            stocked.add(pages);
            Some(last)
        }
        _ => None,
    })?;
    Ok(stocked)
}

/// Until all that was sent of the process is in place there.
pub fn await_in_place(way: &Out, pid: i32) -> Result<(), BodyError> {
    way.link.send(Kind::Await, 0, 0, &[&pid.to_le_bytes()]).map_err(|e| broken(&e.to_string()))?;
    hear(way, IN_PLACE_WITHIN, |wanted| (wanted == Wanted::InPlace).then_some(true))
}

fn broken(why: &str) -> BodyError {
    BodyError::Stays(format!("the way to the other room: {why}"))
}

/// Hears what the other room says until `take` says that this is all; it says nothing of what may
/// not come.
fn hear(way: &Out, limit: Duration, mut take: impl FnMut(Wanted) -> Option<bool>) -> Result<(), BodyError> {
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
pub fn listen(way: &Out, lender: &Arc<Lender>) -> Result<(), BodyError> {
    let back = way.back.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut back = back.ok_or_else(|| BodyError::Stays("its way is in use".into()))?;
    let lender = lender.clone();
    let hear = move || {
        let mut body = Vec::new();
        loop {
            let heard = back.receive(&mut body).map(|head| head.kind == Kind::Message);
            match heard.map(|is_message| postcard::from_bytes(&body).ok().filter(|_| is_message)) {
                Ok(Some(Wanted::Fetch(ranges))) => lender.ask(&ranges),
                Ok(Some(Wanted::Filled)) => lender.arrived(),
                Ok(Some(Wanted::Enough)) => lender.stop(),
                Ok(Some(Wanted::Stocked { .. } | Wanted::InPlace)) | Ok(None) => {
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
        if room.lanes.served.fetch_add(1, Ordering::AcqRel) >= SERVED_MAX {
            room.lanes.served.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!("too many nodes bring processes at once");
            continue;
        }
        let task = room.clone();
        let take = move || {
            match contained(|| take_in(&task, socket)) {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::info!("a process that another node brings: {e}"),
                Err(failure) => {
                    tracing::error!("a process that another node brings: the warden failed: {}", failure.words)
                }
            }
            task.lanes.served.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().name("lane".into()).spawn(take).is_err() {
            room.lanes.served.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn take_in(room: &Shared, socket: TcpStream) -> Result<(), LaneError> {
    let kept = socket.try_clone()?;
    let (link, mut from, certificates) = link::accept(socket, room.lanes.identity()?.server_config())?;
    let peer = identity::peer_node(Some(&certificates))?;
    kept.set_read_timeout(Some(HELLO_WITHIN))?;
    let mut body = Vec::new();
    let head = from.receive(&mut body)?;
    let hello = postcard::from_bytes::<Hello>(&body).ok().filter(|_| head.kind == Kind::Message);
    let Hello { version, pid, ticket } = hello.ok_or(LaneError::Odd("it does not say what it brings"))?;
    if version != room_protocol::VERSION {
        return Err(LaneError::Odd("it speaks another version of the room protocol: upgrade one of the nodes"));
    }
    kept.set_read_timeout(None)?;
    {
        let mut ways = room.lanes.ways();
        let coming = ways.coming.get_mut(&pid);
        let coming = coming.filter(|c| c.ticket == ticket && c.from == peer.as_str() && c.socket.is_none());
        coming.ok_or(LaneError::Odd("nobody expects what it brings"))?.socket = Some(kept);
    }
    let source = Source::Room(Arc::new(link));
    let received = receive(room, pid, &ticket, (&mut from, &source));
    let lends = matches!(received, Ok(true));
    let lent = if lends { follow(room, pid, &ticket, (&mut from, &source)) } else { Ok(()) };
    let ended = received.map(drop).and(lent);
    if let Err(e) = &ended {
        let why = format!("its way from {peer}: {e}");
        match lends {
            // Who misses none does not mind.
            true => room.following.give(Followed::Broken { pid, source, why }),
            // Home waits to hear that it stands.
            false => drop(room.lanes.if_coming(pid, &ticket, |_| room.cargo.give(Item::Lost { pid, why }))),
        }
    }
    if lends {
        room.lanes.ways().coming.retain(|p, coming| *p != pid || coming.ticket != ticket);
    }
    if lends { Ok(()) } else { ended }
}

/// Pages that follow, until the other end closes the way: there it is known when none is needed.
fn follow(room: &Shared, pid: i32, ticket: &Ticket, (from, source): (&mut Receiver, &Source)) -> Result<(), LaneError> {
    let mut body = Vec::new();
    loop {
        let head = from.receive(&mut body)?;
        if page_frames::process(&body) != Some(pid) {
            return Err(LaneError::Odd("it sends another process"));
        }
        let followed = match head.kind {
            Kind::Pushed => Followed::Pushed { body: room.bodies.hand_on(&mut body), source: source.clone() },
            Kind::Vacant => Followed::Vacant { body: std::mem::take(&mut body), source: source.clone() },
            _ => return Err(LaneError::Odd("it sends something else than what follows")),
        };
        room.lanes.if_coming(pid, ticket, |_| room.following.give(followed))?;
    }
}

/// Image and pages, until all is there. Whether any follow.
fn receive(
    room: &Shared,
    pid: i32,
    ticket: &Ticket,
    (from, source): (&mut Receiver, &Source),
) -> Result<bool, LaneError> {
    let mut body = Vec::new();
    loop {
        let head = from.receive(&mut body)?;
        let (whose, item, lends) = match head.kind {
            Kind::Image => (page_frames::process(&body), Item::Part(std::mem::take(&mut body)), None),
            Kind::Pages => (page_frames::process(&body), Item::Pages(room.bodies.hand_on(&mut body)), None),
            Kind::Stocked => (page_frames::process(&body), Item::Stocked(std::mem::take(&mut body)), None),
            Kind::Dense => (page_frames::process(&body), Item::Dense(std::mem::take(&mut body)), None),
            Kind::Later => (page_frames::process(&body), Item::Later(std::mem::take(&mut body)), None),
            Kind::Await => (page_frames::process(&body), Item::Await(source.clone()), None),
            Kind::Message => match postcard::from_bytes(&body) {
                Ok(ToRoom::LayOut { pid, stocked }) => {
                    (Some(pid), Item::LayOut { pid, stocked: stocked.then(|| source.clone()) }, None)
                }
                Ok(ToRoom::Rebuild { pid, gone, image, loan }) => {
                    (Some(pid), Item::Rebuild { pid, gone, image, loan, source: source.clone() }, Some(loan != 0))
                }
                _ => return Err(LaneError::Odd("it says something that only home may")),
            },
            _ => return Err(LaneError::Odd("it sends something else than a process")),
        };
        if whose != Some(pid) {
            return Err(LaneError::Odd("it sends another process"));
        }
        room.cargo.make_way();
        room.lanes.if_coming(pid, ticket, |coming| {
            coming.lends = lends.unwrap_or_default();
            room.cargo.give(item);
        })?;
        if let Some(lends) = lends {
            return Ok(lends);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_not_announced_brings_nothing() {
        let lanes = Lanes::default();
        let brought = |pid, ticket| {
            let mut done = false;
            let let_in = lanes.if_coming(pid, &[ticket; 16], |_| done = true);
            assert_eq!(let_in.is_ok(), done);
            done
        };
        assert!(!brought(7, 1));
        lanes.admit(7, [1; 16], "n2".into());
        assert!(brought(7, 1) && !brought(7, 2) && !brought(8, 1));
        // Announced anew, the old one is worth nothing.
        lanes.admit(7, [2; 16], "n2".into());
        assert!(!brought(7, 1) && brought(7, 2));
        lanes.end(7);
        assert!(!brought(7, 2) && lanes.out(7).is_none());
    }
}
