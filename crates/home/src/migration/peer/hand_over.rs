//! From this room to another one of this home: an empty body is made there while the process still
//! runs here; then it is stopped, goes straight from node to node, and stands there. The commit
//! point: this steward gives the deputy, which is neither filled nor woken, to the other
//! ([`crate::migration::peer::receive`]). Until then the body can go on here.

use crate::deputy::record::{Deputy, Phase};
use crate::migration::error::MoveError;
use crate::migration::peer::steward_link::{StewardLink, check_refused};
use crate::migration::session::{MigrationSession, must_be_away};
use crate::restore::edges;
use crate::restore::written::Written;
use crate::room::event::RoomEvent;
use crate::room::orders::Order;
use crate::room::peer::{Handover, PeerRoom, StewardMessage};
use crate::room::progress::MoveProgress;
use crate::room::state::Room;
use checkpoint::{BodyError, Course};
use control_protocol::moves::{HopReport, How, MoveOptions, Parts, Stage};
use control_protocol::steward::ToSteward;
use image::Image;
use migration_plan::Way;
use migration_plan::protocol::{HomeCommand, Side};
use os::awake::Awake;
use room_protocol::ToRoom;
use room_protocol::message::Family;
use room_protocol::message::onward::{self, Lane, Said, Ticket};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The most tries with a process whose open files change meanwhile.
const TRIES_MAX: u32 = 5;
/// The longest silence while a process stands still: after it, the way between the nodes counts as
/// broken, and the process goes through home.
const QUIET_MAX: Duration = Duration::from_secs(5);
/// How long deputy threads may take to do what they were told last.
const IDLE_WITHIN: Duration = Duration::from_secs(2);

/// A body that stands in the other room, before the commit point.
struct SentOn {
    /// The number of the pages that follow, if any do.
    follows: Option<u32>,
    /// Notices that had come to the room when the body stood still.
    noticed: u64,
}

/// Moves process `pid` to another room.
pub fn run(
    room: &Arc<Room>,
    pid: i32,
    beyond: &PeerRoom,
    options: MoveOptions,
    progress: Arc<MoveProgress>,
) -> Result<HopReport, MoveError> {
    check(room, pid)?;
    if options.how == How::Flush {
        return Err(BodyError::NotMigratable("what is flushed goes to home's memory".into()).into());
    }
    let this = MigrationSession::begin(room, pid, Side::Room, options.pace, progress)?;
    let (mut turn, mut options) = (0, options);
    loop {
        turn += 1;
        this.timings.borrow_mut().again();
        match this.pass(beyond, turn, options) {
            Err(e) if e.is_retryable() && this.has_stayed() && turn < TRIES_MAX => {}
            Err(MoveError::NotAhead(why)) if options.how == How::Auto => {
                tracing::info!("process {pid} goes without pre-copy: {why}");
                options.how = How::Post;
            }
            other => return other,
        }
    }
}

/// Tells whether a way through home would fail as well.
pub fn is_final(e: &MoveError) -> bool {
    matches!(
        e,
        MoveError::CalledOff | MoveError::Moving | MoveError::Unsettled | MoveError::NotAway | MoveError::Lost(_)
    ) || matches!(e, MoveError::Body(BodyError::Exited))
}

/// Refuses a process that cannot go straight to another room, and may go home.
fn check(room: &Room, pid: i32) -> Result<(), MoveError> {
    must_be_away(room, pid)?;
    {
        let table = room.table();
        let deputy = table.deputies.get(&pid).filter(|d| d.phase == Phase::Away).ok_or(MoveError::NotAway)?;
        if deputy.lends || deputy.misses.is_some() {
            return Err(BodyError::NotMigratable("some of its pages are elsewhere still".into()).into());
        }
        if deputy.stopped || deputy.stopping {
            return Err(BodyError::NotMigratable("it is stopped".into()).into());
        }
    }
    if room.link.files().is_some_and(|files| !files.held_locks(pid).is_ok_and(|locks| locks.is_empty())) {
        return Err(BodyError::NotMigratable("it has locked a file while it was away".into()).into());
    }
    Ok(())
}

