//! From home to the room: an empty body is made there while the process still runs; then it is
//! stopped, sent, rebuilt, and the original becomes the deputy.

use super::edges::Since;
use super::following::Following;
use super::implant;
use super::names::Names;
use super::observe::Observed;
use super::used;
use super::watch::Gauge;
use super::{Heard, Move, MoveError, OutwardRequest};
use crate::steward::confinement;
use crate::steward::deputies::{Deputy, Job, Phase, Purpose, is_job_stop};
use crate::steward::orders::Order;
use crate::steward::proof::DeputyProof;
use crate::steward::shared::Shared;
use crate::steward::{channel, place};
use checkpoint::{Ahead, BodyError, Collected, Headstart, Known, Left, Run};
use control_protocol::moves::{How, Leg, Stage, Wish};
use image::{Area, Image};
use link::Bulk;
use migration_plan::protocol::{Side, Told};
use migration_plan::{Ranges, Rounds, Way};
use os::awake::Awake;
use os::inject::Memory;
use os::landlock_probe::{self, LandlockProbe};
use os::pages::Own;
use os::pidfd::PidFd;
use os::process_identity::ProcessIdentity;
use os::superuser;
use room_protocol::message::{Place, Program, StandinId};
use room_protocol::{Kind, ToRoom, page_frames};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;

/// How often a process is prepared that forks or closes files at the wrong moment.
pub(super) const TRIES_MAX: usize = 5;

/// After so many tries in vain all is looked at anew when it stands still: it takes longer, but
/// nobody new can have come from it meanwhile.
const TRIES_QUICK: usize = 2;

/// A body that waits in the room for its image.
struct Prepared {
    observed: Observed,
    place: Place,
}

/// Moves process `pid` to the room.
pub fn run(
    room: &Arc<Shared>,
    pid: i32,
    OutwardRequest { wish, asker_uid }: OutwardRequest,
    gauge: Arc<Gauge>,
) -> Result<Leg, MoveError> {
    if room.table().deputies.contains_key(&pid) {
        return Err(MoveError::Moving);
    }
    // It is at home's memory already.
    let wish = if wish.how == How::Flush { Wish { how: How::Post, ..wish } } else { wish };
    let this = Move::begin(room, pid, (Side::Home, false), wish.pace, gauge)?;
    this.asker_uid.set(asker_uid);
    this.as_root.set(wish.as_root);
    let pidfd = PidFd::open(pid).map_err(|e| if has_ended(pid) { BodyError::Gone } else { e.into() })?;
    let mut moved = this.go_out(&pidfd, wish, false);
    for tried in 1..TRIES_MAX {
        if moved.as_ref().is_err_and(MoveError::is_fleeting) && !has_ended(pid) {
            this.course.borrow_mut().again();
            moved = this.go_out(&pidfd, wish, tried >= TRIES_QUICK);
        }
    }
    // Whatever could not be read of it then has its reason in this.
    moved.map_err(|e| if has_ended(pid) { BodyError::Gone.into() } else { e })
}

fn has_ended(pid: i32) -> bool {
    os::process::status(pid).map_or(true, |status| matches!(status.state, 'Z' | 'X'))
}

/// Whether process `pid` is in the room, and if not, why.
pub(super) fn must_be_away(room: &Shared, pid: i32) -> Result<(), MoveError> {
    match room.table().deputies.get(&pid).map(|deputy| &deputy.phase) {
        Some(Phase::Away) => Ok(()),
        Some(Phase::Ending) => Err(BodyError::Gone.into()),
        _ if has_ended(pid) => Err(BodyError::Gone.into()),
        _ => Err(MoveError::NotAway),
    }
}

impl Move {
    fn go_out(&self, pidfd: &PidFd, wish: Wish, carefully: bool) -> Result<Leg, MoveError> {
        let witness =
            landlock_probe::is_needed().then(|| self.room.heir.witness(&os::process::status(self.pid)?)).transpose()?;
        let mut prepared = self.prepare(None)?;
        self.done("prepare");
        let ahead = match self.ahead_if_wished(pidfd, &prepared, wish) {
            Err(MoveError::Body(e)) if wish.how == How::Auto => {
                tracing::info!("process {} goes without pre-copy: {e}", self.pid);
                // Another body: this one may have some of its pages.
                self.call_off();
                prepared = self.prepare(None)?;
                Ok(None)
            }
            other => other,
        };
        let follow_bytes = self.follow_bytes(&self.room.args.host, wish);
        let headstart = ahead.map(|ahead| Headstart::of(self.pid, ahead));
        let left =
            headstart.and_then(|ahead| self.leave(pidfd, prepared, ahead, (follow_bytes, carefully, witness.as_ref())));
        let how = left.inspect_err(|_| self.call_off())?;
        Ok(self.leg(&self.room.args.host, &how))
    }

