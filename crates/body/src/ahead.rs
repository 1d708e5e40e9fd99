//! Pre-copy: pages go ahead while the process runs. What it writes meanwhile goes again, until the rest is small enough to be sent while it stands still.

use crate::copied::Copied;
use crate::error::BodyError;
use crate::in_flight;
use crate::lender::{own_in, part_later};
use crate::pages::{Run, own_runs};
use crate::relayout::changes;
use image::{Area, Content, Image};
use os::inject::Memory;
use os::pages::{Own, intersect, subtract};
use os::track::{Found, Tracker};
use std::time::Instant;
use strategy::{Next, Ranges, Rounds};

/// Ranges of pages that a message can say have gone.
const GONE_MAX: usize = 20_000;

/// What the other end has already.
#[derive(Debug)]
pub struct Ahead {
    watch: Watch,
    /// As the memory is laid out there.
    areas: Vec<Area>,
    /// Ranges that were sent.
    sent: Vec<(u64, u64)>,
    /// Of these, what must be sent again whether it is written or not.
    owed: Vec<(u64, u64)>,
    course: Course,
    /// Only pages of files' copies were.
    files_alone: bool,
    /// More takes too long while the process stands still, bytes: as far as it is known by what was sent.
    rest_bytes_max: u64,
}

/// How it is known what was written.
#[derive(Debug)]
enum Watch {
    /// The kernel tells.
    Tracked(Tracker),
    /// What was sent is compared with what is there.
    Copied(Copied),
}

impl Watch {
    /// What there is at least in these ranges, which ascend, as the `anonymous` ones among them do.
    fn look(&self, ranges: &[(u64, u64)], anonymous: &[(u64, u64)]) -> Result<Found, BodyError> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(Found::default()) };
        match self {
            Watch::Tracked(tracker) => Ok(tracker.look(first.0, last.1, anonymous)?),
            Watch::Copied(copied) => copied.compare(Own::of(copied.pid())?.within(ranges)?),
        }
    }
}

/// How it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Rounds.
    pub rounds: u32,
    /// The writer outran the link.
    pub outrun: bool,
}

/// Pages that are to be sent while the process runs.
#[derive(Debug)]
pub struct Round<'a> {
    /// They.
    pub runs: &'a [Run],
    /// The areas in which they lie.
    pub areas: &'a [Area],
    /// The other end has nothing yet.
    pub fresh: bool,
    /// What could not be read.
    pub unreadable: Vec<Run>,
}

/// What is to be sent at the stop.
#[derive(Debug, Default)]
pub struct Rest {
    /// Pages.
    pub runs: Vec<Run>,
    /// Pages that the other end has, and that are not there any more.
    pub gone: Vec<Run>,
}

impl Ahead {
    /// Nothing was sent yet of a process that has these areas, which are watched from now on.
    pub fn new(tracker: Tracker, areas: Vec<Area>) -> Ahead {
        for area in areas.iter().filter(|a| !a.shared) {
            // What cannot be watched reads as written, and goes at the stop.
            if let Err(e) = tracker.watch(area.start, area.end) {
                tracing::debug!("{e}");
            }
        }
        Ahead::with(Watch::Tracked(tracker), areas, Vec::new(), Course::default())
    }

    fn with(watch: Watch, areas: Vec<Area>, sent: Vec<(u64, u64)>, course: Course) -> Ahead {
        Ahead { watch, areas, sent, owed: Vec::new(), course, files_alone: false, rest_bytes_max: u64::MAX }
    }

    /// All of this was sent of a process that has these areas. If more than `rest_bytes_max` is left, that takes too long while it stands still.
    pub fn copied(copied: Copied, areas: Vec<Area>, rest_bytes_max: u64) -> Ahead {
        let (sent, course) = (copied.ranges(), Course { rounds: 1, outrun: false });
        Ahead { rest_bytes_max, ..Ahead::with(Watch::Copied(copied), areas, sent, course) }
    }

    /// The same, of pages of files' copies alone ([`Copied::of_files`]): they cannot follow a process, as all else may.
    pub fn of_files(copied: Copied, areas: Vec<Area>) -> Ahead {
        Ahead { course: Course::default(), files_alone: true, ..Ahead::copied(copied, areas, u64::MAX) }
    }

