//! Processes on their way in: parts of images and pages, in the order in which home or another room
//! sent them. A thread of its own, for writing a page may need a file from home; and one more,
//! which writes them, for whoever waits for such a file must not have the device through which it
//! comes ([`os::apart`]).

use crate::state::orders::Order;
use crate::state::shared::Shared;
use crate::state::transfer::incoming_queue::IncomingItem;
use crate::state::transfer::page_source::{Loan, Source};
use crate::state::transfer::postcopy_queue::PostcopyEvent;
use crate::supervisor::transfer::postcopy::{self, MissingPages};
use crate::supervisor::transfer::sibling;
use checkpoint::{CachedPages, HugePageHints, Window};
use image::Image;
use link::Body;
use migration_plan::Ranges;
use os::apart::Apart;
use os::contain::contained;
use os::inject::Memory;
use os::userfault::Userfault;
use room_protocol::ToHome;
use room_protocol::page_frames::{STOCKED_PAGES, WINDOW_BYTES};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// An image whose memory is laid out, and the ways to write it.
struct Laid {
    image: Arc<Image>,
    memory: Memory,
    windows: Arc<[Window]>,
}

/// A process of which something has come.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    /// Pages were written.
    written: bool,
    /// Pages were written before the last image came: the process ran then.
    ahead: bool,
    later: Ranges,
    dense: HugePageHints,
    mapped: Option<Result<Laid, String>>,
    /// What it left here when it was here before.
    leftover: Option<CachedPages>,
}

/// Pages that are in place, which home is told of when there is time: what it waits for comes
/// first.
#[derive(Default)]
struct Untold(HashMap<i32, u64>);

/// Else when nothing more has come for so long. At a stop the rest follows at once, and has the
/// processors for itself.
const TOLD_AFTER: Duration = Duration::from_micros(200);

/// So much of what home may have under way it is told of at once.
const TOLD_BYTES: u64 = WINDOW_BYTES / 8;

impl Untold {
    fn add(&mut self, room: &Shared, pid: i32, bytes: u64) {
        *self.0.entry(pid).or_default() += bytes;
        if self.0.values().sum::<u64>() >= TOLD_BYTES {
            self.tell(room);
        }
    }

    fn tell(&mut self, room: &Shared) {
        self.0.drain().for_each(|(pid, bytes)| room.tell(&ToHome::Taken { pid, bytes }));
    }

    /// Waits for the next item; before it waits for long, nothing is untold.
    fn next(&mut self, room: &Shared, from: &Receiver<IncomingItem>) -> Option<IncomingItem> {
        from.recv_timeout(TOLD_AFTER).ok().or_else(|| {
            self.tell(room);
            from.recv().ok()
        })
    }
}

/// Takes what comes, for ever.
pub fn serve(room: &Arc<Shared>) {
    let Some(from) = room.incoming.from.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    // Writing a page of a file's copy reads the file first.
    let apart = match Apart::start("cargo-pages", crate::sandbox::ids::root()) {
        Ok(apart) => apart,
        Err(e) => return tracing::error!("no process can come: {e}"),
    };
    os::warm::up();
    let mut incoming: HashMap<i32, Incoming> = HashMap::new();
    let mut taken = Untold::default();
    while let Some(item) = taken.next(room, &from) {
        let (bytes, pid) = (item.bytes(), item.process());
        let done = contained(|| take(room, item, &apart, &mut incoming, &mut taken));
        // One that comes still runs where it was, and goes on there.
        if let (Err(failure), Some(pid)) = (done, pid) {
            let why = format!("the warden failed: {}", failure.words);
            tracing::error!("process {pid}, which was to come: {why}");
            incoming.remove(&pid);
            give_up(room, pid, why);
        }
        room.incoming.took(bytes);
    }
}