    /// Pre-copy, if it is wanted, or needed for the bound. Where the kernel cannot tell who writes
    /// what, `auto` does without.
    fn ahead_if_wished(&self, pidfd: &PidFd, prepared: &Prepared, wish: Wish) -> Result<Option<Ahead>, MoveError> {
        let areas = prepared.observed.image().areas;
        let own_bytes = checkpoint::filled_bytes(self.pid, &Own::of(self.pid)?, &areas)?;
        let parts = prepared.observed.parts(self.pid);
        let costs = |how| self.room.moves.costs(&self.room.args.host, how, parts).limited(wish.pace.rate);
        let chosen = costs("stop").choose(own_bytes, wish.max_freeze_us);
        let rounds = || Rounds::new(own_bytes, wish.max_freeze_us, costs("pre"));
        match (wish.how, chosen) {
            (How::Stop, _) | (How::Auto, Way::Stop) => self.lay_out_there(&prepared.observed).map(|()| None),
            (How::Post | How::Flush, _) => self.send_files(&prepared.observed),
            (How::Auto, Way::Copy) => self.send_copy(&prepared.observed, rounds()),
            (How::Auto, Way::Pre) | (How::Pre, _) => Ok(Some(self.send_ahead(pidfd, &prepared.observed, rounds())?)),
        }
    }

    /// Has the room make an empty body. `observed`: what the process holds, if it is known already.
    fn prepare(&self, observed: Option<Observed>) -> Result<Prepared, MoveError> {
        os::fault::at("prepare")?;
        self.check_rights()?;
        let observed = match observed {
            Some(observed) => observed,
            None => Observed::of_running(self.pid, false)?,
        };
        let at_home = observed.at_home(self.pid);
        let first = {
            let mut table = self.room.table();
            let first = table.last_standin + 1;
            table.last_standin += at_home.len() as u32;
            first
        };
        let standin = |(fd, n): &(i32, usize)| {
            let flags = os::process::fd_info(self.pid, *fd)?.flags;
            Ok((*fd, place::standin_for(self.pid, *fd, flags, StandinId(first + *n as u32))))
        };
        let standins = at_home.iter().map(standin).collect::<os::Result<Vec<_>>>()?;
        let names = Names::of_removed(&self.room, self.pid, &observed.files, &observed.removed())?;
        let place = observed.place(self.pid, &standins, &names)?;
        self.check_rights()?;
        self.hold_watched(&observed, &standins)?;
        self.room.borrow_rights(self.pid)?;
        self.room.tell(&ToRoom::Place(Box::new(place.clone())));
        if let Err(e) = self.await_placed() {
            self.call_off();
            return Err(self.fleeting_if_changed(e, &observed));
        }
        Ok(Prepared { observed, place })
    }

    /// Why no body could be made for what was observed: a file may have been closed or removed
    /// meanwhile, or name and flags are those of two files that had the same number one after the
    /// other.
    fn fleeting_if_changed(&self, e: MoveError, observed: &Observed) -> MoveError {
        match (e, Observed::of_running(self.pid, false)) {
            (MoveError::Room(why), Ok(now)) if !now.is_served_by(observed) => MoveError::Fleeting(why),
            (e, _) => e,
        }
    }

    /// What the process watches, the body asks about as soon as it watches it again: before it has
    /// a deputy.
    fn hold_watched(&self, observed: &Observed, standins: &[(i32, StandinId)]) -> Result<(), MoveError> {
        let pidfd = PidFd::open(self.pid)?;
        for (fd, standin) in standins.iter().filter(|(fd, _)| observed.watches(*fd)) {
            self.room.hold(*standin, pidfd.get_fd(*fd)?);
        }
        Ok(())
    }

