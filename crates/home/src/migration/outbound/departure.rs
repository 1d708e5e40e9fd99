//! The stop of a process that leaves home: the second look, what is sent meanwhile, and the way
//! back should it fail.

use crate::deputy::thread::is_job_stop;
use crate::describe::snapshot::ProcessSnapshot;
use crate::migration::cpu_time_away;
use crate::migration::error::MoveError;
use crate::migration::outbound::edges::Since;
use crate::migration::outbound::postcopy::OutboundPostcopy;
use crate::migration::outbound::prepare::Prepared;
use crate::migration::session::MigrationSession;
use checkpoint::{BodyError, Collected, Frozen, Headstart, Known, Left, Run};
use control_protocol::moves::Stage;
use image::Image;
use migration_plan::Ranges;
use os::awake::Awake;
use os::inject::Memory;
use os::landlock_probe::LandlockProbe;
use os::pidfd::PidFd;
use room_protocol::message::Place;
use room_protocol::{ToRoom, page_frames};

/// How a process leaves in one try.
pub struct Terms<'a> {
    /// Holds the process.
    pub pidfd: &'a PidFd,
    /// Pages follow the process when at least so many bytes are left at the stop.
    pub follow_bytes: u64,
    /// Look at everything anew at the stop, whatever was seen before.
    pub carefully: bool,
    /// Tells whether the process is under Landlock, where its kernel needs one for that.
    pub probe: Option<&'a LandlockProbe>,
}

/// A process that stands still, with its threads collected.
pub struct Leaving {
    /// Descriptors and memory of the process.
    pub now: ProcessSnapshot,
    /// The description of the process that the room has.
    pub place: Place,
    /// Its threads, and the way into them.
    pub collected: Collected,
    /// Signals that the process ignores (bit n-1 for signal n).
    pub ignored: u64,
    /// The process was stopped by job control, or by SIGSTOP, before.
    pub was_stopped: bool,
}

/// The rest of a move after everything that goes at once was sent.
pub struct Sent {
    /// Pages that follow.
    pub following: Option<OutboundPostcopy>,
    /// Events of its descriptors of which the process may have been told.
    pub since: Since,
}

impl MigrationSession {
    /// Stops the process, sends what is left of it, and lets it go on in the room. Says in words
    /// how its memory went. On failure the process runs where it was.
    pub fn leave(
        &self,
        mut prepared: Prepared,
        mut headstart: Headstart,
        terms: &Terms<'_>,
    ) -> Result<String, MoveError> {
        self.check_wanted()?;
        // What only takes effect later, as a hint of madvise(2), is not seen by comparing: in the
        // time of pre-copy there may have been many.
        let latest = (!headstart.is_none())
            .then(|| ProcessSnapshot::of_running(self.pid, true, &self.sharing.borrow()))
            .transpose()?;
        self.done("observe");
        os::fault::at("freeze")?;
        // Pages that go at once take long: the processor need not stay awake for them.
        let awake = (!headstart.is_none()).then(Awake::now);
        let frozen = checkpoint::freeze(self.pid)?;
        self.timings.borrow_mut().freeze(frozen.since);
        self.done("stop");
        let now = match self.look_at_stopped(&mut prepared, latest, &mut headstart, terms) {
            Ok(now) => now,
            Err(e) => {
                frozen.thaw();
                return Err(e);
            }
        };
        self.done("observe");
        let mut leaving = self.collect(frozen, Prepared { observed: now, ..prepared }, &mut headstart, terms.probe)?;
        let Sent { following, since } = match self.send(&mut leaving, &mut headstart, terms.follow_bytes) {
            Ok(sent) => sent,
            Err(e) => return put_back(leaving.collected, e),
        };
        let kept = following.as_ref().map(OutboundPostcopy::kept).unwrap_or_default();
        if let Err(e) = self.hand_over(terms.pidfd, leaving, kept, &since) {
            following.into_iter().for_each(|f| f.call_off(&self.room));
            return Err(e);
        }
        let how = match (&following, headstart.course()) {
            (following, Some(course)) => course.how(following.is_some()),
            (Some(_), None) => "post".to_owned(),
            (None, None) => "stop".to_owned(),
        };
        // The process runs there. Its remaining pages can wait until a processor wakes up.
        drop(awake);
        following.into_iter().for_each(|f| self.send_rest(f));
        Ok(how)
    }

    /// Looks at the stopped process again, and has the room make another body if the prepared one
    /// does not serve any more.
    pub fn look_at_stopped(
        &self,
        prepared: &mut Prepared,
        latest: Option<ProcessSnapshot>,
        headstart: &mut Headstart,
        terms: &Terms<'_>,
    ) -> Result<ProcessSnapshot, MoveError> {
        let before = latest.as_ref().unwrap_or(&prepared.observed);
        self.check_rights()?;
        let now = {
            let before = Some(before).filter(|_| !terms.carefully);
            ProcessSnapshot::of(self.pid, before, !headstart.is_none(), &self.sharing.borrow())?
        };
        if now.is_served_by(&prepared.observed) {
            let is_settled = self.settle_mapped(&prepared.observed, &now);
            return if is_settled { Ok(now) } else { Err(MoveError::Changed) };
        }
        // The pages that went ahead would have to be sent again while the process stands still.
        let is_much = || checkpoint::is_much(self.pid, terms.follow_bytes).unwrap_or_default();
        if !terms.carefully && !headstart.is_none() && is_much() {
            return Err(MoveError::Changed);
        }
        // The other body has no pages yet.
        *headstart = Headstart::default();
        self.call_off();
        *prepared = self.prepare(Some(now.clone()))?;
        if self.settle_mapped(&prepared.observed, &now) { Ok(now) } else { Err(MoveError::Changed) }
    }

