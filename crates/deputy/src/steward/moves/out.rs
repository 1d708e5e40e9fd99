//! From home to the room: an empty body is made there while the process still runs; then it is stopped, sent, rebuilt, and the original becomes the deputy.

use super::implant;
use super::observe::Observed;
use super::{Heard, Move, MoveError};
use crate::steward::deputies::{Deputy, Job, Phase, Purpose};
use crate::steward::privileged::Order;
use crate::steward::shared::Shared;
use crate::steward::{channel, place};
use body::{BodyError, Collected};
use image::Image;
use os::inject::Memory;
use os::pages::Own;
use os::pidfd::PidFd;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use wire::message::{Place, Program, StandinId};
use wire::{Kind, ToRoom, cargo};

/// A body that waits in the room for its image.
struct Prepared {
    observed: Observed,
    place: Place,
}

/// Moves process `pid` to the room.
pub fn run(room: &Arc<Shared>, pid: i32) -> Result<(), MoveError> {
    if room.table().deputies.contains_key(&pid) {
        return Err(MoveError::Moving);
    }
    let this = Move::begin(room, pid, false)?;
    let pidfd = PidFd::open(pid)?;
    let moved = this.prepare(None).and_then(|prepared| this.leave(&pidfd, prepared).inspect_err(|_| this.call_off()));
    // Whatever could not be read of it then has its reason in this.
    moved.map_err(|e| if has_ended(pid) { BodyError::Gone.into() } else { e })
}

fn has_ended(pid: i32) -> bool {
    os::process::status(pid).map_or(true, |status| matches!(status.state, 'Z' | 'X'))
}

impl Move {
    /// Has the room make an empty body. `observed`: what the process holds, if it is known already.
    fn prepare(&self, observed: Option<Observed>) -> Result<Prepared, MoveError> {
        let observed = match observed {
            Some(observed) => observed,
            None => Observed::of(self.pid, None)?,
        };
        let at_home = observed.at_home(self.pid);
        let first = {
            let mut table = self.room.table();
            let first = table.last_standin + 1;
            table.last_standin += at_home.len() as u32;
            first
        };
        let standins: Vec<_> = at_home.iter().map(|(fd, n)| (*fd, StandinId(first + *n as u32))).collect();
        let place = observed.place(self.pid, &standins)?;
        self.hold_watched(&observed, &standins)?;
        self.room.borrow_rights(self.pid)?;
        self.room.tell(&ToRoom::Place(Box::new(place.clone())));
        self.expect(|heard| match heard {
            Heard::Placed(result) => Some(result),
            _ => None,
        })?;
        Ok(Prepared { observed, place })
    }

    /// What the process watches, the body asks about as soon as it watches it again: before it has a deputy.
    fn hold_watched(&self, observed: &Observed, standins: &[(i32, StandinId)]) -> Result<(), MoveError> {
        let pidfd = PidFd::open(self.pid)?;
        for (fd, standin) in standins.iter().filter(|(fd, _)| observed.watches(*fd)) {
            let file = pidfd.get_fd(*fd)?;
            self.room.poller.order(Order::Hold { standin: *standin, file });
        }
        Ok(())
    }

    /// The body that was prepared is not needed.
    fn call_off(&self) {
        self.room.return_rights(self.pid);
        self.room.tell(&ToRoom::Release { pid: self.pid });
        let _ = self.expect(|heard| matches!(heard, Heard::Left).then_some(Ok(())));
    }

