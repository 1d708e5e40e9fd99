//! Bodies that leave for another room of their home, and go there straight from this node. Home
//! drives it; here the body says what it holds, so that an empty one is made there while it runs,
//! and is sent when it stands still, by the way that was made meanwhile
//! ([`crate::supervisor::transfer::direct_link`]).

use crate::supervisor::describe_guest;
use crate::supervisor::sharers::common_files::refusal;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::state::departing::{NO_THREAD, Onward};
use crate::supervisor::transfer::precopy::{Begun, Pages, Watch, send_image, send_message};
use crate::supervisor::transfer::{direct_link, precopy as ahead, precopy_home as homeward};
use checkpoint::{BodyError, Headstart, Left, Lender, Lent};
use image::Image;
use link::Bulk;
use os::inject::Memory;
use os::pages::Own;
use os::ptrace::HostTid;
use os::warm::Standby;
use room_protocol::message::onward::{OUTLINE_BYTES_MAX, Outline, Said};
use room_protocol::{Kind, ToHome, ToRoom, page_frames};
use std::sync::Arc;
use std::sync::mpsc::channel;

/// A body that stands still and was collected.
pub struct CollectedBody {
    /// PID of the process, at home.
    pub pid: i32,
    /// The process as this node numbers it.
    pub host: HostTid,
    /// The state that was collected.
    pub image: Image,
    /// If it has at least so many bytes of its own, pages may follow when it runs there.
    pub follow_bytes: u64,
}

impl Tracer {
    /// Tells home what a body holds.
    pub fn outline(&mut self, pid: i32) {
        let result = self.outlined(pid).map_err(|e| e.to_string());
        self.room.tell(&ToHome::Onward { pid, said: Said::Outline(result) });
    }

    fn outlined(&mut self, pid: i32) -> Result<Outline, BodyError> {
        os::fault::at("outline there")?;
        let host = self.room.guests().host(pid).filter(|_| self.bodies.is_running(pid));
        let host = host.ok_or_else(|| BodyError::NotMigratable("it does not run there".into()))?;
        let image = describe_guest::outline(&self.room, pid, host)?;
        let (ignored, child_flags) = {
            let guests = self.room.guests();
            guests.get(pid).map(|guest| (guest.ignored, guest.child_flags)).unwrap_or_default()
        };
        let encode = |image: &Image| image.encode().map_err(|e| BodyError::NotMigratable(e.to_string()));
        let mut bytes = encode(&image)?;
        if bytes.len() > OUTLINE_BYTES_MAX {
            // Its memory can be laid out later, too.
            bytes = encode(&Image { areas: Vec::new(), ..image.clone() })?;
        }
        if bytes.len() > OUTLINE_BYTES_MAX {
            return Err(BodyError::NotMigratable("it holds too many files for one message".into()));
        }
        self.departing.outlines.insert(pid, image);
        Ok(Outline { image: bytes, ignored, child_flags, own_bytes: os::process::anonymous_bytes(host.0)? })
    }

    /// Has the memory of a body go to the other room while it runs.
    pub fn send_ahead(&mut self, pid: i32, wish: room_protocol::message::onward::Ahead) {
        let host = self.room.guests().host(pid).filter(|_| self.bodies.is_running(pid));
        let Some((host, outline)) = host.zip(self.departing.outlines.get(&pid).cloned()) else {
            return ahead::tell(&self.room, pid, wish, Err("it does not run there".into()));
        };
        let watch = self.watch(pid, wish.watched);
        ahead::start(&self.room, pid, wish, Begun { host, outline, watch });
    }

    /// Has the memory of a body go home while it runs.
    pub fn send_homeward(&mut self, pid: i32, wish: room_protocol::message::onward::Homeward) {
        let Some(host) = self.room.guests().host(pid).filter(|_| self.bodies.is_running(pid)) else {
            return homeward::tell(&self.room, pid, wish.ahead.ticket, Err("it does not run there".into()));
        };
        self.room.homeward.open(&self.room.windows, pid, &wish.ahead.ticket);
        let watch = self.watch(pid, wish.ahead.watched);
        homeward::start(&self.room, pid, host, wish, watch);
    }

    fn watch(&mut self, pid: i32, by_kernel: bool) -> Watch {
        if !by_kernel {
            return Watch::Copy;
        }
        let (answer, uffd) = channel();
        self.track(pid, answer);
        Watch::Kernel(uffd)
    }

