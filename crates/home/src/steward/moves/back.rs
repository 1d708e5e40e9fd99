//! From the room to home: the body is stopped there, and what it is fills the deputy, which goes on
//! as the program, without us.

use super::Called;
use super::early::Early;
use super::edges::Edges;
use super::filling::Filling;
use super::homeward::Laid;
use super::locks::Locks;
use super::memory_group::{Known, TOGETHER};
use super::out::{TRIES_MAX, must_be_away};
use super::used::Away;
use super::watch::Gauge;
use super::written::Written;
use super::{Heard, Move, MoveError};
use crate::steward::deputies::Deputy;
use crate::steward::manner::Announcement;
use crate::steward::mounts::SHARED_MEMORY;
use crate::steward::orders::Order;
use crate::steward::shared::Shared;
use checkpoint::{BodyError, Frozen, Pager};
use control_protocol::moves::{How, Leg, Stage, Wish};
use image::{Content, Image};
use migration_plan::protocol::{Side, Told};
use os::areas::Area;
use os::awake::Awake;
use os::ptrace::Stopped;
use room_protocol::ToRoom;
use room_protocol::message::onward::{self, Said};
use room_protocol::message::{Errand, Family, LockedFile, MemoryId};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// SIGKILL and SIGSTOP.
pub const NEVER_BLOCKED: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);

/// After so long a deputy that has not done what it was told may be stopped.
const STOPPED_AFTER: Duration = Duration::from_millis(30);

/// How long deputy threads may take to do what they were told last.
const IDLE_WITHIN: Duration = Duration::from_secs(2);

/// Why a process comes home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It waits for that, and nothing else can be done for it.
    Called,
    /// Somebody wants it there.
    Wished,
    /// Somebody wants it on another node: those with which it shares memory do not come, nor does
    /// it.
    Alone,
}

impl Why {
    pub(super) fn must_come(self) -> bool {
        self == Why::Called
    }

    fn family(self) -> Family {
        if self == Why::Alone { Family::Stays } else { Family::Comes }
    }
}

/// Brings process `pid` home.
pub fn run(room: &Arc<Shared>, pid: i32, wish: Wish, why: Why, gauge: Arc<Gauge>) -> Result<Leg, MoveError> {
    must_be_away(room, pid)?;
    let this = Move::begin(room, pid, (Side::Room, false), wish.pace, gauge)?;
    // What follows comes in any case.
    if wish.how != How::Post {
        this.offer_leftover();
    }
    let mut come = this.come(wish, why);
    for _ in 1..TRIES_MAX {
        if come.as_ref().is_err_and(MoveError::is_fleeting) && this.has_stayed() {
            this.course.borrow_mut().again();
            come = this.come(wish, why);
        }
    }
    come
}

/// Who brings the pages that follow.
pub type Rest = Option<Arc<Pager>>;

/// A deputy that has all, and whom the room wants to come as well.
pub struct Received {
    pub filling: Filling,
    pub others: Vec<i32>,
}

