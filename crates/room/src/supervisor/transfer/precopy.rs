//! The memory of a body that will leave for another room goes there while it runs, over the way
//! that was made for it ([`crate::supervisor::transfer::direct_link`]); what it has written since
//! goes when it stands still ([`crate::supervisor::tracer`]).

use crate::state::shared::Shared;
use crate::state::transfer::direct_links::DirectLink;
use crate::supervisor::transfer::direct_link;
use checkpoint::{Ahead, BodyError, Copied, PeerPages, preliminary};
use image::Image;
use link::{Bulk, LinkError};
use migration_plan::{Costs, Rounds};
use os::inject::Memory;
use os::ptrace::HostTid;
use os::track::Tracker;
use room_protocol::message::onward::{self, Said, Went};
use room_protocol::{Kind, ToHome, ToRoom, page_frames};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How long the body may take to be watched: it may wait for home, or for a page of a file.
const WATCHED_WITHIN: Duration = Duration::from_secs(1);

/// What the tracer knows of a body and has begun.
pub struct Begun {
    /// The body as this node numbers it.
    pub host: HostTid,
    /// What home was told that it holds.
    pub outline: Image,
    /// How its writes are known.
    pub watch: Watch,
}

/// How the writes of a body are known.
pub enum Watch {
    /// By its userfaultfd, as soon as it has made one.
    Kernel(Receiver<Result<OwnedFd, String>>),
    /// By a copy.
    Copy,
}

/// Sends it in a thread of its own, and tells home.
pub fn start(room: &Arc<Shared>, pid: i32, wish: onward::Ahead, begun: Begun) {
    let task = room.clone();
    let send = move || {
        let sent = if wish.files_alone {
            send_files(&task, pid, wish, &begun)
        } else {
            send(&task, pid, wish, &begun).map(Some)
        };
        let result = sent.map(|ahead| {
            let course = ahead.as_ref().and_then(Ahead::course).unwrap_or_default();
            ahead.into_iter().for_each(|ahead| task.direct_links.keep(pid, &wish.ticket, ahead));
            Went { rounds: course.rounds, outrun: course.outrun }
        });
        tell(&task, pid, wish, result.map_err(|e| e.to_string()));
    };
    if let Err(e) = std::thread::Builder::new().name("ahead".into()).spawn(send) {
        tell(room, pid, wish, Err(format!("no thread to send it: {e}")));
    }
}

/// What home waits for.
pub fn tell(room: &Shared, pid: i32, wish: onward::Ahead, result: Result<Went, String>) {
    room.tell(&ToHome::Onward { pid, said: Said::Ahead { ticket: wish.ticket, result } });
}

fn send(room: &Shared, pid: i32, wish: onward::Ahead, begun: &Begun) -> Result<Ahead, BodyError> {
    os::fault::at("ahead there")?;
    let way = room
        .direct_links
        .out(pid)
        .ok_or_else(|| BodyError::NotMigratable("there is no way to the other room".into()))?;
    let image = preliminary(pid, begun.outline.clone());
    if image.areas.is_empty() {
        return Err(BodyError::NotMigratable("its memory changes all the time".into()));
    }
    send_image(&way, &image)?;
    send_message(&way, &ToRoom::LayOut { pid, stocked: true, sibling: None })?;
    let stocked = direct_link::hear_stocked(&way)?;
    let mut pages = Pages { stocked, ..Pages::new(room, pid, &way, Bulk::new(wish.pace)) };
    let costs = Costs::of(wish.fixed_us, wish.bytes_per_s);
    let mut rounds = Rounds::new(os::process::anonymous_bytes(begun.host.0)?, wish.max_freeze_us, costs);
    let uffd = match &begun.watch {
        Watch::Copy => {
            let copied = Copied::of(begun.host.0, &image.areas)?;
            let sending = Instant::now();
            pages.send_copy(&copied, &image.areas)?;
            direct_link::await_in_place(&way, pid)?;
            rounds.sent(copied.bytes(), sending.elapsed().as_micros() as u64);
            return Ok(Ahead::copied(copied, image.areas, rounds.rest_bytes_max()));
        }
        Watch::Kernel(uffd) => await_uffd(uffd)?,
    };
    let tracker = Tracker::new(uffd, begun.host.0)?;
    let mut ahead = Ahead::new(tracker, image.areas);
    let memory = Memory::of(begun.host.0)?;
    ahead.send(rounds, |round| {
        let before = pages.sent_bytes;
        pages.send(round.runs, round.areas, &memory, round.fresh, Some(&mut round.unreadable))?;
        // What is sent at the stop must not queue behind them.
        direct_link::await_in_place(&way, pid)?;
        os::fault::at("round there")?;
        Ok::<_, BodyError>(pages.sent_bytes - before)
    })?;
    Ok(ahead)
}

