//! Pre-copy: pages go to the room while the process runs. What it writes meanwhile goes again, until the rest is small enough to be sent while it stands still.

use super::observe::Observed;
use super::{Heard, Move, MoveError};
use body::{BodyError, Run};
use image::{Area, Image};
use os::inject::Memory;
use os::pages::{intersect, subtract};
use os::pidfd::PidFd;
use os::track::{Tracker, USERFAULTFD_FLAGS};
use std::time::Instant;
use strategy::{Next, Rounds};
use wire::ToRoom;

/// What the room has already.
pub struct Ahead {
    tracker: Tracker,
    /// As the memory is laid out there.
    areas: Vec<Area>,
    /// Ranges that were sent.
    sent: Vec<(u64, u64)>,
    /// Of these, what must be sent again whether it is written or not.
    owed: Vec<(u64, u64)>,
    /// The writer outran the link.
    outrun: bool,
    rounds: usize,
}

/// What is to be sent at the stop.
pub struct Rest {
    /// Pages.
    pub runs: Vec<Run>,
    /// Pages that the room has, and that are not there any more.
    pub gone: Vec<Run>,
}

impl Move {
    /// Sends the memory while the process runs.
    pub fn send_ahead(&self, pidfd: &PidFd, observed: &Observed, rounds: Rounds) -> Result<Ahead, MoveError> {
        os::fault::at("ahead")?;
        let image = preliminary(self.pid, observed.image());
        let areas = image.areas.clone();
        self.send_image(&image)?;
        self.room.tell(&ToRoom::LayOut { pid: self.pid });
        let tracker = self.track(pidfd, &areas)?;
        self.done("track");
        self.expect(|heard| match heard {
            Heard::LaidOut(result) => Some(result),
            _ => None,
        })?;
        self.done("lay out there");
        let ahead = Ahead { tracker, areas, sent: Vec::new(), owed: Vec::new(), outrun: false, rounds: 0 };
        self.rounds(ahead, rounds)
    }

    /// The process makes a userfaultfd, of which only we keep a descriptor.
    fn track(&self, pidfd: &PidFd, areas: &[Area]) -> Result<Tracker, MoveError> {
        let uffd = body::visit(self.pid, |inside| {
            let args = [USERFAULTFD_FLAGS, 0, 0, 0, 0, 0];
            let number = inside.must("watching its writes (userfaultfd)", libc::SYS_userfaultfd, args)?;
            let uffd = pidfd.get_fd(number as i32);
            inside.must("closing its userfaultfd", libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
            Ok(uffd?)
        })?;
        let tracker = Tracker::new(uffd, self.pid)?;
        for area in areas.iter().filter(|a| !a.shared) {
            // What cannot be watched reads as written, and goes at the stop.
            if let Err(e) = tracker.watch(area.start, area.end) {
                tracing::debug!("{e}");
            }
        }
        Ok(tracker)
    }

    fn rounds(&self, mut ahead: Ahead, mut rounds: Rounds) -> Result<Ahead, MoveError> {
        let private: Vec<(u64, u64)> = ahead.areas.iter().filter(|a| !a.shared).map(|a| (a.start, a.end)).collect();
        let (Some(first), Some(last)) = (private.first(), private.last()) else { return Ok(ahead) };
        let (start, end) = (first.0, last.1);
        let memory = Memory::of(self.pid)?;
        let mut written = intersect(&ahead.tracker.take_written(start, end)?, &private);
        loop {
            let begun = Instant::now();
            let before = self.course.borrow().page_bytes();
            let mut unreadable = Vec::new();
            let all: Vec<Run> = written.iter().map(|(start, end)| (*start, end - start)).collect();
            self.send_batches(&all, &ahead.areas, &memory, ahead.rounds == 0, Some(&mut unreadable))?;
            ahead.sent = union(&ahead.sent, &written);
            ahead.owed = union(&ahead.owed, &unreadable.iter().map(|(at, n)| (*at, at + n)).collect::<Vec<_>>());
            ahead.rounds += 1;
            let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            os::fault::at("round")?;
            rounds.sent(self.course.borrow().page_bytes() - before, took_us);
            self.done("round");
            written = intersect(&ahead.tracker.take_written(start, end)?, &private);
            let next = rounds.next(written.iter().map(|(start, end)| end - start).sum());
            if next != Next::Round {
                ahead.outrun = next == Next::Outrun;
                ahead.owed = union(&ahead.owed, &written);
                return Ok(ahead);
            }
        }
    }
}

impl Ahead {
    /// What must still be sent of the process, which stands still now, and has these areas.
    pub fn rest(&self, areas: &[Area]) -> Result<Rest, BodyError> {
        let private: Vec<(u64, u64)> = areas.iter().filter(|a| !a.shared).map(|a| (a.start, a.end)).collect();
        let (Some(first), Some(last)) = (private.first(), private.last()) else {
            return Ok(Rest { runs: Vec::new(), gone: Vec::new() });
        };
        let found = self.tracker.look(first.0, last.1)?;
        let (own, written) = (intersect(&found.own, &private), intersect(&found.written, &private));
        Ok(rest(&own, &written, &self.sent, &self.owed, &body::changes(&self.areas, areas).kept))
    }