    /// Collects the state of the threads of the stopped process. On failure the process runs on.
    pub fn collect(
        &self,
        frozen: Frozen,
        stopped: Prepared,
        headstart: &mut Headstart,
        probe: Option<&LandlockProbe>,
    ) -> Result<Leaving, MoveError> {
        let Prepared { observed: now, place } = stopped;
        let was_stopped = frozen.stopped;
        let ignored = os::process::status(self.pid).map_or(0, |s| s.ignored);
        let known = Known { areas: now.areas(), ignored, slept: &frozen.slept, witness: probe };
        let collected = checkpoint::collect(self.pid, frozen.threads, known, Ok, || headstart.begin(now.image_areas()));
        let mut collected = collected.map_err(|(e, threads)| {
            threads.into_iter().for_each(|t| drop(t.detach(0)));
            e
        })?;
        self.done("collect");
        collected.leave_behind(is_told_by_home);
        Ok(Leaving { now, place, collected, ignored, was_stopped })
    }

    /// Sends the image, the pages that are left, and the order to rebuild the body.
    pub fn send(&self, leaving: &mut Leaving, headstart: &mut Headstart, follow_bytes: u64) -> Result<Sent, MoveError> {
        let Leaving { now, place, collected, .. } = leaving;
        os::fault::at("image")?;
        now.complete(&mut collected.process);
        let threads = collected.threads.clone();
        let mut image = Image { process: collected.process.clone(), threads, ..now.image() };
        cpu_time_away::add(&self.room.args.run_dir, self.pid, &mut image);
        checkpoint::find_keys(self.pid, &mut image)?;
        checkpoint::fire_again(&mut image);
        if now.is_guarded() {
            image.process.guards = checkpoint::guards(self.pid, &image.areas)?;
        }
        let elsewhere = self.tell_memories(now);
        let since = self.find_told(place, collected, &mut image)?;
        self.timings.borrow_mut().describe(now.parts(self.pid));
        let fits = headstart.fits(&image);
        if !fits {
            // The room makes the layout fit while home looks for pages.
            self.send_image(&image)?;
            self.done("image");
        }
        let left = headstart.left(self.pid, &image, follow_bytes)?;
        self.done("look");
        // A small rest goes at once, so that the room wakes up once.
        let _gathered = left.bytes.as_ref().and(self.room.link.downlink()).map(link::Sender::gather);
        os::fault::at("pages")?;
        self.send_left(&left, &image, headstart.is_none())?;
        self.send_memories(&image, &elsewhere)?;
        self.done("pages");
        os::fault::at("rebuild")?;
        let injected =
            collected.first().and_then(|inside| inside.region()).map(|at| (at, at + checkpoint::REGION_BYTES));
        let following = self.follow(left.later, &image.areas, all_memory(now, injected))?;
        let loan = following.as_ref().map_or(0, OutboundPostcopy::loan);
        let image = if fits { self.image_at_once(&image)? } else { Vec::new() };
        self.room.tell(&ToRoom::Rebuild { pid: self.pid, gone: left.rest.gone, image, loan });
        Ok(Sent { following, since })
    }

    /// The image for the last message; empty if it is too large for that, and was sent before.
    fn image_at_once(&self, image: &Image) -> Result<Vec<u8>, BodyError> {
        let bytes = image.encode().map_err(|e| BodyError::NotMigratable(e.to_string()))?;
        if bytes.len() <= page_frames::IMAGE_AT_ONCE_BYTES {
            return Ok(bytes);
        }
        self.send_image(image).map(|()| Vec::new())
    }

    fn send_left(&self, left: &Left, image: &Image, fresh: bool) -> Result<(), MoveError> {
        let Some(bytes) = &left.bytes else {
            return self.send_batches(&left.rest.runs, &image.areas, &Memory::of(self.pid)?, fresh, None);
        };
        self.progress.begin(Stage::Still, bytes.len() as u64);
        let batch_bytes = || self.bulk.borrow().batch_bytes();
        let sent = checkpoint::each_of(&left.rest.runs, bytes, batch_bytes, |runs, pages| self.send_pages(runs, pages));
        sent.or_else(|e| self.check_wanted().and(Err(e.into())))
    }

    /// Sends the content of memory that can be shared, but for that which another process of the
    /// group has brought, or brings (`elsewhere`, by index).
    fn send_memories(&self, image: &Image, elsewhere: &[bool]) -> Result<(), MoveError> {
        let batch_bytes = || self.bulk.borrow().batch_bytes();
        let send = |runs: &[Run], pages: &[u8]| self.send_pages(runs, pages);
        let sent = checkpoint::each_content(self.pid, image, elsewhere, batch_bytes, send);
        sent.or_else(|e| self.check_wanted().and(Err(e.into())))
    }
}

/// Home counts continuations and decides about stops: these signals wait in the deputy, which tells
/// of them.
fn is_told_by_home(info: &[u8]) -> bool {
    let signal = i32::from(info.first().copied().unwrap_or(0));
    is_job_stop(signal) || signal == libc::SIGCONT
}

/// Start and end of all memory of a process that can be unmapped; what lies side by side is one.
fn all_memory(now: &ProcessSnapshot, injected: Option<(u64, u64)>) -> Vec<(u64, u64)> {
    let own = now.areas().iter().filter(|a| a.name != b"[vsyscall]").map(|a| (a.start, a.end));
    own.chain(injected).collect::<Ranges>().iter().collect()
}

/// The process goes on here, as it was.
pub fn put_back<T>(collected: Collected, e: MoveError) -> Result<T, MoveError> {
    collected.give_back()?.into_iter().for_each(|t| drop(t.detach(0)));
    Err(e)
}