/// Only pages of files' copies. Nothing, if they are too many or it is not known where they lie:
/// then they go at the stop.
fn send_files(room: &Shared, pid: i32, wish: onward::Ahead, begun: &Begun) -> Result<Option<Ahead>, BodyError> {
    os::fault::at("ahead there")?;
    let way = room
        .direct_links
        .out(pid)
        .ok_or_else(|| BodyError::NotMigratable("there is no way to the other room".into()))?;
    let image = preliminary(pid, begun.outline.clone());
    let copied = Copied::of_files(begun.host.0, &image.areas).ok().filter(|_| !image.areas.is_empty());
    let Some(copied) = copied else { return Ok(None) };
    send_image(&way, &image)?;
    send_message(&way, &ToRoom::LayOut { pid, stocked: false, sibling: None })?;
    let mut pages = Pages::new(room, pid, &way, Bulk::new(wish.pace));
    pages.send_copy(&copied, &image.areas)?;
    direct_link::await_in_place(&way, pid)?;
    Ok(Some(Ahead::of_files(copied, image.areas)))
}

/// A body's userfaultfd, when it has made one.
pub fn await_uffd(uffd: &Receiver<Result<OwnedFd, String>>) -> Result<OwnedFd, BodyError> {
    let uffd = uffd.recv_timeout(WATCHED_WITHIN);
    uffd.map_err(|_| BodyError::NotMigratable("it does not come to be watched".into()))?
        .map_err(BodyError::NotMigratable)
}

/// Pages on their way to another room.
pub struct Pages<'a> {
    /// Only this one.
    pub room: &'a Shared,
    /// PID of the process, at home.
    pub pid: i32,
    /// The way to the other room.
    pub way: &'a DirectLink,
    /// The stream of the pages.
    pub bulk: Bulk,
    /// What the other room has already.
    pub stocked: PeerPages,
    /// So many were sent.
    pub sent_bytes: u64,
}