    /// Has `send` send round after round, which says how many bytes went. Of a copy all was sent.
    pub fn send<E: From<BodyError>>(
        &mut self,
        mut rounds: Rounds,
        mut send: impl FnMut(&mut Round<'_>) -> Result<u64, E>,
    ) -> Result<(), E> {
        let Watch::Tracked(tracker) = &self.watch else { return Ok(()) };
        let private: Vec<(u64, u64)> = self.areas.iter().filter(|a| !a.shared).map(|a| (a.start, a.end)).collect();
        let (Some(first), Some(last)) = (private.first(), private.last()) else { return Ok(()) };
        let (start, end) = (first.0, last.1);
        let anonymous = anonymous(&self.areas);
        let written = |tracker: &Tracker| -> Result<Vec<(u64, u64)>, BodyError> {
            Ok(intersect(&tracker.take_written(start, end, &anonymous)?, &private))
        };
        let mut now = written(tracker)?;
        loop {
            // Before they are read: what comes by then goes along.
            self.owed = union(&self.owed, &intersect(&in_flight::buffers(tracker.pid())?, &private));
            let begun = Instant::now();
            let runs: Vec<Run> = now.iter().map(|(start, end)| (*start, end - start)).collect();
            let fresh = self.course.rounds == 0;
            let mut round = Round { runs: &runs, areas: &self.areas, fresh, unreadable: Vec::new() };
            let bytes = send(&mut round)?;
            let unreadable: Vec<_> = round.unreadable.iter().map(|(at, n)| (*at, at + n)).collect();
            self.sent = union(&self.sent, &now);
            self.owed = union(&self.owed, &unreadable);
            self.course.rounds += 1;
            rounds.sent(bytes, u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
            now = written(tracker)?;
            let next = rounds.next(now.iter().map(|(start, end)| end - start).sum());
            if next != Next::Round {
                self.course.outrun = next == Next::Outrun;
                self.rest_bytes_max = rounds.rest_bytes_max();
                self.owed = union(&self.owed, &now);
                return Ok(());
            }
        }
    }

    /// What must still be sent of the process, which stands still now, and has these areas.
    pub fn rest(&self, areas: &[Area]) -> Result<Rest, BodyError> {
        let private: Vec<(u64, u64)> = areas.iter().filter(|a| !a.shared).map(|a| (a.start, a.end)).collect();
        let found = self.watch.look(&private, &anonymous(areas))?;
        self.rest_of(&found, &private, areas)
    }

    /// The same of what lies in the ranges `now`, and cannot follow: they are looked at one by one.
    fn rest_now(&self, now: &[(u64, u64)], areas: &[Area]) -> Result<Rest, BodyError> {
        let Watch::Copied(copied) = &self.watch else { return self.rest(areas) };
        let own = own_in(&Own::of(copied.pid())?, now)?;
        let found = copied.compare(own.into_iter().map(|(at, bytes)| (at, at + bytes)).collect())?;
        self.rest_of(&found, now, areas)
    }

    fn rest_of(&self, found: &Found, ranges: &[(u64, u64)], areas: &[Area]) -> Result<Rest, BodyError> {
        let (own, written) = (intersect(&found.own, ranges), intersect(&found.written, ranges));
        let rest = rest(&own, &written, &self.sent, &self.owed, &changes(&self.areas, areas).kept);
        if rest.gone.len() > GONE_MAX {
            let why = "it gave back too much of what was sent ahead: move it with --how stop";
            return Err(BodyError::Stays(why.into()));
        }
        Ok(rest)
    }

    /// As the memory is laid out at the other end.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// How it went; nothing, if only pages of files' copies did.
    pub fn course(&self) -> Option<Course> {
        Some(self.course).filter(|_| !self.files_alone)
    }

    /// Only pages of files' copies have gone.
    pub fn is_of_files(&self) -> bool {
        self.files_alone
    }
}

/// What is sent of process `pid` at the stop, and what follows: all that can. Pages of files' copies have gone ahead.
pub fn divide_behind_files(pid: i32, image: &Image, ahead: &Ahead) -> Result<(Rest, Ranges), BodyError> {
    let memory = Memory::of(pid)?;
    let (now, mut later) = part_later(&image.areas, &image.threads, |at| memory.word(at).ok());
    image.process.guards.iter().for_each(|guard| drop(later.remove(*guard)));
    Ok((ahead.rest_now(&now, &image.areas)?, later))
}

/// What is sent of process `pid` at the stop, and what follows. `ahead`: what has gone ahead, and what is left then; what is left follows if
/// it is no less than `follow_bytes`.
pub fn divide(
    pid: i32,
    image: &Image,
    ahead: Option<(&Ahead, Rest)>,
    follow_bytes: u64,
) -> Result<(Rest, Ranges), BodyError> {
    let memory = Memory::of(pid)?;
    let part_later = || {
        let (now, mut later) = part_later(&image.areas, &image.threads, |at| memory.word(at).ok());
        image.process.guards.iter().for_each(|guard| drop(later.remove(*guard)));
        (now, later)
    };
    let Some((ahead, rest)) = ahead else {
        let own = Own::of(pid)?;
        let (runs, later) = match is_much(pid, follow_bytes)? {
            true => {
                let (now, later) = part_later();
                (own_in(&own, &now)?, later)
            }
            false => (own_runs(&own, &image.areas)?, Ranges::default()),
        };
        return Ok((Rest { runs, gone: Vec::new() }, later));
    };
    let rest_bytes = rest.runs.iter().map(|run| run.1).sum::<u64>();
    let follows = ahead.course.outrun || rest_bytes > follow_bytes.min(ahead.rest_bytes_max);
    // Too many pieces would take long to be discarded there.
    if !follows || rest.runs.len() > GONE_MAX {
        return Ok((rest, Ranges::default()));
    }
    let mut left: Ranges = rest.runs.iter().map(|(at, bytes)| (*at, at + bytes)).collect();
    let (_, may) = part_later();
    let later: Ranges = may.iter().flat_map(|range| left.remove(range)).collect();
    let runs = left.iter().map(|(start, end)| (start, end - start)).collect();
    Ok((Rest { runs, gone: rest.gone }, later))
}

/// Process `pid` has so much memory of its own.
pub fn is_much(pid: i32, bytes: u64) -> Result<bool, BodyError> {
    Ok(bytes < u64::MAX && os::process::anonymous_bytes(pid)? >= bytes)
}

impl Course {
    /// In words. `followed`: the rest was sent when it ran there.
    pub fn how(&self, followed: bool) -> String {
        let then = match (self.outrun, followed) {
            (false, false) => "",
            (false, true) => ", then post: it wrote much at the end",
            (true, false) => ", then stop: it writes as fast as the link carries",
            (true, true) => ", then post: it writes as fast as the link carries",
        };
        format!("pre ({} rounds{then})", self.rounds)
    }
}

/// `kept`: what is laid out at the other end as before, with what was sent.
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

/// Where no page is a file's.
fn anonymous(areas: &[Area]) -> Vec<(u64, u64)> {
    let own = areas.iter().filter(|a| !a.shared && a.content == Content::Anonymous);
    own.map(|a| (a.start, a.end)).collect()
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

/// An image of a process that runs has neither threads nor descriptors nor memories: those that it has are not what they will be. It has the protection keys that
/// its areas have.
pub fn preliminary(pid: i32, mut image: Image) -> Image {
    const SIGNALS: usize = 64;
    image.process.pid = pid;
    image.descriptors.clear();
    image.areas.retain(|a| !a.shows_memory());
    image.process.keys = image.areas.iter().filter(|a| a.key != 0).fold(0, |keys, a| keys | 1 << (a.key & 15));
    image.objects = image::Objects::default();
    image.process.actions = vec![[0; 4]; SIGNALS];
    image.threads = vec![image::Thread { tid: pid, ..image::Thread::default() }];
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_what_the_other_end_does_not_have() {
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
    fn a_preliminary_image_does_not_contradict_itself() {
        let own = Area { key: 3, ..Area::anonymous(0x1000, 0x3000, 3) };
        let process = image::Process { cwd: b"/".to_vec(), ..image::Process::default() };
        let image = preliminary(7, Image { areas: vec![own], process, ..Image::default() });
        assert_eq!(image.process.keys, 1 << 3);
        assert_eq!(Image::decode(&image.encode().unwrap()).unwrap(), image);
    }

    #[test]
    fn unions() {
        assert_eq!(union(&[(0, 4), (8, 9)], &[(2, 6), (9, 12)]), [(0, 6), (8, 12)]);
        assert_eq!(union(&[], &[(2, 6)]), [(2, 6)]);
    }
}
