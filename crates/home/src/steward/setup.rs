//! From the command line to a steward that serves, and to its end.

use super::args::StewardArgs;
use super::closing;
use super::deputy_watchdog::{self, Heir};
use super::files::{Hosted, ToTheRoom};
use super::messages;
use super::mounts;
use super::poller::Poller;
use super::privileged;
use super::processes;
use super::shared::Shared;
use super::{StewardError, control};
use homefs::server::{ExportPath, Server};
use link::{LinkError, Receiver};
use room_protocol::message::{Home, Mount};
use room_protocol::{Head, Kind, ToHome, ToRoom};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Threads that serve the room: each takes the next frame while the others run theirs.
const WORKERS: usize = 6;

/// Runs the steward until its room is gone and its last deputy has ended.
pub fn run(args: StewardArgs) -> Result<(), StewardError> {
    // For the heir, which tells the guests.
    os::last_words::keep()?;
    os::stray::outlive()?;
    // SAFETY: the threads of this process are started below.
    let heir = unsafe { Heir::beget(&args.host)? };
    let rooms = args.run_dir.join("rooms");
    std::fs::create_dir_all(&rooms).map_err(|e| os::Error::new(format!("making {}", rooms.display()), e))?;
    let path = args.socket();
    let listener = os::socket::listen(&path)?;
    let room = Arc::new(Shared::new(args, Poller::new()?, heir));
    let serving = room.clone();
    std::thread::Builder::new()
        .name("socket".into())
        .spawn(move || control::serve(&serving, &listener))
        .map_err(|e| os::Error::new("starting a thread", e))?;
    let watching = room.clone();
    std::thread::Builder::new()
        .name("heirs".into())
        .spawn(move || deputy_watchdog::keep(&watching))
        .map_err(|e| os::Error::new("starting a thread", e))?;
    privileged::run(room);
    let _ = std::fs::remove_file(path);
    Ok(())
}

/// The warden's connection came: TLS, introductions, and from then on the room is served.
pub fn connect(room: &Arc<Shared>, socket: TcpStream) -> Result<(), String> {
    if room.downlink.get().is_some() {
        return Err("the room has its warden already".into());
    }
    os::fault::at("connect").map_err(|e| e.to_string())?;
    let identity = identity::Identity::load(&room.args.state).map_err(|e| e.to_string())?;
    let (downlink, mut uplink, certificates) =
        link::accept(socket, identity.server_config()).map_err(|e| e.to_string())?;
    downlink.lose_after(Duration::from_millis(room.args.lost_after_ms.into())).map_err(|e| e.to_string())?;
    let peer = identity::peer_node(Some(&certificates)).map_err(|e| e.to_string())?;
    if peer.as_str() != room.args.host {
        return Err(format!("node {peer} came instead of {}", room.args.host));
    }
    let hello = first_message(&downlink, &mut uplink);
    match hello {
        Some(ToHome::Hello { version }) if version == room_protocol::VERSION => {}
        Some(ToHome::Hello { version }) => {
            return Err(format!(
                "it speaks version {version} of the room protocol, this node {}: upgrade one of them",
                room_protocol::VERSION
            ));
        }
        _ => return Err("it did not introduce itself".into()),
    }
    room.downlink.set(downlink).map_err(|_| "the room has its warden already".to_owned())?;
    open(room).map_err(|e| e.to_string())?;
    receive(room, uplink)
}

/// Clock readings that a room may ask for before it introduces itself.
const CLOCKS_MAX: usize = 100;

/// The message with which the room introduces itself; before it, the room reads our clocks.
fn first_message(downlink: &link::Sender, uplink: &mut Receiver) -> Option<ToHome> {
    let mut body = Vec::new();
    for _ in 0..CLOCKS_MAX {
        uplink.receive(&mut body).ok().filter(|head| head.kind == Kind::Message)?;
        match postcard::from_bytes(&body).ok()? {
            ToHome::Clock => {
                let answer = postcard::to_stdvec(&told_clocks()).ok()?;
                downlink.send(Kind::Message, 0, 0, &[&answer]).ok()?;
            }
            other => return Some(other),
        }
    }
    None
}

/// What a room is told that asks for the clocks.
pub fn told_clocks() -> ToRoom {
    let realtime_ns = os::namespace::clock_ns(libc::CLOCK_REALTIME);
    let (monotonic_ns, boottime_ns) = clocks();
    ToRoom::Clock { monotonic_ns, boottime_ns, realtime_ns }
}

fn clocks() -> (i64, i64) {
    (os::namespace::clock_ns(libc::CLOCK_MONOTONIC), os::namespace::clock_ns(libc::CLOCK_BOOTTIME))
}

/// Serves the files, and says what the home looks like.
fn open(room: &Arc<Shared>) -> Result<(), StewardError> {
    let (seen, devices) = (mounts::seen_now()?, mounts::devices_now()?);
    let mounts = seen.iter().map(|s| Mount { path: mounts::bytes(&s.path), read_only: s.read_only }).collect();
    let exports: Vec<ExportPath> = seen.into_iter().map(|s| ExportPath { path: s.path }).collect();
    let files = Server::start(&exports, Arc::new(Hosted(Arc::downgrade(room))), Arc::new(ToTheRoom(room.clone())))?;
    let _ = room.files.set(files);
    let uname = rustix::system::uname();
    let (monotonic_ns, boottime_ns) = clocks();
    let home = Home {
        version: room_protocol::VERSION,
        hostname: uname.nodename().to_bytes().to_vec(),
        domainname: uname.domainname().to_bytes().to_vec(),
        monotonic_ns,
        boottime_ns,
        vdso: os::vdso::own(),
        lost_after_ms: room.args.lost_after_ms,
        mounts,
        devices,
    };
    room.tell(&ToRoom::Open(home));
    Ok(())
}