impl<'a> Pages<'a> {
    /// None was sent, and the other room has none.
    pub fn new(room: &'a Shared, pid: i32, way: &'a DirectLink, bulk: Bulk) -> Pages<'a> {
        Pages { room, pid, way, bulk, stocked: PeerPages::default(), sent_bytes: 0 }
    }

    /// Sends these ([`checkpoint::each_batch`]).
    pub fn send(
        &mut self,
        runs: &[checkpoint::Run],
        areas: &[image::Area],
        memory: &Memory,
        fresh: bool,
        unreadable: Option<&mut Vec<checkpoint::Run>>,
    ) -> Result<(), BodyError> {
        if fresh {
            for part in checkpoint::huge_page_ranges(memory.pid(), runs, areas)?.chunks(page_frames::LATER_RUNS) {
                self.way
                    .link
                    .send(Kind::HugePageHints, 0, 0, &[&page_frames::pages_head(self.pid, part)])
                    .map_err(lost)?;
            }
        }
        let this = std::cell::RefCell::new(self);
        let batch_bytes = || this.borrow().bulk.batch_bytes();
        let pages = checkpoint::PagesToSend { runs, memory, areas, fresh, unreadable };
        checkpoint::each_batch(pages, batch_bytes, |runs, bytes| this.borrow_mut().send_batch(runs, bytes))
    }

    /// The same, of pages whose bytes are known. Home is not told: how many bytes went, and how
    /// many of them over the wire.
    pub fn send_read(&mut self, runs: &[checkpoint::Run], bytes: &[u8]) -> Result<(u64, u64), BodyError> {
        self.keep(runs, bytes);
        let (pid, link, bulk) = (self.pid, &self.way.link, std::cell::RefCell::new(&mut self.bulk));
        let mut wire_bytes = 0;
        let batch_bytes = || bulk.borrow().batch_bytes();
        checkpoint::each_of(runs, bytes, batch_bytes, |runs, bytes| {
            let sent = bulk.borrow_mut().send(link, Kind::Pages, &[&page_frames::pages_head(pid, runs), bytes]);
            sent.map(|bytes| wire_bytes += bytes).map_err(lost)
        })?;
        self.sent_bytes += bytes.len() as u64;
        Ok((bytes.len() as u64, wire_bytes))
    }

    fn send_copy(&mut self, copied: &Copied, areas: &[image::Area]) -> Result<(), BodyError> {
        let this = std::cell::RefCell::new(self);
        let batch_bytes = || this.borrow().bulk.batch_bytes();
        copied.each(areas, batch_bytes, |runs, bytes| this.borrow_mut().send_batch(runs, bytes))
    }

    /// Sends a batch, and tells home.
    pub fn send_batch(&mut self, runs: &[checkpoint::Run], bytes: &[u8]) -> Result<(), BodyError> {
        self.keep(runs, bytes);
        let Some(divided) = self.stocked.divide(runs, bytes) else { return self.send_all(runs, bytes) };
        let there = divided.there.iter().map(|run| run.1).sum();
        self.way
            .link
            .send(Kind::PeerPages, 0, 0, &[&page_frames::pages_head(self.pid, &divided.there)])
            .map_err(lost)?;
        self.room.tell(&ToHome::Onward { pid: self.pid, said: Said::PeerPages { bytes: there } });
        if divided.rest.is_empty() { Ok(()) } else { self.send_all(&divided.rest, &divided.bytes) }
    }

    /// What goes over a slow link may come back over one.
    pub fn keep(&self, runs: &[checkpoint::Run], bytes: &[u8]) {
        if self.room.page_cache.wants(self.bulk.is_slow()) || !self.stocked.is_empty() {
            self.room.page_cache.note(self.pid, runs, bytes);
        }
    }

    fn send_all(&mut self, runs: &[checkpoint::Run], bytes: &[u8]) -> Result<(), BodyError> {
        let parts = [&page_frames::pages_head(self.pid, runs), bytes];
        self.send_frame(Kind::Pages, &parts, bytes.len() as u64)
    }

    /// Sends a frame that holds so many bytes of pages, and tells home.
    pub fn send_frame(&mut self, kind: Kind, parts: &[&[u8]], bytes: u64) -> Result<(), BodyError> {
        let wire_bytes = self.bulk.send(&self.way.link, kind, parts).map_err(lost)?;
        self.sent_bytes += bytes;
        self.room.tell(&ToHome::Onward { pid: self.pid, said: Said::Passed { bytes, wire_bytes } });
        Ok(())
    }
}

/// Sends an image: it is there before what is sent next.
pub fn send_image(way: &DirectLink, image: &Image) -> Result<(), BodyError> {
    let bytes = image.encode().map_err(|e| BodyError::NotMigratable(e.to_string()))?;
    let mut parts = page_frames::parts(image.process.pid, &bytes);
    parts.try_for_each(|(head, part)| way.link.send(Kind::Image, 0, 0, &[&head, part]).map_err(lost))
}

/// Says what else home would.
pub fn send_message(way: &DirectLink, message: &ToRoom) -> Result<(), BodyError> {
    let bytes = postcard::to_stdvec(message).map_err(|e| BodyError::NotMigratable(e.to_string()))?;
    way.link.send(Kind::Message, 0, 0, &[&bytes]).map_err(lost)
}

/// The link failed.
pub fn lost(e: LinkError) -> BodyError {
    BodyError::NotMigratable(format!("the way to the other room: {e}"))
}
