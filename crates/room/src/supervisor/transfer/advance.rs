//! Pages of a body that goes home soon, and that can neither be laid out in its deputy ahead nor
//! follow: those of files' copies, for the kernel does not watch what is missing of them. They go
//! while it runs; at the stop home need only be told which of them are the same still
//! ([`crate::state::transfer::peer_pages`]).

use crate::state::shared::Shared;
use crate::supervisor::describe_guest;
use checkpoint::{BodyError, FILES_BYTES_MAX, Run};
use link::Bulk;
use migration_plan::Pace;
use os::inject::Memory;
use os::pages::Own;
use os::ptrace::HostTid;
use room_protocol::message::onward::Said;
use room_protocol::{Kind, ToHome, page_frames};
use std::cell::RefCell;
use std::sync::Arc;

/// Sends them in a thread of its own, and tells home. `number`: which try of home's wants that.
pub fn start(room: &Arc<Shared>, pid: i32, number: u32, pace: Pace) {
    room.stocked.begin_advance(pid, number);
    let task = room.clone();
    let send = move || {
        let result = send(&task, pid, number, pace).map_err(|e| e.to_string());
        tell(&task, pid, number, result);
    };
    if let Err(e) = std::thread::Builder::new().name("advance".into()).spawn(send) {
        tell(room, pid, number, Err(format!("no thread to send it: {e}")));
    }
}

fn tell(room: &Shared, pid: i32, number: u32, result: Result<(), String>) {
    room.tell(&ToHome::Onward { pid, said: Said::Advanced { number, result } });
}

fn send(room: &Shared, pid: i32, number: u32, pace: Pace) -> Result<(), BodyError> {
    os::fault::at("advance there")?;
    let host = room.guests().host(pid).ok_or(BodyError::Exited)?;
    let runs = runs(room, pid, host)?;
    let mut bytes = vec![0; runs.iter().map(|run| run.1 as usize).sum()];
    Memory::of(host.0)?.read_runs(&runs, &mut bytes)?;
    let bulk = RefCell::new(Bulk::new(pace));
    // Pieces of pages cannot be compared.
    let batch_bytes = || bulk.borrow().batch_bytes().max(page_frames::PAGE_BYTES as u64);
    checkpoint::each_of(&runs, &bytes, batch_bytes, |runs, bytes| {
        let called_off = || BodyError::NotMigratable("home does not want it any more".into());
        let (rest, bytes) = room.stocked.advance(pid, number, runs, bytes).ok_or_else(called_off)?;
        if rest.is_empty() {
            return Ok(());
        }
        let parts = [&page_frames::advance_head(pid, number, &rest)[..], &bytes];
        let sent = bulk.borrow_mut().send(&room.home.uplink, Kind::Advance, &parts);
        sent.map(drop).map_err(|e| BodyError::NotMigratable(format!("the link to home: {e}")))
    })
}

/// The body's own pages of files' copies, as long as they are few.
fn runs(room: &Shared, pid: i32, host: HostTid) -> Result<Vec<Run>, BodyError> {
    let mut areas = os::areas::read(host.0)?;
    describe_guest::as_at_home(room, pid, &mut areas);
    let own = Own::of(host.0)?;
    let (mut runs, mut all_bytes) = (Vec::new(), 0);
    for area in areas.iter().filter(|a| a.inode != 0 && !a.shared) {
        for (start, end) in own.between(area.start, area.end)? {
            all_bytes += end - start;
            if all_bytes > FILES_BYTES_MAX {
                return Ok(runs);
            }
            runs.push((start, end - start));
        }
    }
    Ok(runs)
}