fn receive(room: &Arc<Shared>, uplink: Receiver) -> Result<(), String> {
    let (inquiries, to_answer) = std::sync::mpsc::channel();
    let _ = room.inquiries.set(inquiries);
    let answering = Arc::downgrade(room);
    std::thread::Builder::new()
        .name("proc".into())
        .spawn(move || processes::serve(&answering, &to_answer))
        .map_err(|e| e.to_string())?;
    let uplink = Arc::new(Mutex::new(uplink));
    for n in 0..WORKERS {
        let (room, uplink) = (room.clone(), uplink.clone());
        std::thread::Builder::new()
            .name(format!("worker-{n}"))
            .spawn(move || work(&room, &uplink))
            .map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Serves in turn with the other workers.
fn work(room: &Arc<Shared>, uplink: &Mutex<Receiver>) {
    let Some(files) = room.files.get().cloned() else { return };
    let mut body = Vec::new();
    while let Some(mount) = take_turn(room, &files, uplink, &mut body) {
        request(room, &files, mount, &body);
    }
}

/// Serves one request for files. Who asks waits in the kernel, where no signal ends it, until it is
/// answered.
fn request(room: &Shared, files: &Arc<Server>, mount: u16, body: &[u8]) {
    let asker = room.process_of(homefs::proto::asker(body) as i32);
    let served = room.contain(asker, || {
        if homefs::server::reads(body) {
            os::fault::past("file content");
        }
        files.request(mount, body);
    });
    if served.is_none() {
        files.fail(mount, body);
    }
}

/// Takes frames until a request for files has come that others need not wait for (the mount that it
/// is for); none when the room ends. Messages are obeyed before the next frame is taken, for their
/// order matters; requests for files are not, but for some ends of open files. Who has its turn
/// keeps it meanwhile: to wake another takes longer than most of what comes.
fn take_turn(room: &Arc<Shared>, files: &Arc<Server>, uplink: &Mutex<Receiver>, body: &mut Vec<u8>) -> Option<u16> {
    let mut receiver = uplink.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let head = receiver.receive(body).map_err(|e| lost(room, &e)).ok()?;
        match head.kind {
            Kind::Fuse if files.comes_first(body) => request(room, files, head.mount, body),
            Kind::Fuse if files.closes_stream(body) => {
                let (room, files, body) = (room.clone(), files.clone(), body.clone());
                closing::briefly(move || request(&room, &files, head.mount, &body));
            }
            Kind::Fuse => return Some(head.mount),
            Kind::Applied => files.applied(head.seq),
            Kind::Message => {
                if let Some(Err(why)) = room.contain(None, || message(room, body)) {
                    end(room, &why);
                    return None;
                }
            }
            Kind::Invalidate | Kind::Offer | Kind::Packed | Kind::Await => {
                end(room, "the room sent what only a home sends");
                return None;
            }
            Kind::Image
            | Kind::Pages
            | Kind::Stocked
            | Kind::Dense
            | Kind::Advance
            | Kind::Later
            | Kind::Vacant
            | Kind::Pushed => drop(room.contain(room_protocol::page_frames::process(body), || cargo(room, head, body))),
        }
    }
}

fn message(room: &Shared, body: &[u8]) -> Result<(), String> {
    let message = postcard::from_bytes::<ToHome>(body)
        .map_err(|e| format!("node {} sent a message that is none: {e}", room.args.host))?;
    message.process().into_iter().for_each(os::contain::on_account_of);
    messages::obey(room, message)
}

/// A part of a process that comes home.
fn cargo(room: &Shared, head: Head, body: &mut Vec<u8>) {
    match head.kind {
        Kind::Image => messages::image_part(room, body),
        Kind::Pages => messages::image_pages(room, room.bodies.hand_on(body), head.body_bytes),
        Kind::Stocked => messages::pages_stocked(room, body),
        Kind::Dense => messages::pages_dense(room, body),
        Kind::Advance => messages::pages_advance(room, room.bodies.hand_on(body), head.body_bytes),
        Kind::Later => messages::pages_later(room, body),
        Kind::Vacant => messages::pages_vacant(room, body),
        Kind::Pushed => messages::pages_pushed(room, body, head.body_bytes),
        other => tracing::error!("{other:?} is no part of a process"),
    }
}

fn lost(room: &Shared, e: &LinkError) {
    let why = match e {
        LinkError::Closed => "it closed the connection".to_owned(),
        other => other.to_string(),
    };
    end(room, &why);
}

fn end(room: &Shared, why: &str) {
    tracing::info!("room ends: {why}");
    if let Some(files) = room.files.get() {
        files.close();
    }
    if let Some(downlink) = room.downlink.get() {
        downlink.close();
    }
    room.lost(why);
}