impl MigrationSession {
    fn pass(&self, beyond: &PeerRoom, turn: u32, options: MoveOptions) -> Result<HopReport, MoveError> {
        let mut ticket = beyond.ticket;
        // Nothing of an earlier try is let in.
        ticket[0] ^= turn as u8;
        let talk = StewardLink::begin(&control_protocol::paths::steward_socket(&self.room.args.run_dir, beyond.room))?;
        talk.listen(&self.room, self.pid, turn)?;
        let gone = self
            .prepare_beyond(&talk, &PeerRoom { ticket, ..beyond.clone() }, turn)
            .and_then(|(own_bytes, written)| Ok((self.pages_ahead(&beyond.node, ticket, own_bytes, options)?, written)))
            .and_then(|(ahead, written)| {
                // What goes at once takes long, and nobody waits for microseconds.
                let awake = ahead.is_some().then(Awake::now);
                Ok((ahead, self.stop_and_send(&beyond.node, turn, options)?, written, awake))
            })
            .and_then(|(ahead, sent, written, _awake)| {
                self.switch(&talk, turn, &sent, &written).map(|()| (ahead, sent.follows))
            });
        match gone {
            Ok((ahead, follows)) => {
                self.await_end(turn, follows)?;
                let alone = if follows.is_some() { "post" } else { "stop" };
                let how = ahead.map_or_else(|| alone.to_owned(), |course| course.how(follows.is_some()));
                Ok(self.report(&beyond.node, &how))
            }
            Err(e) => {
                talk.end();
                if self.protocol.get().owner() == Side::Room {
                    self.decide(HomeCommand::Resume, &ToRoom::Resume { pid: self.pid })?;
                    self.send_signals_on();
                    if !self.protocol.get().is_settled() {
                        let _ = self.expect(|heard| matches!(heard, RoomEvent::Whole(_)).then_some(Ok(())));
                    }
                }
                // The other has nothing of it any more then.
                let _ = self.expect(|heard| matches!(heard, RoomEvent::Silence(t) if t == turn).then_some(Ok(())));
                Err(e)
            }
        }
    }

    /// An empty body is made there, and the way to it. How much memory it has of its own, bytes;
    /// and what it writes to.
    fn prepare_beyond(&self, talk: &StewardLink, beyond: &PeerRoom, turn: u32) -> Result<(u64, Written), MoveError> {
        let pid = self.pid;
        os::fault::at("outline")?;
        self.room.tell(&ToRoom::Onward { pid, order: onward::Order::Outline });
        let outline = loop {
            match self.hear()? {
                RoomEvent::Onward(Said::Outline(result)) => break result.map_err(MoveError::Room)?,
                _ => self.check_wanted()?,
            }
        };
        let own_bytes = outline.own_bytes;
        let image = Image::decode(&outline.image).map_err(|e| MoveError::Room(e.to_string()))?;
        let written = Written::of(&image.files);
        let outline = postcard::to_stdvec(&outline).map_err(|e| MoveError::Room(e.to_string()))?;
        let from = self.room.args.host.clone();
        let receive = ToSteward::Receive { pid, ticket: beyond.ticket, from, outline, owner: self.room.args.owner };
        talk.send(&postcard::to_stdvec(&receive).map_err(|e| MoveError::Room(e.to_string()))?)?;
        self.expect_word(turn, &StewardMessage::Prepared)?;
        let lane =
            Lane { ticket: beyond.ticket, node: beyond.node.clone(), address: beyond.address, room: beyond.room.0 };
        self.room.tell(&ToRoom::Onward { pid, order: onward::Order::Connect(lane) });
        self.expect(|heard| match heard {
            RoomEvent::Onward(Said::Connected(result)) => Some(result),
            _ => None,
        })?;
        self.done("prepare");
        self.check_wanted().map(|()| (own_bytes, written))
    }

    /// Pre-copy, if it is wanted, or needed for the bound.
    fn pages_ahead(
        &self,
        to: &str,
        ticket: Ticket,
        own_bytes: u64,
        options: MoveOptions,
    ) -> Result<Option<Course>, MoveError> {
        let costs = |how| self.room.sessions.costs(to, how, Parts::default()).limited(options.pace.rate);
        let (watched, files_alone) = match (options.how, costs("stop").choose(own_bytes, options.max_freeze_us)) {
            (How::Auto, Way::Copy) => (false, false),
            (How::Auto, Way::Pre) | (How::Pre, _) => (true, false),
            (How::Post, _) => (false, true),
            _ => return Ok(None),
        };
        let (fixed_us, bytes_per_s) = costs("pre").parts();
        let (max_freeze_us, pace) = (options.max_freeze_us, options.pace);
        let order = onward::Ahead { ticket, max_freeze_us, fixed_us, bytes_per_s, pace, watched, files_alone };
        self.progress.begin(Stage::Ahead, own_bytes);
        self.room.tell(&ToRoom::Onward { pid: self.pid, order: onward::Order::Ahead(order) });
        loop {
            match self.hear()? {
                RoomEvent::Onward(Said::Passed { bytes, wire_bytes }) => {
                    self.count(bytes);
                    self.progress.count_wire(wire_bytes);
                }
                RoomEvent::Onward(Said::Ahead { ticket: of, result }) if of == ticket => {
                    self.done("ahead");
                    // What changes too quickly even for a copy gets another body: this one may have
                    // some of its pages.
                    let not_ahead = |why| if watched { MoveError::NotAhead(why) } else { MoveError::Changed };
                    let onward::Went { rounds, outrun } = result.map_err(not_ahead)?;
                    return Ok(Some(Course { rounds, outrun }).filter(|_| !files_alone));
                }
                _ => {}
            }
            self.check_wanted()?;
        }
    }