    /// Checks that the process is still that of the user who wants it and of the user whose room it
    /// is, that it may have its rights there, and that it is in no sandbox: under its number a
    /// program may run by now that gives rights, or has given some up for good.
    fn check_rights(&self) -> Result<(), BodyError> {
        confinement::refuse(self.pid)?;
        let identity = ProcessIdentity::of(self.pid)?;
        if !identity.belongs_to(self.asker_uid.get()) {
            let why = "it runs, or ran, a program with other rights than those of the user who wants it moved";
            return Err(BodyError::Stays(why.into()));
        }
        self.room.args.check_owner(self.pid, &identity.uid[..3]).map_err(BodyError::Stays)?;
        match superuser::power_of(self.pid)? {
            Some(power) if !self.as_root.get() => {
                Err(BodyError::Stays(format!("it has root's rights ({power}), and the node is not trusted with them")))
            }
            _ => Ok(()),
        }
    }

    /// The body that was prepared is not needed.
    fn call_off(&self) {
        self.stocked.borrow_mut().clear();
        self.room.return_rights(self.pid);
        if self.decide(Told::Release, &ToRoom::Release { pid: self.pid }).is_err() {
            return;
        }
        let _ = self.expect(|heard| matches!(heard, Heard::Left).then_some(Ok(())));
    }