impl Move {
    fn come(&self, wish: Wish, why: Why) -> Result<Leg, MoveError> {
        // Who waits for it has nothing of a shorter stop.
        let ahead = if why.must_come() { None } else { self.come_ahead(wish)? };
        if !why.must_come()
            && !matches!(wish.how, How::Stop | How::Flush)
            && let Err(e) = self.come_in_advance(wish.pace)
        {
            self.room.tell(&ToRoom::Onward { pid: self.pid, order: onward::Order::Enough });
            ahead.into_iter().for_each(|ahead| ahead.laid.undo());
            return Err(e);
        }
        let follow_bytes = self.follow_bytes("home", wish);
        // What comes at once takes long, and nobody waits for microseconds.
        let awake = ahead.is_some().then(Awake::now);
        self.hold_signals();
        let (pid, pace, family) = (self.pid, wish.pace, why.family());
        let (ticket, course) = (ahead.as_ref().map(|ahead| ahead.ticket), ahead.as_ref().map(|ahead| ahead.course));
        let recall = ToRoom::Recall { pid, follow_bytes, pace, onward: false, ahead: ticket, family };
        self.decide(Told::Recall, &recall)?;
        let mut known = Known::default();
        let received = self.receive(why.must_come(), ahead.map(|ahead| ahead.laid), &mut known);
        match received.and_then(|received| self.go_together(received, &mut known, (wish.pace, why.must_come()))) {
            Ok((rest, others)) => {
                drop(awake);
                os::fault::past("home");
                let follows = rest.is_some();
                let alone = match (follows, others.is_empty()) {
                    (true, _) => "post",
                    (false, true) => "stop",
                    (false, false) => TOGETHER,
                };
                let how = course.filter(|_| others.is_empty()).map_or_else(|| alone.to_owned(), |c| c.how(follows));
                let received = rest.map_or(Ok(()), |pager| self.receive_rest(&pager));
                self.leave_room()?;
                for other in others {
                    other.leave_room()?;
                }
                self.done("leave");
                received?;
                Ok(self.leg("home", &how))
            }
            Err(e) => {
                self.stay()?;
                Err(e)
            }
        }
    }

    /// It is here: the room forgets it.
    fn leave_room(&self) -> Result<(), MoveError> {
        self.decide(Told::Release, &ToRoom::Release { pid: self.pid })?;
        // Its number is free there when this is told; until then it could not go there again.
        let _ = self.expect(|heard| matches!(heard, Heard::Left).then_some(Ok(())));
        Ok(())
    }

    /// It runs on in the room.
    pub(super) fn stay(&self) -> Result<(), MoveError> {
        self.hold_again();
        self.decide(Told::Resume, &ToRoom::Resume { pid: self.pid })?;
        self.send_signals_on();
        if !self.protocol.get().is_settled() {
            let _ = self.expect(|heard| matches!(heard, Heard::Whole(_)).then_some(Ok(())));
        }
        Ok(())
    }

    /// It runs in the room, which owes nothing: another try may begin.
    pub(super) fn has_stayed(&self) -> bool {
        let protocol = self.protocol.get();
        protocol.owner() == Side::Room && protocol.is_settled()
    }

    /// `laid`: what has come ahead.
    pub(super) fn receive(
        &self,
        must_come: bool,
        laid: Option<Laid>,
        known: &mut Known,
    ) -> Result<Received, MoveError> {
        let mut laid = laid;
        let received = self.receive_into(must_come, &mut laid, known);
        // Until the deputy is stopped, nobody else takes it away again.
        laid.into_iter().for_each(Laid::undo);
        received
    }

