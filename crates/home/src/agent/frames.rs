//! Receives the room's frames: several threads take them in turn, each of which serves
//! files with borrowed rights.

use crate::agent::crossing;
use crate::closing;
use crate::proxy::{from_room, image_frames, procfs};
use crate::room::state::Room;
use crate::room::streams;
use homefs::server::Server;
use link::{LinkError, Receiver};
use room_protocol::{Head, Kind, ToHome};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads that serve the room: each takes the next frame while the others run theirs.
const WORKERS: usize = 6;

/// Serves the room by threads of their own, as long as its link lasts.
///
/// # Errors
/// A thread cannot be started.
pub fn receive(room: &Arc<Room>, uplink: Receiver) -> Result<(), String> {
    let (inquiries, to_answer) = std::sync::mpsc::channel();
    let _ = room.inquiries.set(inquiries);
    let answering = Arc::downgrade(room);
    std::thread::Builder::new()
        .name("proc".into())
        .spawn(move || procfs::serve(&answering, &to_answer))
        .map_err(|e| e.to_string())?;
    let streams = Arc::downgrade(room);
    std::thread::Builder::new()
        .name("streams".into())
        .spawn(move || streams::serve(&streams))
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
fn work(room: &Arc<Room>, uplink: &Mutex<Receiver>) {
    let Some(files) = room.link.files().cloned() else { return };
    let mut body = Vec::new();
    while let Some(mount) = take_turn(room, &files, uplink, &mut body) {
        request(room, &files, mount, &body);
    }
}

/// Serves one request for files. The asking thread waits in the kernel, where no signal ends it,
/// until it is answered.
fn request(room: &Room, files: &Arc<Server>, mount: u16, body: &[u8]) {
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

/// Serves a request that the room has answered itself, before the next frame is taken.
fn behind(room: &Room, files: &Arc<Server>, mount: u16, body: &[u8]) {
    let asker = room.process_of(homefs::proto::asker(body) as i32);
    if room.contain(asker, || files.behind(mount, body)).is_none() {
        files.fail(mount, body);
    }
}

/// Takes frames until a request for files has come that others need not wait for (the mount that it
/// is for); none when the room ends. Messages are obeyed before the next frame is taken, for their
/// order matters; requests for files are not, but for some ends of open files. Who has its turn
/// keeps it meanwhile: to wake another takes longer than most of what comes.
fn take_turn(room: &Arc<Room>, files: &Arc<Server>, uplink: &Mutex<Receiver>, body: &mut Vec<u8>) -> Option<u16> {
    let mut receiver = uplink.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let head = receiver.receive(body).map_err(|e| lost(room, &e)).ok()?;
        match head.kind {
            Kind::Behind => behind(room, files, head.mount, body),
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
            Kind::Stream => match room.contain(None, || streams::obey(room, body)) {
                Some(Ok(sought)) => sought.into_iter().for_each(|sought| crossing::seek(room, sought)),
                Some(Err(why)) => {
                    end(room, &why);
                    return None;
                }
                None => {}
            },
            Kind::Invalidate | Kind::Offer | Kind::Packed | Kind::Await => {
                end(room, "the room sent what only a home sends");
                return None;
            }
            Kind::Image
            | Kind::Pages
            | Kind::PeerPages
            | Kind::HugePageHints
            | Kind::Advance
            | Kind::Later
            | Kind::Vacant
            | Kind::Pushed => drop(room.contain(room_protocol::page_frames::process(body), || cargo(room, head, body))),
        }
    }
}

fn message(room: &Room, body: &[u8]) -> Result<(), String> {
    let message = postcard::from_bytes::<ToHome>(body)
        .map_err(|e| format!("node {} sent a message that is none: {e}", room.args.host))?;
    message.process().into_iter().for_each(os::contain::on_account_of);
    from_room::obey(room, message)
}

/// A part of a process that comes home.
fn cargo(room: &Room, head: Head, body: &mut Vec<u8>) {
    match head.kind {
        Kind::Image => image_frames::image_part(room, body),
        Kind::Pages => image_frames::image_pages(room, room.bodies.hand_on(body), head.body_bytes),
        Kind::PeerPages => image_frames::pages_stocked(room, body),
        Kind::HugePageHints => image_frames::pages_dense(room, body),
        Kind::Advance => image_frames::pages_advance(room, room.bodies.hand_on(body), head.body_bytes),
        Kind::Later => image_frames::pages_later(room, body),
        Kind::Vacant => image_frames::pages_vacant(room, body),
        Kind::Pushed => image_frames::pages_pushed(room, body, head.body_bytes),
        other => tracing::error!("{other:?} is no part of a process"),
    }
}

fn lost(room: &Room, e: &LinkError) {
    let why = match e {
        LinkError::Closed => "it closed the connection".to_owned(),
        other => other.to_string(),
    };
    end(room, &why);
}

fn end(room: &Room, why: &str) {
    tracing::info!("room ends: {why}");
    if let Some(files) = room.link.files() {
        files.close();
    }
    if let Some(downlink) = room.link.downlink() {
        downlink.close();
    }
    room.lost(why);
}