    /// It writes as fast as the link carries: the rest is too much to be sent while it stands still.
    pub fn is_outrun(&self) -> bool {
        self.outrun
    }

    /// In words. `followed`: the rest was sent when it ran there.
    pub fn how(&self, followed: bool) -> String {
        let then = match (self.outrun, followed) {
            (false, _) => "",
            (true, false) => ", then stop: it writes as fast as the link carries",
            (true, true) => ", then post: it writes as fast as the link carries",
        };
        format!("pre ({} rounds{then})", self.rounds)
    }
}

/// `kept`: what is laid out in the room as before, with what was sent.
fn rest(
    own: &[(u64, u64)],
    written: &[(u64, u64)],
    sent: &[(u64, u64)],
    owed: &[(u64, u64)],
    kept: &[(u64, u64)],
) -> Rest {
    let there = intersect(sent, kept);
    let clean = subtract(&subtract(&there, written), owed);
    let runs = |ranges: Vec<(u64, u64)>| ranges.into_iter().map(|(start, end)| (start, end - start)).collect();
    Rest { runs: runs(subtract(own, &clean)), gone: runs(subtract(&there, own)) }
}

fn union(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all = subtract(b, a);
    all.extend(a);
    all.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(all.len());
    for (start, end) in all {
        match joined.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// An image of a process that runs has neither threads nor descriptors nor memories: those that it has are not what they will be.
pub(super) fn preliminary(pid: i32, mut image: Image) -> Image {
    const SIGNALS: usize = 64;
    image.process.pid = pid;
    image.descriptors.clear();
    image.areas.retain(|a| !a.shows_memory());
    image.objects = image::Objects::default();
    image.process.actions = vec![[0; 4]; SIGNALS];
    image.threads = vec![image::Thread { tid: pid, ..image::Thread::default() }];
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_what_the_room_does_not_have() {
        let own = [(0, 10), (20, 30), (50, 60)];
        let found = rest(&own, &[(2, 3)], &[(0, 10), (14, 16), (20, 24), (28, 30)], &[(28, 29)], &[(0, 24), (26, 30)]);
        assert_eq!(found.runs, [(2, 1), (24, 5), (50, 10)]);
        assert_eq!(found.gone, [(14, 2)]);
    }

    #[test]
    fn what_was_laid_out_anew_is_sent_again() {
        let found = rest(&[(0, 10)], &[], &[(0, 10)], &[], &[(4, 10)]);
        assert_eq!((found.runs, found.gone), (vec![(0, 4)], vec![]));
    }

    #[test]
    fn unions() {
        assert_eq!(union(&[(0, 4), (8, 9)], &[(2, 6), (9, 12)]), [(0, 6), (8, 12)]);
        assert_eq!(union(&[], &[(2, 6)]), [(2, 6)]);
    }
}
