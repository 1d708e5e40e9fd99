//! Pre-copy: pages are sent while the process runs. Dirty pages are sent again, until the rest is
//! small enough to be sent while the process is frozen.

use crate::copied::Copied;
use crate::error::BodyError;
use crate::in_flight;
use crate::lender::{own_in, part_later};
use crate::pages::{Run, own_runs};
use crate::relayout::changes;
use image::{Area, Content, Image};
use migration_plan::{Next, Ranges, Rounds};
use os::inject::Memory;
use os::pages::{Own, intersect, subtract};
use os::track::{Found, Tracker};
use std::time::Instant;

/// The most ranges of discarded pages that one message can name.
const GONE_MAX: usize = 20_000;

/// The state of a pre-copy: what the destination already has.
#[derive(Debug)]
pub struct Ahead {
    watch: DirtyTracking,
    /// The memory areas as they are laid out at the destination.
    areas: Vec<Area>,
    /// Ranges that were sent.
    sent: Vec<(u64, u64)>,
    /// Parts of these ranges that must be sent again whether they are dirty or not.
    owed: Vec<(u64, u64)>,
    course: Course,
    /// Whether only private copies of files' pages were sent.
    files_alone: bool,
    /// The most bytes whose sending fits the bound on the freeze time, by the measurements of the
    /// pre-copy.
    rest_bytes_max: u64,
}

/// How dirty pages are found.
#[derive(Debug)]
enum DirtyTracking {
    /// The kernel tracks writes.
    Tracked(Tracker),
    /// Memory is compared with a copy of what was sent.
    Copied(Copied),
}

impl DirtyTracking {
    /// Finds at least all dirty pages in these ranges, which ascend, as do the `anonymous` ones
    /// among them.
    fn look(&self, ranges: &[(u64, u64)], anonymous: &[(u64, u64)]) -> Result<Found, BodyError> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(Found::default()) };
        match self {
            DirtyTracking::Tracked(tracker) => Ok(tracker.look(first.0, last.1, anonymous)?),
            DirtyTracking::Copied(copied) => copied.compare(Own::of(copied.pid())?.within(ranges)?),
        }
    }
}

/// The summary of a pre-copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Number of rounds.
    pub rounds: u32,
    /// Whether the process wrote faster than the link carried.
    pub outrun: bool,
}

/// Pages to send while the process runs.
#[derive(Debug)]
pub struct Round<'a> {
    /// The pages to send.
    pub runs: &'a [Run],
    /// The areas in which the pages lie.
    pub areas: &'a [Area],
    /// Whether the destination has no pages yet.
    pub fresh: bool,
    /// Pages that could not be read.
    pub unreadable: Vec<Run>,
}

/// What is to be sent at the stop.
#[derive(Debug, Default)]
pub struct Rest {
    /// Pages to send.
    pub runs: Vec<Run>,
    /// Pages that the destination has and that the process has discarded.
    pub gone: Vec<Run>,
}

impl Ahead {
    /// Starts a pre-copy with write tracking of these areas. No page has been sent.
    pub fn new(tracker: Tracker, areas: Vec<Area>) -> Ahead {
        for area in areas.iter().filter(|a| !a.shared) {
            // An area that cannot be tracked counts as dirty and is sent at the stop.
            if let Err(e) = tracker.watch(area.start, area.end) {
                tracing::debug!("{e}");
            }
        }
        Ahead::with(DirtyTracking::Tracked(tracker), areas, Vec::new(), Course::default())
    }

    fn with(watch: DirtyTracking, areas: Vec<Area>, sent: Vec<(u64, u64)>, course: Course) -> Ahead {
        Ahead { watch, areas, sent, owed: Vec::new(), course, files_alone: false, rest_bytes_max: u64::MAX }
    }

    /// Starts a pre-copy of which all pages were sent from a copy. `rest_bytes_max` is the most
    /// that can be sent within the bound on the freeze time.
    pub fn copied(copied: Copied, areas: Vec<Area>, rest_bytes_max: u64) -> Ahead {
        let (sent, course) = (copied.ranges(), Course { rounds: 1, outrun: false });
        Ahead { rest_bytes_max, ..Ahead::with(DirtyTracking::Copied(copied), areas, sent, course) }
    }

    /// Starts a pre-copy of which only private copies of files' pages were sent
    /// ([`Copied::of_files`]). Those cannot follow in post-copy; all other pages may.
    pub fn of_files(copied: Copied, areas: Vec<Area>) -> Ahead {
        Ahead { course: Course::default(), files_alone: true, ..Ahead::copied(copied, areas, u64::MAX) }
    }

