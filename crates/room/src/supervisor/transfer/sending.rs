//! Sends a body home: its image, its pages, and the pages that follow when it runs there.

use crate::state::shared::Shared;
use checkpoint::{BodyError, Headstart, Left, Lender, Lent};
use image::{Area, Image};
use link::{Bulk, LinkError};
use os::inject::Memory;
use os::pages::Own;
use os::ptrace::HostTid;
use room_protocol::message::onward::Said;
use room_protocol::{Kind, ToHome, page_frames};
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

/// A body on its way home.
pub struct HomewardBody<'a> {
    /// The room that it leaves.
    pub room: &'a Shared,
    /// PID of the process, at home.
    pub pid: i32,
    /// The process as this node numbers it.
    pub host: HostTid,
    /// The stream of its pages.
    pub bulk: RefCell<Bulk>,
}

impl HomewardBody<'_> {
    /// Sends an image home: it is there before what is sent next.
    pub fn send_image(&self, bytes: &[u8]) -> Result<(), BodyError> {
        page_frames::parts(self.pid, bytes).try_for_each(|(head, part)| self.send_frame(Kind::Image, &[&head, part]))
    }

    /// Tells home which of these runs, which go for the first time, are full.
    pub fn send_dense(&self, runs: &[checkpoint::Run], areas: &[Area]) -> Result<(), BodyError> {
        self.send_runs(Kind::HugePageHints, &checkpoint::huge_page_ranges(self.host.0, runs, areas)?)
    }

    /// Sends those pages that home lacks, as soon as home has taken enough of the pages before
    /// them.
    pub fn pages_within(&self, runs: &[checkpoint::Run], bytes: &[u8]) -> Result<(), BodyError> {
        self.keep(runs, bytes);
        let divided = self.room.stocked.divide(self.pid, runs, bytes);
        let (runs, bytes) = match &divided {
            Some(divided) => {
                self.await_window(0)?;
                self.send_frame(Kind::PeerPages, &[&page_frames::pages_head(self.pid, &divided.there)])?;
                (&divided.rest[..], &divided.bytes[..])
            }
            None => (runs, bytes),
        };
        if runs.is_empty() {
            return Ok(());
        }
        self.await_window(bytes.len() as u64)?;
        self.send_pages(Kind::Pages, &[&page_frames::pages_head(self.pid, runs), bytes])
    }

    /// Sends image and pages home, of which `elsewhere` tells the memories that another body
    /// brings. If at least `follow_bytes` of its own pages are left, they follow by post-copy:
    /// gives their lender.
    pub fn send(
        &self,
        image: &Image,
        elsewhere: &[bool],
        ahead: &mut Headstart,
        follow_bytes: u64,
    ) -> Result<Option<Arc<Lender>>, BodyError> {
        os::fault::at("send there")?;
        let mut image = Cow::Borrowed(image);
        if image.process.keys != 0 || image.areas.iter().any(|a| a.key != 0) {
            checkpoint::find_keys(self.host.0, image.to_mut())?;
        }
        let image = &*image;
        let encoded = image.encode().map_err(|e| BodyError::NotMigratable(e.to_string()))?;
        self.send_image(&encoded)?;
        let Left { rest, bytes, later } = ahead.left(self.host.0, image, follow_bytes)?;
        let batch_bytes = || self.bulk.borrow().batch_bytes();
        let send_pages = |runs: &[checkpoint::Run], bytes: &[u8]| self.pages_within(runs, bytes);
        if !rest.gone.is_empty() {
            self.room.tell(&ToHome::Onward { pid: self.pid, said: Said::Gone(rest.gone) });
        }
        match &bytes {
            Some(bytes) => checkpoint::each_of(&rest.runs, bytes, batch_bytes, send_pages)?,
            None => {
                let memory = Memory::of(self.host.0)?;
                if ahead.is_none() {
                    self.send_dense(&rest.runs, &image.areas)?;
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
        checkpoint::each_content(self.host.0, image, elsewhere, batch_bytes, send_pages)?;
        if later.is_empty() {
            return Ok(None);
        }
        let absent: Vec<checkpoint::Run> = later.iter().map(|(start, end)| (start, end - start)).collect();
        let lender = self.room.lenders.begin(self.pid, later, self.bulk.borrow().pace());
        self.send_runs(Kind::Later, &absent)?;
        Ok(Some(lender))
    }

    /// Sends the pages that follow, until home has all of them, and tells home.
    pub fn lend(&self, image: &Image, lender: &Lender) {
        let pid = self.pid;
        let lent = Memory::of(self.host.0).map_err(BodyError::from).and_then(|memory| {
            lender.run(&memory, &Own::of(self.host.0)?, &image.areas, |lent| match lent {
                Lent::Pages(batch) => {
                    self.keep(batch.runs, batch.bytes);
                    let head = page_frames::pushed_head(pid, batch.runs, batch.zeros);
                    self.send_pages(Kind::Pushed, &[&head, batch.bytes])
                }
                Lent::Vacant(runs) => self.send_frame(Kind::Vacant, &[&page_frames::pages_head(pid, runs)]),
            })
        });
        self.room.lenders.end(pid);
        self.room.tell(&ToHome::Drained { pid, loan: lender.loan(), result: lent.map_err(|e| e.to_string()) });
    }

    /// Keeps pages that go over a slow link: they may come back over one.
    fn keep(&self, runs: &[checkpoint::Run], bytes: &[u8]) {
        if self.room.page_cache.wants(self.bulk.borrow().is_slow()) || self.room.stocked.has(self.pid) {
            self.room.page_cache.note(self.pid, runs, bytes);
        }
    }

    /// Waits until home takes so many bytes more. Fails if home has given up this try: its pages
    /// might come in the midst of the next one.
    fn await_window(&self, bytes: u64) -> Result<(), BodyError> {
        match self.room.windows.make_way(self.pid, bytes) {
            true => Ok(()),
            false => Err(BodyError::NotMigratable("home takes no more of its pages".into())),
        }
    }

    /// Sends runs without their bytes, in frames of this kind.
    fn send_runs(&self, kind: Kind, runs: &[checkpoint::Run]) -> Result<(), BodyError> {
        let mut parts = runs.chunks(page_frames::LATER_RUNS);
        parts.try_for_each(|part| self.send_frame(kind, &[&page_frames::pages_head(self.pid, part)]))
    }

    /// Sends a frame at the pace of the stream.
    fn send_pages(&self, kind: Kind, parts: &[&[u8]]) -> Result<(), BodyError> {
        self.bulk.borrow_mut().send(&self.room.home.uplink, kind, parts).map(drop).map_err(lost)
    }

    /// Sends a frame at once.
    fn send_frame(&self, kind: Kind, parts: &[&[u8]]) -> Result<(), BodyError> {
        self.room.home.uplink.send(kind, 0, 0, parts).map_err(lost)
    }
}

/// Makes a failure of the link to home the reason why the body stays.
fn lost(e: LinkError) -> BodyError {
    BodyError::NotMigratable(format!("the link to home: {e}"))
}
