//! Ways for streams to other rooms of the same home ([`crate::state::ways`]): one room connects, as
//! for a process that goes there ([`super::direct_link`]), and the other one expects it.

use crate::state::shared::Shared;
use crate::state::transfer::direct_links::DirectLinkError;
use crate::supervisor::transfer::lane::reach;
use link::{Receiver, Sender};
use room_protocol::message::onward::{Lane, Purpose, Ticket};
use room_protocol::{Kind, ToHome};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How long a way that comes waits for home's word that it may.
const EXPECTED_WITHIN: Duration = Duration::from_secs(2);
/// How often it is looked whether that word has come.
const LOOK: Duration = Duration::from_millis(2);

/// Makes a way to another room in a thread of its own, which receives by it; tells home.
pub fn connect(room: &Arc<Shared>, way: u64, lane: Lane) {
    let task = room.clone();
    let serve = move || match reach(&task, Purpose::Streams, &lane) {
        Ok(made) => {
            let back = made.back.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(back) = back else { return };
            task.home.streams.ways.open(way, made.link);
            task.tell(&ToHome::Way { way, result: Ok(()) });
            receive(&task, way, back);
        }
        Err(e) => {
            let why = format!("reaching {} at {}: {e}", lane.node, lane.address);
            task.tell(&ToHome::Way { way, result: Err(why) });
        }
    };
    if let Err(e) = std::thread::Builder::new().name("way".into()).spawn(serve) {
        let why = format!("no thread to reach another node: {e}");
        room.tell(&ToHome::Way { way, result: Err(why) });
    }
}

/// Takes a way that another node has made, and receives by it in a thread of its own.
///
/// # Errors
/// Home did not announce the way.
pub fn take_in(
    room: &Arc<Shared>,
    node: &str,
    ticket: &Ticket,
    link: Sender,
    from: Receiver,
) -> Result<(), DirectLinkError> {
    let begun = Instant::now();
    let way = loop {
        match room.home.streams.ways.take_expected(ticket, node) {
            Some(way) => break way,
            None if begun.elapsed() > EXPECTED_WITHIN => return Err(DirectLinkError::Odd("nobody expects its way")),
            None => std::thread::sleep(LOOK),
        }
    };
    room.home.streams.ways.open(way, Arc::new(link));
    let task = room.clone();
    let spawned = std::thread::Builder::new().name("way".into()).spawn(move || receive(&task, way, from));
    spawned.map(drop).map_err(DirectLinkError::Io)
}

/// Receives until the way breaks: then its streams go home again.
fn receive(room: &Shared, way: u64, mut from: Receiver) {
    let mut body = Vec::new();
    let why = loop {
        match from.receive(&mut body) {
            Ok(head) if head.kind == Kind::Stream => {
                if let Err(why) = room.home.streams.obey_across(way, &body) {
                    break why;
                }
            }
            Ok(_) => break "the other room sends something else than streams".to_owned(),
            Err(e) => break e.to_string(),
        }
    };
    tracing::info!("a way to another room ends: {why}");
    room.home.streams.ways.forget(way);
    room.home.streams.part_all(way);
    room.tell(&ToHome::Way { way, result: Err(why) });
}
