//! Pages that come from the room of a sibling, and not from home.
//!
//! Copies of one process that go to many nodes have the same memory. Home would send it to each of
//! them. So home names a sibling that runs on another node already, and this room reads the pages
//! of that sibling over a way of its own ([`fetch`]). The pages go into the cache of pages under
//! the PID of the process that comes. From there on all is as for a process that was here before:
//! this room says which pages it has, by their hashes, and home sends the others.
//!
//! The sibling runs while its pages are read, so a page may be torn or new. Home compares hashes,
//! and sends such a page itself. A sibling's room that dies, hangs or lies costs time alone.

use crate::state::shared::Shared;
use crate::state::transfer::direct_links::DirectLinkError;
use crate::state::transfer::incoming_queue::IncomingItem;
use crate::state::transfer::page_source::Source;
use crate::supervisor::transfer::lane::reach;
use checkpoint::BodyError;
use link::{Bulk, Sender};
use migration_plan::Pace;
use os::inject::Memory;
use os::pages::Own;
use room_protocol::message::onward::{Purpose, Sibling};
use room_protocol::{Kind, page_frames};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How long the sibling's room may be silent.
const SILENT_MAX: Duration = Duration::from_secs(2);
/// How long all pages may take: home waits for a step of the room no longer than 20 s.
const FETCHED_WITHIN: Duration = Duration::from_secs(12);

/// Fetches the pages of a sibling in a thread of its own, for process `pid`, which comes. `asker`
/// hears afterwards what is here.
pub fn fetch(room: &Arc<Shared>, pid: i32, sibling: Sibling, asker: Source) {
    let (task, waits) = (room.clone(), asker.clone());
    let fetch = move || {
        if let Err(e) = read(&task, pid, &sibling) {
            tracing::info!("pages of process {} on {}, for process {pid}: {e}", sibling.pid, sibling.lane.node);
        }
        task.incoming.give(IncomingItem::Fetched { pid, asker });
    };
    if let Err(e) = std::thread::Builder::new().name("sibling".into()).spawn(fetch) {
        tracing::info!("no thread to fetch pages: {e}");
        room.incoming.give(IncomingItem::Fetched { pid, asker: waits });
    }
}

/// Puts the pages of the sibling into the cache, as many as come.
fn read(room: &Shared, pid: i32, sibling: &Sibling) -> Result<(), DirectLinkError> {
    let begun = Instant::now();
    let way = reach(room, Purpose::Pages(sibling.pid), &sibling.lane)?;
    way.socket.set_read_timeout(Some(os::fault::patience(SILENT_MAX)))?;
    let mut back = way.back.lock().unwrap_or_else(PoisonError::into_inner);
    let back = back.as_mut().ok_or(DirectLinkError::Odd("the way is in use"))?;
    let mut body = Vec::new();
    while begun.elapsed() < FETCHED_WITHIN {
        let head = back.receive(&mut body)?;
        match page_frames::pages(&body) {
            _ if head.kind == Kind::Await => return Ok(()),
            Some(pages) if head.kind == Kind::Pages => room.page_cache.note(pid, &pages.runs, pages.bytes),
            _ => return Err(DirectLinkError::Odd("it sends something else than pages")),
        }
    }
    Err(DirectLinkError::Odd("its pages take too long"))
}

/// Sends the pages of process `pid` of this room, which runs, to the room of a process that is like
/// it.
///
/// # Errors
/// The process has ended, or the other room does not take the pages.
pub fn lend(room: &Shared, pid: i32, link: &Sender) -> Result<(), DirectLinkError> {
    os::fault::at("lend pages")?;
    let host = room.guests().host(pid).ok_or(DirectLinkError::Odd("its sibling is not here"))?.0;
    // The page of vsyscall(7) lies outside of the memory that a process has.
    let own_areas = os::areas::read(host)?.into_iter().filter(|area| !area.shared && area.name != b"[vsyscall]");
    let areas: Vec<_> = own_areas.map(|area| image::Area::anonymous(area.start, area.end, 0)).collect();
    let runs = checkpoint::own_runs(&Own::of(host)?, &areas)?;
    let memory = Memory::of(host)?;
    let (bulk, mut unreadable) = (std::cell::RefCell::new(Bulk::new(Pace::default())), Vec::new());
    let pages = checkpoint::PagesToSend {
        runs: &runs,
        memory: &memory,
        areas: &areas,
        fresh: true,
        unreadable: Some(&mut unreadable),
    };
    checkpoint::each_batch(
        pages,
        || bulk.borrow().batch_bytes(),
        |runs, bytes| {
            let parts = [&page_frames::pages_head(pid, runs)[..], bytes];
            bulk.borrow_mut()
                .send(link, Kind::Pages, &parts)
                .map(drop)
                .map_err(|e| BodyError::NotMigratable(e.to_string()))
        },
    )?;
    link.send(Kind::Await, 0, 0, &[&pid.to_le_bytes()])?;
    Ok(())
}