    /// Calls `send` round after round; it returns the bytes sent. A copy was sent completely, so it
    /// takes no round.
    pub fn send<E: From<BodyError>>(
        &mut self,
        mut rounds: Rounds,
        mut send: impl FnMut(&mut Round<'_>) -> Result<u64, E>,
    ) -> Result<(), E> {
        let DirtyTracking::Tracked(tracker) = &self.watch else { return Ok(()) };
        let private: Vec<(u64, u64)> = self.areas.iter().filter(|a| !a.shared).map(|a| (a.start, a.end)).collect();
        let (Some(first), Some(last)) = (private.first(), private.last()) else { return Ok(()) };
        let (start, end) = (first.0, last.1);
        let anonymous = anonymous(&self.areas);
        let written = |tracker: &Tracker| -> Result<Vec<(u64, u64)>, BodyError> {
            Ok(intersect(&tracker.take_written(start, end, &anonymous)?, &private))
        };
        let mut now = written(tracker)?;
        loop {
            // Before the pages are read: a read that completes until then is included.
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

    /// Finds what must still be sent of the process, which is frozen and has these areas.
    pub fn rest(&self, areas: &[Area]) -> Result<Rest, BodyError> {
        let private: Vec<(u64, u64)> = areas.iter().filter(|a| !a.shared).map(|a| (a.start, a.end)).collect();
        let found = self.watch.look(&private, &anonymous(areas))?;
        self.rest_of(&found, &private, areas)
    }

    /// Finds the rest in the ranges `now`, which cannot follow in post-copy. The ranges are
    /// examined one by one.
    fn rest_now(&self, now: &[(u64, u64)], areas: &[Area]) -> Result<Rest, BodyError> {
        let DirtyTracking::Copied(copied) = &self.watch else { return self.rest(areas) };
        let own = own_in(&Own::of(copied.pid())?, now)?;
        let found = copied.compare(own.into_iter().map(|(at, bytes)| (at, at + bytes)).collect())?;
        self.rest_of(&found, now, areas)
    }

    fn rest_of(&self, found: &Found, ranges: &[(u64, u64)], areas: &[Area]) -> Result<Rest, BodyError> {
        let (own, written) = (intersect(&found.own, ranges), intersect(&found.written, ranges));
        let rest = rest(&own, &written, &self.sent, &self.owed, &changes(&self.areas, areas).kept);
        if rest.gone.len() > GONE_MAX {
            let why = "it gave back too much of what was sent ahead: move it with --how stop";
            return Err(BodyError::NotMigratable(why.into()));
        }
        Ok(rest)
    }

    /// Gives the areas as they are laid out at the destination.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// Gives the summary of the pre-copy; `None` if only pages of files were sent.
    pub fn course(&self) -> Option<Course> {
        Some(self.course).filter(|_| !self.files_alone)
    }

    /// Tells whether only private copies of files' pages were sent.
    pub fn is_of_files(&self) -> bool {
        self.files_alone
    }
}

/// Divides the memory of the frozen process `pid` for post-copy: what is sent at the stop, and what
/// follows. Everything that can follow does; private copies of files' pages were sent before.
pub fn divide_behind_files(pid: i32, image: &Image, ahead: &Ahead) -> Result<(Rest, Ranges), BodyError> {
    let memory = Memory::of(pid)?;
    let (now, mut later) = part_later(&image.areas, &image.threads, |at| memory.word(at).ok());
    image.process.guards.iter().for_each(|guard| drop(later.remove(*guard)));
    Ok((ahead.rest_now(&now, &image.areas)?, later))
}

/// Divides the memory of the frozen process `pid`: what is sent at the stop, and what follows.
/// `ahead` is the state of a pre-copy; the rest follows in post-copy if it is at least
/// `follow_bytes`.
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
    // The destination would need long to discard very many pieces.
    if !follows || rest.runs.len() > GONE_MAX {
        return Ok((rest, Ranges::default()));
    }
    let mut left: Ranges = rest.runs.iter().map(|(at, bytes)| (*at, at + bytes)).collect();
    let (_, may) = part_later();
    let later: Ranges = may.iter().flat_map(|range| left.remove(range)).collect();
    let runs = left.iter().map(|(start, end)| (start, end - start)).collect();
    Ok((Rest { runs, gone: rest.gone }, later))
}

/// Tells whether process `pid` has at least `bytes` of private memory.
pub fn is_much(pid: i32, bytes: u64) -> Result<bool, BodyError> {
    Ok(bytes < u64::MAX && os::process::anonymous_bytes(pid)? >= bytes)
}

impl Course {
    /// Describes the strategy in words. `followed`: the rest was sent by post-copy.
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

/// Finds the rest. `kept` is the memory that is laid out at the destination as before, with the
/// pages that were sent.
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

/// Gives the ranges of areas that show no file.
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

/// Makes the preliminary image of a running process. It has no threads, descriptors or memories,
/// because those will be others at the stop, and no protection keys but those that its areas have.
pub fn preliminary(pid: i32, mut image: Image) -> Image {
    const SIGNALS: usize = 64;
    image.process.pid = pid;
    image.descriptors.clear();
    // Files that are open for writing are opened when the process stands still.
    let is_written = |area: &Area| match area.content {
        Content::File { file, .. } => area.shared && image.files.get(file as usize).is_some_and(crate::is_written),
        _ => false,
    };
    let areas = std::mem::take(&mut image.areas);
    image.areas = areas.into_iter().filter(|a| !a.is_mapped_last() && !is_written(a)).collect();
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
    fn memory_that_was_mapped_anew_is_sent_again() {
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