    fn expect_word(&self, turn: u32, wanted: &StewardMessage) -> Result<(), MoveError> {
        loop {
            match self.hear()? {
                RoomEvent::Peer(t, word) if t == turn && word == *wanted => return Ok(()),
                RoomEvent::Peer(t, word) if t == turn => check_refused(word)?,
                RoomEvent::Silence(t) if t == turn => return Err(MoveError::Room("the other room has ended".into())),
                _ => {}
            }
        }
    }

    /// The body stands still, and all of it is there but what follows: by which loan, if anything
    /// does. And how many notices had come to its room.
    fn stop_and_send(&self, to: &str, turn: u32, options: MoveOptions) -> Result<SentOn, MoveError> {
        os::fault::at("recall")?;
        let (pid, pace) = (self.pid, options.pace);
        let follow_bytes = self.follow_bytes(to, options);
        self.hold_signals();
        self.decide(
            HomeCommand::Recall,
            &ToRoom::Recall { pid, follow_bytes, pace, onward: true, ahead: None, family: Family::Stays },
        )?;
        let (mut whole, mut stands, mut changed, mut follows, mut noticed) = (false, false, false, None, 0);
        while !whole || !stands {
            let heard = if whole { self.hear() } else { self.hear_within(QUIET_MAX) };
            match heard? {
                RoomEvent::Leaving(own_bytes) => self.note_leaving(own_bytes),
                RoomEvent::Standing(_, then) => noticed = then,
                RoomEvent::Share(common) => self.share_and_tell(&common),
                RoomEvent::Onward(Said::Passed { bytes, wire_bytes }) => {
                    self.count(bytes);
                    self.progress.count_wire(wire_bytes);
                    self.check_wanted()?;
                }
                RoomEvent::Onward(Said::Changed) => changed = true,
                RoomEvent::Onward(Said::Lends { loan }) => follows = Some(loan),
                RoomEvent::Whole(Ok(())) => {
                    self.done("send");
                    whole = true;
                }
                RoomEvent::Whole(Err(_)) if changed => return Err(MoveError::Changed),
                RoomEvent::Whole(Err(refusal)) => return Err(refusal.into()),
                RoomEvent::Peer(t, StewardMessage::Stands) if t == turn => stands = true,
                RoomEvent::Peer(t, word) if t == turn => check_refused(word)?,
                RoomEvent::Silence(t) if t == turn => return Err(MoveError::Silent("the other room has ended".into())),
                _ => {}
            }
        }
        self.done("rebuild there");
        self.check_wanted().map(|()| SentOn { follows, noticed })
    }

    /// The commit point.
    fn switch(&self, talk: &StewardLink, turn: u32, sent: &SentOn, written: &Written) -> Result<(), MoveError> {
        let SentOn { follows, noticed } = *sent;
        os::fault::at("switch")?;
        self.has_room()?;
        self.wait_settled()?;
        check(&self.room, self.pid)?;
        let (done, is_done) = mpsc::channel();
        self.room.poller.order(Order::Yield { pid: self.pid, done });
        let deputy = is_done.recv().ok().flatten().ok_or(BodyError::Exited)?;
        let signals = self.take_signals();
        let changed = edges::changed(&self.room, &deputy, noticed);
        let (handover, channels) = Handover::of(&deputy, &signals, follows, changed);
        let given = talk.give(handover, &channels);
        drop(channels);
        if let Err(e) = given.and_then(|()| self.await_taken(turn)) {
            self.put_signals_back(signals);
            self.keep_deputy(*deputy)?;
            return Err(e);
        }
        let mut protocol = self.protocol.get();
        protocol.passed();
        self.protocol.set(protocol);
        written.let_go(&self.room);
        os::fault::past("switched");
        let (done, is_done) = mpsc::channel();
        self.room.poller.order(Order::Disown { pid: self.pid, done });
        let _ = is_done.recv();
        self.room.let_go(deputy.standins.keys().copied());
        drop(deputy);
        self.done("switch");
        // Its pages are in the body that it leaves.
        if follows.is_some() { Ok(()) } else { self.release() }
    }

