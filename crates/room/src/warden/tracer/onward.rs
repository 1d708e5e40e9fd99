//! Bodies that leave for another room of their home, and go there straight from this node. Home drives it; here the body says what it holds, so that an empty one is made there
//! while it runs, and is sent when it stands still, by the way that was made meanwhile ([`crate::warden::lanes`]).

use super::Tracer;
use crate::warden::lanes::Out;
use crate::warden::possessions;
use crate::warden::shared::Shared;
use body::BodyError;
use image::Image;
use link::{Bulk, LinkError};
use os::inject::Memory;
use os::pages::Own;
use os::ptrace::HostTid;
use std::cell::RefCell;
use wire::message::onward::{OUTLINE_BYTES_MAX, Outline, Said};
use wire::{Kind, ToHome, ToRoom, cargo};

impl Tracer {
    /// Tells home what a body holds.
    pub fn outline(&mut self, pid: i32) {
        let result = self.outlined(pid).map_err(|e| e.to_string());
        self.room.tell(&ToHome::Onward { pid, said: Said::Outline(result) });
    }

    fn outlined(&mut self, pid: i32) -> Result<Outline, BodyError> {
        os::fault::at("outline there")?;
        let host = self.room.guests().host(pid).filter(|_| self.bodies.is_running(pid));
        let host = host.ok_or_else(|| BodyError::Stays("it does not run there".into()))?;
        let mut image = possessions::outline(&self.room, pid, host)?;
        let (ignored, child_flags) = {
            let guests = self.room.guests();
            guests.get(pid).map(|guest| (guest.ignored, guest.child_flags)).unwrap_or_default()
        };
        let encode = |image: &Image| image.encode().map_err(|e| BodyError::Stays(e.to_string()));
        let mut bytes = encode(&image)?;
        if bytes.len() > OUTLINE_BYTES_MAX {
            // Its memory can be laid out later, too.
            image.areas.clear();
            bytes = encode(&image)?;
        }
        if bytes.len() > OUTLINE_BYTES_MAX {
            return Err(BodyError::Stays("it holds too many files for one message".into()));
        }
        self.departing.outlines.insert(pid, image);
        Ok(Outline { image: bytes, ignored, child_flags })
    }

    /// Sends a body that stands still and was collected; or lets it go on, if the one that was made for it will not do.
    pub(super) fn send_onward(
        &mut self,
        pid: i32,
        host: HostTid,
        outline: &Image,
        image: Image,
        (way, bulk): (Out, Bulk),
    ) {
        if !possessions::is_served(&image, outline) {
            self.room.tell(&ToHome::Onward { pid, said: Said::Changed });
            self.cannot_leave(pid, "it holds something else now");
            return self.stay(pid);
        }
        let room = self.room.clone();
        let send = move || {
            let result = send(&room, pid, host, &image, &way, &RefCell::new(bulk)).map_err(|e| e.to_string());
            room.tell(&ToHome::Whole { pid, result });
        };
        if std::thread::Builder::new().name("leaving".into()).spawn(send).is_err() {
            self.cannot_leave(pid, "no thread to send it");
            self.stay(pid);
        }
    }
}

/// Image, pages, and that this is all.
fn send(
    room: &Shared,
    pid: i32,
    host: HostTid,
    image: &Image,
    way: &Out,
    bulk: &RefCell<Bulk>,
) -> Result<(), BodyError> {
    os::fault::at("send there")?;
    let lost = |e: LinkError| BodyError::Stays(format!("the way to the other room: {e}"));
    let bytes = image.encode().map_err(|e| BodyError::Stays(e.to_string()))?;
    for part in bytes.chunks(cargo::PART_BYTES) {
        way.link.send(Kind::Image, 0, 0, &[&cargo::part_head(pid), part]).map_err(lost)?;
    }
    let runs = body::own_runs(&Own::of(host.0)?, &image.areas)?;
    let batch_bytes = || bulk.borrow().batch_bytes();
    let send_pages = |runs: &[body::Run], bytes: &[u8]| {
        let parts = [&cargo::pages_head(pid, runs), bytes];
        let wire_bytes = bulk.borrow_mut().send(&way.link, Kind::Pages, &parts).map_err(lost)?;
        room.tell(&ToHome::Onward { pid, said: Said::Passed { bytes: bytes.len() as u64, wire_bytes } });
        Ok(())
    };
    body::each_batch(&runs, &Memory::of(host.0)?, &image.areas, true, None, batch_bytes, send_pages)?;
    body::each_content(host.0, image, send_pages)?;
    // Nothing follows.
    let end = postcard::to_stdvec(&ToRoom::Rebuild { pid, gone: Vec::new(), loan: 0 });
    let end = end.map_err(|e| BodyError::Stays(e.to_string()))?;
    way.link.send(Kind::Message, 0, 0, &[&end]).map_err(lost)
}
