//! What a body that leaves is sent home as: its image, its pages, and what follows.

use crate::state::shared::Shared;
use checkpoint::{BodyError, Headstart, Left, Lender, Lent};
use image::{Area, Image};
use link::Bulk;
use os::inject::Memory;
use os::pages::Own;
use os::ptrace::HostTid;
use room_protocol::message::onward::Said;
use room_protocol::{Kind, ToHome, page_frames};
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

/// A frame to home.
fn frame(room: &Shared, kind: Kind, parts: &[&[u8]]) -> Result<(), BodyError> {
    let sent = room.home.uplink.send(kind, 0, 0, parts);
    sent.map_err(|e| BodyError::NotMigratable(format!("the link to home: {e}")))
}

/// Sends an image home: it is there before what is sent next.
pub fn send_image(room: &Shared, pid: i32, bytes: &[u8]) -> Result<(), BodyError> {
    page_frames::parts(pid, bytes).try_for_each(|(head, part)| frame(room, Kind::Image, &[&head, part]))
}

/// Sends pages home, but for those that it has, when it has taken enough of those before.
pub fn pages_within(
    room: &Shared,
    pid: i32,
    bulk: &RefCell<Bulk>,
    runs: &[checkpoint::Run],
    bytes: &[u8],
) -> Result<(), BodyError> {
    keep(room, pid, bulk, runs, bytes);
    let divided = room.stocked.divide(pid, runs, bytes);
    let (runs, bytes) = match &divided {
        Some(divided) => {
            may_be_sent(room, pid, 0)?;
            frame(room, Kind::PeerPages, &[&page_frames::pages_head(pid, &divided.there)])?;
            (&divided.rest[..], &divided.bytes[..])
        }
        None => (runs, bytes),
    };
    if runs.is_empty() {
        return Ok(());
    }
    may_be_sent(room, pid, bytes.len() as u64)?;
    pages(room, bulk, Kind::Pages, &[&page_frames::pages_head(pid, runs), bytes])
}

/// What goes over a slow link may come back over one.
fn keep(room: &Shared, pid: i32, bulk: &RefCell<Bulk>, runs: &[checkpoint::Run], bytes: &[u8]) {
    if room.page_cache.wants(bulk.borrow().is_slow()) || room.stocked.has(pid) {
        room.page_cache.note(pid, runs, bytes);
    }
}

/// Of a try that home has given up nothing is, for it might come in the midst of the next one.
fn may_be_sent(room: &Shared, pid: i32, bytes: u64) -> Result<(), BodyError> {
    match room.windows.make_way(pid, bytes) {
        true => Ok(()),
        false => Err(BodyError::NotMigratable("home takes no more of its pages".into())),
    }
}

/// A frame of pages to home.
fn pages(room: &Shared, bulk: &RefCell<Bulk>, kind: Kind, parts: &[&[u8]]) -> Result<(), BodyError> {
    let sent = bulk.borrow_mut().send(&room.home.uplink, kind, parts);
    sent.map(drop).map_err(|e| BodyError::NotMigratable(format!("the link to home: {e}")))
}

/// Tells home which of these runs, that go for the first time, are full.
pub fn send_dense(
    room: &Shared,
    pid: i32,
    host: HostTid,
    runs: &[checkpoint::Run],
    areas: &[Area],
) -> Result<(), BodyError> {
    let dense = checkpoint::huge_page_ranges(host.0, runs, areas)?;
    dense
        .chunks(page_frames::LATER_RUNS)
        .try_for_each(|part| frame(room, Kind::HugePageHints, &[&page_frames::pages_head(pid, part)]))
}

/// Sends image and pages home; who sends what follows later, if anything does.
pub fn send(
    room: &Arc<Shared>,
    (pid, host): (i32, HostTid),
    (image, elsewhere): (&Image, &[bool]),
    (ahead, follow_bytes): (&mut Headstart, u64),
    bulk: &RefCell<Bulk>,
) -> Result<Option<Arc<Lender>>, BodyError> {
    os::fault::at("send there")?;
    let mut image = Cow::Borrowed(image);
    if image.process.keys != 0 || image.areas.iter().any(|a| a.key != 0) {
        checkpoint::find_keys(host.0, image.to_mut())?;
    }
    let image = &*image;
    let bytes = image.encode().map_err(|e| BodyError::NotMigratable(e.to_string()))?;
    send_image(room, pid, &bytes)?;
    let Left { rest, bytes, later } = ahead.left(host.0, image, follow_bytes)?;
    if !rest.gone.is_empty() {
        room.tell(&ToHome::Onward { pid, said: Said::Gone(rest.gone) });
    }
    let batch_bytes = || bulk.borrow().batch_bytes();
    let send_pages = |runs: &[checkpoint::Run], bytes: &[u8]| pages_within(room, pid, bulk, runs, bytes);
    match &bytes {
        Some(bytes) => checkpoint::each_of(&rest.runs, bytes, batch_bytes, send_pages)?,
        None => {
            let memory = Memory::of(host.0)?;
            if ahead.is_none() {
                send_dense(room, pid, host, &rest.runs, &image.areas)?;
            }
            let pages = checkpoint::PagesToSend {
                runs: &rest.runs,
                memory: &memory,
                areas: &image.areas,
                fresh: ahead.is_none(),
                unreadable: None,
            };
            checkpoint::each_batch(pages, batch_bytes, send_pages)?;
        }
    }
    checkpoint::each_content(host.0, image, elsewhere, batch_bytes, send_pages)?;
    if later.is_empty() {
        return Ok(None);
    }
    let absent: Vec<checkpoint::Run> = later.iter().map(|(start, end)| (start, end - start)).collect();
    let lender = room.lenders.begin(pid, later, bulk.borrow().pace());
    for part in absent.chunks(page_frames::LATER_RUNS) {
        frame(room, Kind::Later, &[&page_frames::pages_head(pid, part)])?;
    }
    Ok(Some(lender))
}

/// Sends what follows.
pub fn lend(room: &Shared, pid: i32, host: HostTid, image: &Image, lender: &Lender, bulk: &RefCell<Bulk>) {
    let lent = Memory::of(host.0).map_err(BodyError::from).and_then(|memory| {
        lender.run(&memory, &Own::of(host.0)?, &image.areas, |lent| match lent {
            Lent::Pages(batch) => {
                keep(room, pid, bulk, batch.runs, batch.bytes);
                pages(room, bulk, Kind::Pushed, &[&page_frames::pushed_head(pid, batch.runs, batch.zeros), batch.bytes])
            }
            Lent::Vacant(runs) => frame(room, Kind::Vacant, &[&page_frames::pages_head(pid, runs)]),
        })
    });
    room.lenders.end(pid);
    room.tell(&ToHome::Drained { pid, loan: lender.loan(), result: lent.map_err(|e| e.to_string()) });
}