    fn leave(&self, pidfd: &PidFd, mut prepared: Prepared) -> Result<(), MoveError> {
        let frozen = body::freeze(self.pid)?;
        let now = match Observed::of(self.pid, Some(&prepared.observed)) {
            Ok(now) => now,
            Err(e) => {
                frozen.thaw();
                return Err(e.into());
            }
        };
        if !now.is_served_by(&prepared.observed) {
            self.call_off();
            match self.prepare(Some(now.clone())) {
                Ok(again) => prepared = again,
                Err(e) => {
                    frozen.thaw();
                    return Err(e);
                }
            }
        }
        let ignored = os::process::status(self.pid).map_or(0, |s| s.ignored);
        let collected = body::collect(self.pid, frozen.threads, now.areas(), ignored, &frozen.slept, Ok);
        let mut collected = collected.map_err(|(e, threads)| {
            threads.into_iter().for_each(|t| drop(t.detach(0)));
            e
        })?;
        match self.send(&now, &mut collected) {
            Ok(()) => self.commit(pidfd, collected, &prepared.place, ignored),
            Err(e) => {
                collected.give_back()?.into_iter().for_each(|t| drop(t.detach(0)));
                Err(e)
            }
        }
    }

    fn send(&self, now: &Observed, collected: &mut Collected) -> Result<(), MoveError> {
        now.complete(&mut collected.process);
        let threads = collected.threads.clone();
        let mut image = Image { process: collected.process.clone(), threads, ..now.image() };
        body::fire_again(&mut image);
        let bytes = image.encode().map_err(|e| BodyError::Stays(e.to_string()))?;
        let downlink = self.room.downlink.get().ok_or_else(|| MoveError::Silent("it is gone".into()))?;
        let frame = |kind, parts: &[&[u8]]| {
            let sent = downlink.send(kind, 0, 0, parts);
            sent.map_err(|e| BodyError::Stays(format!("the link to the room: {e}")))
        };
        for part in bytes.chunks(cargo::PART_BYTES) {
            frame(Kind::Image, &[&cargo::part_head(self.pid), part])?;
        }
        body::each_page_run(&Own::of(self.pid)?, &Memory::of(self.pid)?, &image, |at, pages| {
            frame(Kind::Pages, &[&cargo::pages_head(self.pid, at), pages])
        })?;
        self.room.tell(&ToRoom::Rebuild { pid: self.pid });
        self.expect(|heard| match heard {
            Heard::Rebuilt(result) => Some(result),
            _ => None,
        })
    }

    /// The body stands: from here on it is the process, and the original its deputy.
    fn commit(&self, pidfd: &PidFd, collected: Collected, place: &Place, ignored: u64) -> Result<(), MoveError> {
        const SIGCHLD: usize = libc::SIGCHLD as usize - 1;
        let child_flags = collected.process.actions.get(SIGCHLD).map_or(0, |a| a[1])
            & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
        let (implanted, channels) = implant::implant(self.pid, pidfd, collected, ignored)?;
        let deputy = self.deputy(place, channels)?;
        let (done, is_done) = mpsc::channel();
        self.room.poller.order(Order::Adopt { pid: self.pid, deputy: Box::new(deputy), done });
        is_done.recv().map_err(|_| MoveError::Silent("it is gone".into()))?;
        self.room.return_rights(self.pid);
        // From here on only the end of the process can undo it.
        self.room.tell(&ToRoom::Resume { pid: self.pid });
        implanted.go()?;
        if child_flags != 0
            && let Some(deputy) = self.room.table().deputies.get_mut(&self.pid)
        {
            deputy.give_any(Job::new(channel::order(abi::OP_IGNORE, [ignored, child_flags], &[]), Purpose::Nothing));
        }
        Ok(())
    }

    fn deputy(&self, place: &Place, channels: Vec<(i32, OwnedFd)>) -> Result<Deputy, MoveError> {
        let mut channels: HashMap<i32, OwnedFd> = channels.into_iter().collect();
        let first = channels.remove(&self.pid).ok_or(BodyError::Gone)?;
        let Program { path, argv, envp } = place.program.clone();
        let program = Program { path, argv, envp };
        let mut deputy = Deputy::new(self.pid, PidFd::open(self.pid)?, program, first);
        deputy.phase = Phase::Away;
        (deputy.credentials, deputy.capabilities) = place::credentials(self.pid)?;
        for descriptor in &place.descriptors {
            deputy.standins.entry(descriptor.standin).or_default().push(descriptor.fd);
        }
        channels.into_iter().for_each(|(tid, channel)| deputy.add_thread(tid, channel, None));
        Ok(deputy)
    }
}