    fn release(&self) -> Result<(), MoveError> {
        self.decide(HomeCommand::Release, &ToRoom::Release { pid: self.pid })
    }

    /// An error: it was not taken. If nothing is said of it, it may be yet, or it ends as one does
    /// whose steward dies: it must not go on here.
    fn await_taken(&self, turn: u32) -> Result<(), MoveError> {
        loop {
            match self.hear() {
                Ok(RoomEvent::Peer(t, StewardMessage::Taken)) if t == turn => return Ok(()),
                Ok(RoomEvent::Peer(t, word)) if t == turn => check_refused(word)?,
                Ok(RoomEvent::Silence(t)) if t == turn => {
                    // Whoever hears of its end next, hears it again.
                    self.heard.borrow_mut().push_back(RoomEvent::Silence(t));
                    return Ok(());
                }
                Ok(_) => {}
                Err(e) => {
                    tracing::warn!("process {} was given to another steward: {e}", self.pid);
                    return Ok(());
                }
            }
        }
    }

    /// Takes a deputy back that the other steward has not taken.
    fn keep_deputy(&self, deputy: Deputy) -> Result<(), MoveError> {
        Ok(self.room.adopt(self.pid, deputy)?)
    }

    /// Waits until the deputy has done what it was told.
    fn wait_settled(&self) -> Result<(), MoveError> {
        let begun = Instant::now();
        while !self.room.table().deputies.get(&self.pid).is_none_or(Deputy::is_settled) {
            if begun.elapsed() > IDLE_WITHIN {
                return Err(self.deputy_is_busy());
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// Waits until nothing of the process is left in this room, and it runs in the other.
    fn await_end(&self, turn: u32, follows: Option<u32>) -> Result<(), MoveError> {
        let (mut left, mut runs, mut drained) = (false, false, Ok(()));
        let mut lends = follows;
        while !left || !runs {
            // That may have been said before it was taken there: what it was to do there was soon
            // done.
            if let Some(result) = lends.and_then(|loan| self.loans.over(loan)) {
                (lends, drained) = (None, result);
                self.release()?;
                continue;
            }
            match self.hear() {
                Ok(RoomEvent::Left) => left = true,
                Ok(RoomEvent::Onward(Said::Passed { bytes, wire_bytes })) => {
                    self.count(bytes);
                    self.progress.count_wire(wire_bytes);
                }
                Ok(RoomEvent::Onward(Said::Followed { bytes, asked_bytes })) => {
                    self.timings.borrow_mut().follow(bytes, asked_bytes);
                    self.done("follow");
                }
                Ok(RoomEvent::Peer(t, StewardMessage::Runs { monotonic_ns })) if t == turn => {
                    let ago = os::namespace::clock_ns(libc::CLOCK_MONOTONIC) - monotonic_ns;
                    let ago = Duration::from_nanos(u64::try_from(ago).unwrap_or(0));
                    let now = Instant::now();
                    self.timings.borrow_mut().thaw(now.checked_sub(ago).unwrap_or(now));
                    self.done("run there");
                    runs = true;
                    if follows.is_some() {
                        self.room.tell(&ToRoom::Push { pid: self.pid });
                        self.progress.begin(Stage::Follows, self.progress.left_bytes());
                    }
                }
                Ok(RoomEvent::Silence(t)) if t == turn && !runs => {
                    // What is left of it here is nobody's.
                    if lends.is_some() {
                        self.release()?;
                    }
                    return Err(MoveError::Lost("the steward of the room that it was to go to has ended".into()));
                }
                Ok(_) => {}
                // A way that stands still is given up by the rooms, after a while.
                Err(_) if follows.is_some() && !self.room.is_lost() => {}
                Err(e) if runs && follows.is_some() => {
                    drained = Err(e.to_string());
                    break;
                }
                // This room is not needed any more.
                Err(_) if runs => break,
                Err(e) => return Err(MoveError::Lost(e.to_string())),
            }
        }
        self.done("leave");
        let lost = |why| MoveError::Lost(format!("some of its memory was still on {}: {why}", self.room.args.host));
        drained.map_err(lost)
    }
}