    /// Sends a collected body to another room in the thread `sender`; or lets it run here, if the
    /// empty body that was made for it there does not fit.
    pub fn send_onward(&mut self, body: CollectedBody, onward: Onward, bulk: Bulk, sender: Option<Standby>) {
        let CollectedBody { pid, host, image, follow_bytes } = body;
        if !describe_guest::is_served(&image, &onward.outline) {
            self.room.tell(&ToHome::Onward { pid, said: Said::Changed });
            self.cannot_leave(pid, "it holds something else now");
            return self.stay(pid);
        }
        let room = self.room.clone();
        let send = move || {
            let mut pages = Pages::new(&room, pid, &onward.way, bulk);
            let (mut image, mut ahead) = (image, onward.ahead);
            let sent = send(host, &mut image, &mut ahead, follow_bytes, &mut pages);
            room.tell(&ToHome::Whole { pid, result: sent.as_ref().map(drop).map_err(refusal) });
            // To watch no longer takes the kernel a walk over all of its pages.
            drop(ahead);
            if let Ok(Some(lender)) = sent {
                lend(host, &image, &lender, &mut pages);
            }
        };
        match sender {
            Some(sender) => sender.run(c"leaving", send),
            None => {
                self.cannot_leave(pid, NO_THREAD);
                self.stay(pid);
            }
        }
    }
}

/// Sends the image, those pages that were not sent ahead, and the message that this is all. If at
/// least `follow_bytes` are left, pages follow by post-copy: gives their lender.
fn send(
    host: HostTid,
    image: &mut Image,
    ahead: &mut Headstart,
    follow_bytes: u64,
    pages: &mut Pages<'_>,
) -> Result<Option<Arc<Lender>>, BodyError> {
    os::fault::at("send there")?;
    let (room, pid, way) = (pages.room, pages.pid, pages.way);
    let pace = pages.bulk.pace();
    checkpoint::find_keys(host.0, image)?;
    let fits = ahead.fits(image);
    if !fits {
        send_image(way, image)?;
    }
    let Left { rest, bytes, later } = ahead.left(host.0, image, follow_bytes)?;
    // What is little goes at once, so that the other room wakes up once. Home, which only counts,
    // is told then.
    let gathered = bytes.is_some().then(|| way.link.gather());
    let mut passed = None;
    match &bytes {
        Some(bytes) => passed = Some(pages.send_read(&rest.runs, bytes)?),
        None => pages.send(&rest.runs, &image.areas, &Memory::of(host.0)?, ahead.is_none(), None)?,
    }
    let pages = std::cell::RefCell::new(pages);
    let batch_bytes = || pages.borrow().bulk.batch_bytes();
    checkpoint::each_content(host.0, image, &[], batch_bytes, |runs, bytes| {
        pages.borrow_mut().send_batch(runs, bytes)
    })?;
    let lender = if later.is_empty() { None } else { Some(later) };
    let lender = lender.map(|later| {
        let runs: Vec<checkpoint::Run> = later.iter().map(|(start, end)| (start, end - start)).collect();
        for part in runs.chunks(page_frames::LATER_RUNS) {
            way.link.send(Kind::Later, 0, 0, &[&page_frames::pages_head(pid, part)]).map_err(ahead::lost)?;
        }
        let lender = room.lenders.begin(pid, later, pace);
        direct_link::listen(way, &lender)?;
        room.tell(&ToHome::Onward { pid, said: Said::Lends { loan: lender.loan() } });
        Ok::<_, BodyError>(lender)
    });
    let lender = lender.transpose()?;
    let loan = lender.as_ref().map_or(0, |lender| lender.loan());
    let mut at_once = Vec::new();
    if fits {
        at_once = image.encode().map_err(|e| BodyError::NotMigratable(e.to_string()))?;
        if at_once.len() > page_frames::IMAGE_AT_ONCE_BYTES {
            send_image(way, image)?;
            at_once.clear();
        }
    }
    send_message(way, &ToRoom::Rebuild { pid, gone: rest.gone, image: at_once, loan })?;
    drop(gathered);
    if let Some((bytes, wire_bytes)) = passed {
        room.tell(&ToHome::Onward { pid, said: Said::Passed { bytes, wire_bytes } });
    }
    Ok(lender)
}

/// Sends the pages that follow, until the other room has all of them, and tells home.
fn lend(host: HostTid, image: &Image, lender: &Lender, pages: &mut Pages<'_>) {
    let (room, pid, way) = (pages.room, pages.pid, pages.way);
    let lent = Memory::of(host.0).map_err(BodyError::from).and_then(|memory| {
        lender.run(&memory, &Own::of(host.0)?, &image.areas, |lent| match lent {
            Lent::Pages(batch) => {
                os::fault::at("lend there")?;
                pages.keep(batch.runs, batch.bytes);
                let parts = [&page_frames::pushed_head(pid, batch.runs, batch.zeros), batch.bytes];
                pages.send_frame(Kind::Pushed, &parts, batch.bytes.len() as u64)
            }
            Lent::Vacant(runs) => {
                way.link.send(Kind::Vacant, 0, 0, &[&page_frames::pages_head(pid, runs)]).map_err(ahead::lost)
            }
        })
    });
    room.lenders.end(pid);
    let (all, left, asked_bytes) = lender.progress();
    room.tell(&ToHome::Onward { pid, said: Said::Followed { bytes: all - left, asked_bytes } });
    room.tell(&ToHome::Drained { pid, loan: lender.loan(), result: lent.map_err(|e| e.to_string()) });
}