fn take(
    room: &Arc<Shared>,
    item: IncomingItem,
    apart: &Apart,
    incoming: &mut HashMap<i32, Incoming>,
    taken: &mut Untold,
) {
    match item {
        IncomingItem::Part(body) => {
            if let Some((pid, last, bytes)) = room_protocol::page_frames::part(&body) {
                let one = incoming.entry(pid).or_default();
                one.add(bytes);
                // Laid out while its sender looks for the pages.
                let _ = last.then(|| one.map(room, pid));
            }
        }
        IncomingItem::Pages(body) => {
            let of = room_protocol::page_frames::pages(&body).map(|pages| (pages.pid, pages.bytes.len() as u64));
            if let Some((pid, bytes)) = of {
                if let Some(one) = incoming.get_mut(&pid) {
                    one.write(room, apart, pid, body);
                }
                taken.add(room, pid, bytes);
            }
        }
        IncomingItem::PeerPages(body) => {
            if let Some((pid, runs)) = room_protocol::page_frames::later(&body) {
                incoming.get_mut(&pid).into_iter().for_each(|one| one.write_again(room, apart, pid, &runs));
            }
        }
        IncomingItem::HugePageHints(body) => {
            if let Some((pid, runs)) = room_protocol::page_frames::later(&body) {
                incoming.get_mut(&pid).into_iter().for_each(|one| one.expect_dense(room, pid, &runs));
            }
        }
        IncomingItem::LayOut { pid, stocked: Some(asker), sibling: Some(sibling) } if !room.page_cache.has(pid) => {
            sibling::fetch(room, pid, *sibling, asker);
        }
        IncomingItem::LayOut { pid, stocked, .. } => {
            incoming.entry(pid).or_default().tell_laid_out(room, pid, stocked.as_ref());
        }
        IncomingItem::Fetched { pid, asker } => {
            incoming.get_mut(&pid).into_iter().for_each(|one| one.tell_laid_out(room, pid, Some(&asker)));
        }
        IncomingItem::Rebuild { pid, gone, image, loan, source } => match incoming.remove(&pid) {
            Some(mut one) => {
                one.add(&image);
                one.finish(room, pid, gone, Loan { number: loan, source });
            }
            None => room.tell(&ToHome::Rebuilt { pid, result: Err("no image came".into()) }),
        },
        IncomingItem::Later(body) => {
            if let Some((pid, runs)) = room_protocol::page_frames::later(&body) {
                incoming.get_mut(&pid).into_iter().for_each(|one| one.expect_later(room, pid, &runs));
            }
        }
        IncomingItem::Await(source) => source.tell_in_place(),
        IncomingItem::Lost { pid, why } => {
            incoming.remove(&pid);
            give_up(room, pid, why);
        }
        IncomingItem::Forget { pid } => drop(incoming.remove(&pid)),
    }
}