    fn receive_into(&self, must_come: bool, laid: &mut Option<Laid>, known: &mut Known) -> Result<Received, MoveError> {
        os::fault::at("recall")?;
        let mut come = Come { must_come, ..Come::default() };
        let mut filling: Option<Filling> = None;
        let mut early: Option<Early> = None;
        let outcome = loop {
            match self.hear() {
                Ok(Heard::Part(part, last)) if come.image.len() + part.len() <= image::IMAGE_BYTES_MAX => {
                    come.image.extend(part);
                    // While the room looks for the pages.
                    if last && let Err(e) = self.filled(&mut filling, (&come, known), (laid, &mut early)) {
                        break Err(e);
                    }
                }
                Ok(Heard::Leaving(own_bytes)) => {
                    self.done("look there");
                    self.gauge.begin(Stage::Still, own_bytes);
                    self.course.borrow_mut().freeze(Instant::now());
                }
                Ok(Heard::Share(files, pipes, pairs)) => {
                    let result = self.share(&files, &pipes, &pairs).map_err(|e| e.refusal());
                    self.room.tell(&ToRoom::Shared { pid: self.pid, result });
                    self.done("share");
                }
                Ok(Heard::Standing(tids, noticed)) => {
                    come.noticed = noticed;
                    if filling.is_none() && early.is_none() {
                        early = self.stop_early(tids, laid.as_ref());
                    }
                }
                Ok(Heard::Locked(files)) => come.locked = files,
                Ok(Heard::Shares(others, memories)) => (come.others, come.memories) = (others, memories),
                Ok(Heard::Later(runs)) => {
                    if let Err(e) = self
                        .filled(&mut filling, (&come, known), (laid, &mut early))
                        .and_then(|f| f.expect_later(&runs))
                    {
                        break Err(e);
                    }
                }
                Ok(Heard::Dense(runs)) => {
                    if let Err(e) = self
                        .filled(&mut filling, (&come, known), (laid, &mut early))
                        .and_then(|f| f.expect_dense(&runs))
                    {
                        break Err(e);
                    }
                }
                Ok(Heard::Pages(pages)) => {
                    let ready = self.filled(&mut filling, (&come, known), (laid, &mut early));
                    let bytes = pages.bytes().len() as u64;
                    self.count(bytes);
                    let wanted = self.check_wanted();
                    if let Err(e) = wanted.and(ready).and_then(|f| f.write(&pages.runs, pages.bytes())) {
                        break Err(e);
                    }
                    self.room.tell(&ToRoom::Taken { pid: self.pid, bytes });
                }
                Ok(Heard::There(runs)) => {
                    let ready = self.filled(&mut filling, (&come, known), (laid, &mut early));
                    let wanted = self.check_wanted().and(ready);
                    let written = wanted.and_then(|f| self.write_leftover(&runs, |runs, pages| f.write(runs, pages)));
                    if let Err(e) = written {
                        break Err(e);
                    }
                }
                Ok(Heard::Onward(Said::Gone(runs))) => {
                    let ready = self.filled(&mut filling, (&come, known), (laid, &mut early));
                    if let Err(e) = ready.and_then(|f| f.discard(&runs)) {
                        break Err(e);
                    }
                }
                Ok(Heard::Whole(Ok(()))) => break Ok(()),
                Ok(Heard::Whole(Err(refusal))) => break Err(refusal.into()),
                Ok(_) => {}
                Err(e) => break Err(e),
            }
        };
        self.done("pages");
        if let Some(early) = early {
            early.undo()?;
        }
        match (outcome, filling) {
            (Ok(()), Some(filling)) => Ok(Received { filling, others: come.others }),
            (Ok(()), None) => Err(MoveError::Room("it sent no pages".into())),
            (Err(e), Some(filling)) => {
                filling.undo()?;
                Err(e)
            }
            (Err(e), None) => Err(e),
        }
    }