    /// How it went, in words. What is left and is no less than `follow_bytes` follows when it runs
    /// there. `carefully`: what was seen before the stop does not count. The `witness` tells of
    /// restrictions.
    fn leave(
        &self,
        pidfd: &PidFd,
        mut prepared: Prepared,
        mut headstart: Headstart,
        (follow_bytes, carefully, witness): (u64, bool, Option<&LandlockProbe>),
    ) -> Result<String, MoveError> {
        self.check_wanted()?;
        // What only takes effect later, as a hint of madvise(2), is not seen by comparing: in the
        // time of pre-copy there may have been many.
        let latest = (!headstart.is_none()).then(|| Observed::of_running(self.pid, true)).transpose()?;
        self.done("observe");
        let latest = latest.as_ref().unwrap_or(&prepared.observed);
        os::fault::at("freeze")?;
        // What goes at once takes long, and nobody waits for microseconds.
        let awake = (!headstart.is_none()).then(Awake::now);
        let frozen = checkpoint::freeze(self.pid)?;
        self.course.borrow_mut().freeze(frozen.since);
        self.done("stop");
        let before = Some(latest).filter(|_| !carefully);
        let observed = || {
            self.check_rights()?;
            Observed::of(self.pid, before, !headstart.is_none())
        };
        let now = match observed() {
            Ok(now) => now,
            Err(e) => {
                frozen.thaw();
                return Err(e.into());
            }
        };
        if !now.is_served_by(&prepared.observed) {
            // What has gone ahead would have to be sent again while it stands still.
            if !carefully && !headstart.is_none() && checkpoint::is_much(self.pid, follow_bytes).unwrap_or_default() {
                frozen.thaw();
                return Err(MoveError::Changed);
            }
            // Another body, which has no pages yet.
            headstart = Headstart::default();
            self.call_off();
            match self.prepare(Some(now.clone())) {
                Ok(again) => prepared = again,
                Err(e) => {
                    frozen.thaw();
                    return Err(e);
                }
            }
        }
        self.done("observe");
        let was_stopped = frozen.stopped;
        let ignored = os::process::status(self.pid).map_or(0, |s| s.ignored);
        let known = Known { areas: now.areas(), ignored, slept: &frozen.slept, witness };
        let collected = checkpoint::collect(self.pid, frozen.threads, known, Ok, || headstart.begin(now.image_areas()));
        let mut collected = collected.map_err(|(e, threads)| {
            threads.into_iter().for_each(|t| drop(t.detach(0)));
            e
        })?;
        self.done("collect");
        collected.leave_behind(is_told_by_home);
        let (following, since) = match self.send((&now, &prepared.place), &mut collected, &mut headstart, follow_bytes)
        {
            Ok(sent) => sent,
            Err(e) => return put_back(collected, e),
        };
        let kept = following.as_ref().map(Following::kept).unwrap_or_default();
        if let Err(e) = self.hand_over(pidfd, &now, collected, &prepared.place, (ignored, kept, was_stopped), &since) {
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

    fn send(
        &self,
        (now, place): (&Observed, &Place),
        collected: &mut Collected,
        headstart: &mut Headstart,
        follow_bytes: u64,
    ) -> Result<(Option<Following>, Since), MoveError> {
        os::fault::at("image")?;
        now.complete(&mut collected.process);
        let threads = collected.threads.clone();
        let mut image = Image { process: collected.process.clone(), threads, ..now.image() };
        used::add(&self.room.args.run_dir, self.pid, &mut image);
        checkpoint::find_keys(self.pid, &mut image)?;
        checkpoint::fire_again(&mut image);
        if now.is_guarded() {
            image.process.guards = checkpoint::guards(self.pid, &image.areas)?;
        }
        let since = self.find_told(place, collected, &mut image)?;
        self.course.borrow_mut().describe(now.parts(self.pid));
        let fits = headstart.fits(&image);
        if !fits {
            // The room makes the layout fit while home looks for pages.
            self.send_image(&image)?;
            self.done("image");
        }
        let left = headstart.left(self.pid, &image, follow_bytes)?;
        self.done("look");
        // What is little goes at once, so that the room wakes up once.
        let _gathered = left.bytes.as_ref().and(self.room.downlink.get()).map(link::Sender::gather);
        os::fault::at("pages")?;
        self.send_left(&left, &image, headstart.is_none())?;
        self.send_memories(&image)?;
        self.done("pages");
        os::fault::at("rebuild")?;
        let injected =
            collected.first().and_then(|inside| inside.region()).map(|at| (at, at + checkpoint::REGION_BYTES));
        let following = self.follow(left.later, &image.areas, all_memory(now, injected))?;
        let loan = following.as_ref().map_or(0, Following::loan);
        let image = if fits { self.image_at_once(&image)? } else { Vec::new() };
        self.room.tell(&ToRoom::Rebuild { pid: self.pid, gone: left.rest.gone, image, loan });
        Ok((following, since))
    }

    /// The image for the last message; empty if it is too large for that, and was sent before.
    fn image_at_once(&self, image: &Image) -> Result<Vec<u8>, BodyError> {
        let bytes = image.encode().map_err(|e| BodyError::Stays(e.to_string()))?;
        if bytes.len() <= page_frames::IMAGE_AT_ONCE_BYTES {
            return Ok(bytes);
        }
        self.send_image(image).map(|()| Vec::new())
    }

    fn send_left(&self, left: &Left, image: &Image, fresh: bool) -> Result<(), MoveError> {
        let Some(bytes) = &left.bytes else {
            return self.send_batches(&left.rest.runs, &image.areas, &Memory::of(self.pid)?, fresh, None);
        };
        self.gauge.begin(Stage::Still, bytes.len() as u64);
        let batch_bytes = || self.bulk.borrow().batch_bytes();
        let sent = checkpoint::each_of(&left.rest.runs, bytes, batch_bytes, |runs, pages| self.send_pages(runs, pages));
        sent.or_else(|e| self.check_wanted().and(Err(e.into())))
    }

    pub(super) fn frame(&self, kind: Kind, parts: &[&[u8]]) -> Result<(), BodyError> {
        let gone = || BodyError::Stays("the link to the room is gone".into());
        let sent = self.room.downlink.get().ok_or_else(gone)?.send(kind, 0, 0, parts);
        sent.map_err(|e| BodyError::Stays(format!("the link to the room: {e}")))
    }

    /// Sends an image: it is there before what is told next.
    pub(super) fn send_image(&self, image: &Image) -> Result<(), BodyError> {
        let bytes = image.encode().map_err(|e| BodyError::Stays(e.to_string()))?;
        page_frames::parts(self.pid, &bytes).try_for_each(|(head, part)| self.frame(Kind::Image, &[&head, part]))
    }

    pub(super) fn send_batches(
        &self,
        runs: &[Run],
        areas: &[Area],
        memory: &Memory,
        fresh: bool,
        unreadable: Option<&mut Vec<Run>>,
    ) -> Result<(), MoveError> {
        let stage = if self.course.borrow().is_frozen() { Stage::Still } else { Stage::Ahead };
        self.gauge.begin(stage, runs.iter().map(|(_, bytes)| bytes).sum());
        let batch_bytes = || self.bulk.borrow().batch_bytes();
        let send = |runs: &[Run], pages: &[u8]| self.send_pages(runs, pages);
        if fresh {
            let dense = checkpoint::dense(self.pid, runs, areas)?;
            dense
                .chunks(page_frames::LATER_RUNS)
                .try_for_each(|part| self.frame(Kind::Dense, &[&page_frames::pages_head(self.pid, part)]))?;
        }
        let sent = checkpoint::each_batch(runs, memory, areas, fresh, unreadable, batch_bytes, send);
        sent.or_else(|e| self.check_wanted().and(Err(e.into())))
    }

    /// Sends pages, but for those that the room has from an earlier stay.
    pub(super) fn send_pages(&self, runs: &[Run], pages: &[u8]) -> Result<(), BodyError> {
        // What goes over a slow link may come back over one.
        if self.room.leftovers.wants(self.bulk.borrow().is_slow()) || !self.stocked.borrow().is_empty() {
            self.room.leftovers.note(self.pid, runs, pages);
        }
        let Some(divided) = self.stocked.borrow().divide(runs, pages) else { return self.send_all(runs, pages) };
        self.frame(Kind::Stocked, &[&page_frames::pages_head(self.pid, &divided.there)])?;
        self.count_stocked(divided.there.iter().map(|run| run.1).sum());
        if divided.rest.is_empty() { Ok(()) } else { self.send_all(&divided.rest, &divided.bytes) }
    }

    fn send_all(&self, runs: &[Run], pages: &[u8]) -> Result<(), BodyError> {
        self.make_way(pages.len() as u64).map_err(|e| BodyError::Stays(e.to_string()))?;
        self.count(pages.len() as u64);
        let parts = [&page_frames::pages_head(self.pid, runs), pages];
        send_pages(&self.room, &self.gauge, &mut self.bulk.borrow_mut(), Kind::Pages, &parts)
    }

    /// What it shares with nobody, though it may.
    fn send_memories(&self, image: &Image) -> Result<(), MoveError> {
        let batch_bytes = || self.bulk.borrow().batch_bytes();
        let sent =
            checkpoint::each_content(self.pid, image, &[], batch_bytes, |runs, pages| self.send_pages(runs, pages));
        sent.or_else(|e| self.check_wanted().and(Err(e.into())))
    }

    /// While the room rebuilds the body, the original is made ready to be its deputy. Then: the
    /// commit point.
    fn hand_over(
        &self,
        pidfd: &PidFd,
        now: &Observed,
        mut collected: Collected,
        place: &Place,
        (ignored, kept, was_stopped): (u64, &[(u64, u64)], bool),
        since: &Since,
    ) -> Result<(), MoveError> {
        const SIGCHLD: usize = libc::SIGCHLD as usize - 1;
        let child_flags = collected.process.actions.get(SIGCHLD).map_or(0, |a| a[1])
            & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
        let (implanted, channels) =
            match implant::implant(pidfd, &mut collected, now.areas(), ignored, !kept.is_empty()) {
                Ok(implanted) => implanted,
                Err(e) => return put_back(collected, e),
            };
        self.done("implant");
        let flags = place::changed_flags(self.pid, &place.descriptors).unwrap_or_default();
        let ready = self.adopt(place, channels, !kept.is_empty()).and_then(|()| self.await_rebuilt(now));
        if let Err(e) = ready {
            self.dismiss();
            implanted.withdraw(&mut collected)?;
            return put_back(collected, e);
        }
        if was_stopped {
            // As a deputy it stops again before it does anything; so does its body.
            self.room.table().deputies.get_mut(&self.pid).into_iter().for_each(|d| d.stopped = true);
            self.room.tell(&ToRoom::Stop { pid: self.pid });
        }
        flags.iter().for_each(|flags| self.room.tell(flags));
        since.tell_missed(&self.room);
        // From here on only the end of the process can undo it.
        self.decide(Told::Resume, &ToRoom::Resume { pid: self.pid })?;
        self.room.return_rights(self.pid);
        os::fault::past("committed");
        if let Err(e) = implanted.go(collected, (kept, &now.written()), was_stopped) {
            tracing::error!("the deputy of {} cannot be made: {e}: it is killed", self.pid);
            pidfd.kill(libc::SIGKILL)?;
            return Err(e.into());
        }
        self.done("deputy");
        os::fault::past("deputy");
        self.await_running();
        if child_flags != 0
            && let Some(deputy) = self.room.table().deputies.get_mut(&self.pid)
        {
            deputy.give_any(Job::new(channel::order(abi::OP_IGNORE, [ignored, child_flags], &[]), Purpose::Nothing));
        }
        Ok(())
    }

    fn adopt(&self, place: &Place, channels: Vec<(i32, OwnedFd)>, lends: bool) -> Result<(), MoveError> {
        os::fault::at("adopt")?;
        let deputy = Deputy { lends, ..self.deputy(place, channels)? };
        self.room.adopt(self.pid, deputy)?;
        self.done("adopt");
        Ok(())
    }

    fn dismiss(&self) {
        let (done, is_done) = mpsc::channel();
        self.room.poller.order(Order::Dismiss { pid: self.pid, memory: None, done });
        let _ = is_done.recv();
    }

    fn await_rebuilt(&self, now: &Observed) -> Result<(), MoveError> {
        let holds = now.still_holds(self.pid)?;
        self.done("look again");
        self.expect(|heard| match heard {
            Heard::Rebuilt(result) => Some(result),
            _ => None,
        })?;
        self.done("rebuild there");
        os::fault::at("commit")?;
        self.check_wanted()?;
        self.has_room()?;
        if holds { Ok(()) } else { Err(MoveError::Changed) }
    }

    fn await_running(&self) {
        loop {
            match self.hear() {
                Ok(Heard::Runs(then)) => return self.course.borrow_mut().thaw(then),
                Ok(_) => {}
                Err(e) => return tracing::warn!("process {}: {e}", self.pid),
            }
        }
    }

    fn deputy(&self, place: &Place, channels: Vec<(i32, OwnedFd)>) -> Result<Deputy, MoveError> {
        let mut channels: HashMap<i32, OwnedFd> = channels.into_iter().collect();
        let first = channels.remove(&self.pid).ok_or(BodyError::Gone)?;
        let Program { path, argv, envp } = place.program.clone();
        let program = Program { path, argv, envp };
        let proof = DeputyProof::of_coming(ProcessIdentity::of(self.pid)?);
        let mut deputy = Deputy::new(PidFd::open(self.pid)?, proof, program, first);
        deputy.phase = Phase::Away;
        deputy.credentials = place::credentials(self.pid)?;
        for descriptor in &place.descriptors {
            deputy.standins.entry(descriptor.standin).or_default().push(descriptor.fd);
        }
        channels.into_iter().for_each(|(tid, channel)| deputy.add_thread(tid, channel, None));
        Ok(deputy)
    }
}

/// Sends a frame of pages.
pub fn send_pages(room: &Shared, gauge: &Gauge, bulk: &mut Bulk, kind: Kind, parts: &[&[u8]]) -> Result<(), BodyError> {
    let gone = || BodyError::Stays("the link to the room is gone".into());
    let sent = bulk.send(room.downlink.get().ok_or_else(gone)?, kind, parts);
    sent.map(|bytes| gauge.count_wire(bytes)).map_err(|e| BodyError::Stays(format!("the link to the room: {e}")))
}

/// Home counts continuations and decides about stops: these signals wait in the deputy, which tells
/// of them.
fn is_told_by_home(info: &[u8]) -> bool {
    let signal = i32::from(info.first().copied().unwrap_or(0));
    is_job_stop(signal) || signal == libc::SIGCONT
}

/// Start and end of all memory of a process that can be unmapped; what lies side by side is one.
fn all_memory(now: &Observed, injected: Option<(u64, u64)>) -> Vec<(u64, u64)> {
    let own = now.areas().iter().filter(|a| a.name != b"[vsyscall]").map(|a| (a.start, a.end));
    own.chain(injected).collect::<Ranges>().iter().collect()
}

/// The process goes on here, as it was.
fn put_back<T>(collected: Collected, e: MoveError) -> Result<T, MoveError> {
    collected.give_back()?.into_iter().for_each(|t| drop(t.detach(0)));
    Err(e)
}