impl Incoming {
    fn add(&mut self, bytes: &[u8]) {
        self.ahead = self.written;
        if self.bytes.len() + bytes.len() <= image::IMAGE_BYTES_MAX {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Of an image that is whole the memory is laid out, or what was laid out for an earlier one is
    /// made to fit. What has failed once may lack pages that went ahead.
    fn map(&mut self, room: &Arc<Shared>, pid: i32) -> &Result<Laid, String> {
        let failed = matches!(self.mapped, Some(Err(_)));
        if !failed && (!self.bytes.is_empty() || self.mapped.is_none()) {
            let bytes = std::mem::take(&mut self.bytes);
            self.mapped = Some(lay_out(room, pid, &bytes));
        }
        self.mapped.get_or_insert_with(|| Err("no image came".into()))
    }

    fn write(&mut self, room: &Arc<Shared>, apart: &Apart, pid: i32, body: Body) {
        let Ok(laid) = self.map(room, pid) else { return };
        let needs_no_file =
            room_protocol::page_frames::pages(&body).is_some_and(|pages| are_anonymous(&pages.runs, &laid.image.areas));
        if let Err(e) = os::fault::at("pages there") {
            self.mapped = Some(Err(e.to_string()));
            return;
        }
        let (image, windows, memory) = (laid.image.clone(), laid.windows.clone(), laid.memory.clone());
        let runs = room_protocol::page_frames::pages(&body)
            .filter(|_| needs_no_file)
            .map(|pages| pages.runs)
            .unwrap_or_default();
        let put = move |memory: &Memory| match room_protocol::page_frames::pages(&body) {
            Some(pages) => checkpoint::put_pages(&pages.runs, pages.bytes, &image.areas, &windows, memory)
                .map_err(|e| e.to_string()),
            None => Ok(()),
        };
        let put = match needs_no_file {
            true => put(&memory),
            false => apart.with(&memory, put).map_err(|e| e.to_string()).flatten(),
        };
        self.written = true;
        match put {
            Ok(()) => self.dense.follow(&memory, &runs),
            Err(e) => self.mapped = Some(Err(e)),
        }
    }

    /// Lays the memory out, and tells home so. `asker` hears first what is here of it already.
    fn tell_laid_out(&mut self, room: &Arc<Shared>, pid: i32, asker: Option<&Source>) {
        asker.into_iter().for_each(|asker| self.tell_stocked(room, pid, asker));
        let result = self.map(room, pid).as_ref().map(drop).map_err(Clone::clone);
        room.tell(&ToHome::LaidOut { pid, result });
    }

    /// Says what is here of the process: from an earlier stay, or from a sibling.
    fn tell_stocked(&mut self, room: &Shared, pid: i32, asker: &Source) {
        if self.leftover.is_none() {
            self.leftover = room.page_cache.claim(pid);
        }
        let hashes = self.leftover.iter().flat_map(|leftover| leftover.hashes(STOCKED_PAGES));
        hashes.for_each(|part| asker.tell_stocked(&room.home, pid, part, false));
        asker.tell_stocked(&room.home, pid, Vec::new(), true);
    }

    /// These of its pages are what it left here.
    fn write_again(&mut self, room: &Arc<Shared>, apart: &Apart, pid: i32, runs: &[checkpoint::Run]) {
        let leftover = self.leftover.take().unwrap_or_default();
        for (part, pages) in leftover.parts(runs) {
            match pages {
                Some(pages) => self.write(
                    room,
                    apart,
                    pid,
                    [room_protocol::page_frames::pages_head(pid, &[part]), pages].concat().into(),
                ),
                None => self.mapped = Some(Err("pages that were said to be here are not".into())),
            }
        }
        self.leftover = Some(leftover);
    }

    /// These pages come, and are full.
    fn expect_dense(&mut self, room: &Arc<Shared>, pid: i32, runs: &[checkpoint::Run]) {
        let Ok(Laid { image, .. }) = self.map(room, pid) else { return };
        if checkpoint::lie_within(runs, &image.areas) {
            self.dense.expect(runs);
        } else {
            self.mapped = Some(Err("pages lie in no area of the image".into()));
        }
    }

    /// These pages come when the body runs.
    fn expect_later(&mut self, room: &Arc<Shared>, pid: i32, runs: &[checkpoint::Run]) {
        let Ok(Laid { image, .. }) = self.map(room, pid) else { return };
        if checkpoint::lie_within(runs, &image.areas) {
            runs.iter().for_each(|(at, bytes)| self.later.insert((*at, at + bytes)));
        } else {
            self.mapped = Some(Err("pages lie in no area of the image".into()));
        }
    }

    /// Begins to ask the source of this loan for pages that are not here yet: rebuilding the body
    /// touches its memory.
    fn page_later(&mut self, room: &Arc<Shared>, pid: i32, loan: Loan) -> Result<(), String> {
        let later = std::mem::take(&mut self.later);
        if later.is_empty() {
            return Ok(());
        }
        let image = self.map(room, pid).as_ref().map(|laid| laid.image.clone()).map_err(Clone::clone)?;
        let stale = later.iter().filter(|_| self.ahead).map(|(start, end)| (start, end - start)).collect();
        let (answer, answered) = channel();
        room.orders.give(Order::Watch { pid, stale, answer });
        let memory: Userfault = answered.recv().map_err(|_| "the room ends".to_owned())??;
        checkpoint::register(&memory, &image.areas, &later).map_err(|e| e.to_string())?;
        let huge = checkpoint::wanted_huge(&image.areas, &later);
        let pager = postcopy::start(room, pid, loan.clone(), MissingPages { memory, later, huge });
        let pager = pager.map_err(|e| e.to_string())?;
        room.postcopy.give(PostcopyEvent::Begins { pid, loan: loan.number, source: loan.source, pager });
        Ok(())
    }

    /// Has the tracer rebuild the process, of which all has come but the pages of this loan.
    fn finish(&mut self, room: &Arc<Shared>, pid: i32, gone: Vec<checkpoint::Run>, loan: Loan) {
        if self.later.is_empty() && !self.bytes.is_empty() && matches!(self.mapped, Some(Ok(_))) {
            return self.finish_at_once(room, pid, gone);
        }
        let inside = |laid: &Laid| match checkpoint::lie_within(&gone, &laid.image.areas) {
            true => Ok(()),
            false => Err("pages lie in no area of the image".to_owned()),
        };
        let fits = self.map(room, pid).as_ref().map_err(Clone::clone).and_then(inside);
        match fits.and_then(|()| self.page_later(room, pid, loan)) {
            Ok(()) => room.orders.give(Order::Rebuild { pid, image: None, gone }),
            Err(why) => give_up(room, pid, why),
        }
    }

    /// The last image has just come, and all pages are in place: the tracer makes the layout fit,
    /// and goes on.
    fn finish_at_once(&mut self, room: &Arc<Shared>, pid: i32, gone: Vec<checkpoint::Run>) {
        match decode(pid, &std::mem::take(&mut self.bytes)) {
            Ok(image) if checkpoint::lie_within(&gone, &image.areas) => {
                room.orders.give(Order::Rebuild { pid, image: Some(Arc::new(image)), gone });
            }
            Ok(_) => give_up(room, pid, "pages lie in no area of the image".to_owned()),
            Err(why) => give_up(room, pid, why),
        }
    }
}

/// All of these pages lie in anonymous memory, and none of them is a file's: to write them nobody
/// waits for home.
fn are_anonymous(runs: &[checkpoint::Run], areas: &[image::Area]) -> bool {
    let anonymous: Vec<image::Area> =
        areas.iter().filter(|a| a.content == image::Content::Anonymous).copied().collect();
    checkpoint::lie_within(runs, &anonymous)
}

/// It does not come: what there is of its body goes.
fn give_up(room: &Shared, pid: i32, why: String) {
    room.orders.give(Order::Kill { pid });
    room.tell(&ToHome::Rebuilt { pid, result: Err(why) });
}

fn lay_out(room: &Arc<Shared>, pid: i32, bytes: &[u8]) -> Result<Laid, String> {
    let image = Arc::new(decode(pid, bytes)?);
    let (answer, answered) = channel();
    room.orders.give(Order::Map { pid, image: image.clone(), answer });
    let (memory, windows) = answered.recv().map_err(|_| "the room ends".to_owned())??;
    Ok(Laid { image, memory, windows: windows.into() })
}

fn decode(pid: i32, bytes: &[u8]) -> Result<Image, String> {
    let image = Image::decode(bytes).map_err(|e| e.to_string())?;
    if image.process.pid == pid { Ok(image) } else { Err("the image is not this process'".into()) }
}