    /// The deputy that is filled, when the image is whole.
    fn filled<'a>(
        &self,
        filling: &'a mut Option<Filling>,
        (come, known): (&Come, &mut Known),
        (laid, early): (&mut Option<Laid>, &mut Option<Early>),
    ) -> Result<&'a mut Filling, MoveError> {
        match filling {
            Some(filling) => Ok(filling),
            None => {
                self.done("image");
                let begun = self.begin_filling((come, known), laid, early)?;
                self.done("lay out");
                Ok(filling.insert(begun))
            }
        }
    }

    /// What it and its family have mapped in the room is written back, and they stand still: home's
    /// processes may open it, and it may itself.
    fn let_go_held(&self, image: &Image) {
        let Some(server) = self.room.files.get() else { return };
        let is_mapped = |place: usize| {
            image
                .areas
                .iter()
                .any(|area| matches!(area.content, Content::File { file, .. } if file as usize == place && area.shared))
        };
        let place = Path::new(SHARED_MEMORY);
        for (n, file) in image.files.iter().enumerate() {
            if Path::new(OsStr::from_bytes(&file.path)).starts_with(place) && is_mapped(n) {
                server.let_go_held(place, file.inode);
                self.let_go.borrow_mut().push(file.clone());
            }
        }
    }

    /// It stays in the room, and what it has mapped there is to be its own again, or it has to come
    /// after all.
    fn hold_again(&self) {
        let Some(server) = self.room.files.get() else { return };
        for file in self.let_go.take() {
            if !server.hold(Path::new(SHARED_MEMORY), file.inode) {
                let errand = Errand::call_on(libc::SYS_mmap as u32, &file.path);
                self.room.poller.order(Order::BringHome(Called { pid: self.pid, first: None, errand }));
            }
        }
    }

    /// Stops the deputy, if it was not before, and lays the body's memory out in it, beside its
    /// own; what of that has come ahead stays.
    fn begin_filling(
        &self,
        (come, known): (&Come, &mut Known),
        laid: &mut Option<Laid>,
        early: &mut Option<Early>,
    ) -> Result<Filling, MoveError> {
        let image = Image::decode(&come.image).map_err(|e| MoveError::Room(e.to_string()))?;
        let mut wanted: Vec<i32> = image.threads.iter().map(|t| t.tid).collect();
        wanted.sort_unstable();
        if image.process.pid != self.pid {
            return Err(MoveError::Room("the image is another process'".into()));
        }
        self.let_go_held(&image);
        let locks = Locks::of(&self.room, &image, &come.locked, come.must_come)?;
        os::fault::at("stop deputy")?;
        let (deputy, areas) = match early.take() {
            Some(early) if early.serves(&image, &wanted) => (early.deputy, early.areas),
            early => {
                early.map_or(Ok(()), Early::undo)?;
                self.stop_deputy(&wanted, &image.areas, IDLE_WITHIN)?
            }
        };
        let ahead: Vec<(u64, u64)> =
            laid.iter().flat_map(|laid| laid.areas()).map(|area| (area.start, area.end)).collect();
        let is_ahead = |a: &Area| os::pages::subtract(&[(a.start, a.end)], &ahead).is_empty();
        if let Err(why) = self.check_memory(&areas, &ahead) {
            deputy.give_back()?.into_iter().for_each(|t| drop(t.detach(0)));
            return Err(why.into());
        }
        let own: Vec<Area> = areas.iter().filter(|a| a.name != b"[vsyscall]" && !is_ahead(a)).cloned().collect();
        let ahead = laid.take().map(Laid::into_areas).unwrap_or_default();
        let edges = Edges::of(&self.room, self.pid, come.noticed);
        let mut filling = Filling::new(image, deputy, (&own, ahead), (locks, edges));
        let prepared = filling.prepare(&self.room, self.pid, &known.of(&come.memories));
        match prepared.and_then(|()| known.learn(&come.memories, |place| filling.memory(place))) {
            Ok(()) => Ok(filling),
            Err(e) => {
                filling.undo()?;
                Err(e.into())
            }
        }
    }

    /// Checks that the stopped deputy has nothing in its memory but the blob and what was `laid`
    /// out. One whose body still fetches pages from it has these, too.
    fn check_memory(&self, areas: &[Area], laid: &[(u64, u64)]) -> Result<(), BodyError> {
        let table = self.room.table();
        let deputy = table.deputies.get(&self.pid).ok_or(BodyError::Gone)?;
        if deputy.lends { Ok(()) } else { Ok(deputy.proof.check_memory(areas, laid)?) }
    }

    /// Stops the deputy, but not while it tells of a signal: nobody else knows of that.
    pub(super) fn stop_idle(&self, tids: &[i32], within: Duration) -> Result<Frozen, MoveError> {
        let begun = Instant::now();
        loop {
            self.wait_idle(tids, within)?;
            let frozen = checkpoint::freeze(self.pid)?;
            if let Err(why) = self.room.check_deputy(self.pid) {
                frozen.thaw();
                return Err(why.into());
            }
            // While it handles a signal, and then alone, it blocks all
            // (blobs/deputy/src/signals.rs).
            let busy = frozen.threads.iter().any(|t| t.mask().is_ok_and(|mask| mask | NEVER_BLOCKED == u64::MAX));
            if !busy {
                return Ok(frozen);
            }
            frozen.thaw();
            if begun.elapsed() > within {
                return Err(BodyError::Stays("its deputy is busy: it handles a signal".into()).into());
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    pub(super) fn deputy_is_busy(&self) -> MoveError {
        let business = self.room.table().deputies.get(&self.pid).map(Deputy::business).unwrap_or_default();
        BodyError::Stays(format!("its deputy is busy: {business}")).into()
    }

    /// Until the deputy has done what it was told, and has exactly these threads: those of ended
    /// ones end too.
    fn wait_idle(&self, tids: &[i32], within: Duration) -> Result<(), MoveError> {
        let begun = Instant::now();
        let mut is_asked = false;
        loop {
            let idle = self.room.table().deputies.get(&self.pid).is_none_or(|d| d.is_idle());
            match idle && os::process::threads(self.pid)? == tids {
                true => return Ok(()),
                false if !is_asked && begun.elapsed() > STOPPED_AFTER => {
                    is_asked = true;
                    self.finish_stopped(tids, within)?;
                }
                false if begun.elapsed() > within => {
                    return Err(self.deputy_is_busy());
                }
                false => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// Nothing is left to be done before the commit point.
    pub(super) fn make_ready(&self, filling: &mut Filling) -> Result<Rest, BodyError> {
        filling.take_descriptors(self.pid)?;
        self.page_later(filling)
    }

    /// The commit point: what the room holds is not needed any more, but the pages that follow.
    pub(super) fn arrive(&self, rest: &Rest) -> Result<(), MoveError> {
        os::fault::past("arrived");
        self.arrived();
        // As long as it stands still: what it writes itself comes after that.
        let announcement = self.room.table().deputies.get_mut(&self.pid).and_then(|d| d.announcement.take());
        announcement.into_iter().for_each(Announcement::make);
        let (done, is_done) = mpsc::channel();
        let memory = rest.as_ref().and_then(|pager| pager.duplicate());
        self.room.poller.order(Order::Dismiss { pid: self.pid, memory, done });
        is_done.recv().map_err(|_| MoveError::Silent("the steward ends".into()))
    }

    /// It is the program again, and stands still yet.
    pub(super) fn finish(&self, filling: Filling) -> Option<Finished> {
        let away = Away::of(self.pid, filling.image());
        let signals = self.take_signals();
        self.done("dismiss");
        os::fault::past("dismissed");
        let written = Written::of(&filling.image().files);
        match filling.finish(&self.room, self.pid, &signals) {
            Ok(threads) => {
                written.let_go(&self.room);
                Some(Finished { threads, away: away.ok() })
            }
            Err(e) => {
                // Neither body nor deputy any more: it ends, as everybody can see, rather than go
                // on wrongly.
                tracing::error!("process {} could not be put together at home: {e}: it is killed", self.pid);
                // SAFETY: our tracee, not waited for.
                unsafe { libc::kill(self.pid, libc::SIGKILL) };
                None
            }
        }
    }

    /// It goes on. One that was killed meanwhile has nowhere else to go, either.
    pub(super) fn go(&self, finished: Option<Finished>) {
        let Some(Finished { threads, away }) = finished else { return };
        if let Err(e) = threads.into_iter().try_for_each(|t| t.detach(0)) {
            tracing::warn!("process {} came home, and ends: {e}", self.pid);
        }
        self.done("finish");
        self.course.borrow_mut().thaw(Instant::now());
        // One that is gone uses no more.
        away.into_iter().for_each(|away| away.keep(&self.room.args.run_dir, self.pid));
    }
}

/// All of its threads, stopped, and what it used elsewhere.
pub struct Finished {
    threads: Vec<Stopped>,
    away: Option<Away>,
}

/// What has come of a body that is not filled in yet.
#[derive(Default)]
struct Come {
    image: Vec<u8>,
    locked: Vec<LockedFile>,
    /// Notices that had come to the room when it stood still.
    noticed: u64,
    memories: Vec<MemoryId>,
    others: Vec<i32>,
    must_come: bool,
}
