//! From the room to home: the body is stopped there, and its state fills the deputy, which goes on
//! as the program, without the steward.
//!
//! Memory may come while the body still runs: laid out in the deputy ([`precopy`], [`prelaid`]), or
//! kept beside it ([`advance`]). The deputy may be stopped as soon as the body stands still
//! ([`early_stop`]). [`receive`] takes the image and the pages; [`arrival`] passes the commit
//! point; [`memory_group`] does both for processes that share memory; [`postcopy`] brings the pages
//! that follow.
//!
//! Within `migration` this imports the session and what all directions share.

mod advance;
mod arrival;
mod early_stop;
mod known_memories;
mod memory_group;
mod postcopy;
mod precopy;
mod prelaid;
mod receive;

use crate::migration::error::MoveError;
use crate::migration::inbound::known_memories::KnownMemories;
use crate::migration::session::{MigrationSession, TRIES_MAX, must_be_away};
use crate::room::event::RoomEvent;
use crate::room::progress::MoveProgress;
use crate::room::state::Room;
use control_protocol::moves::{HopReport, How, MoveOptions};
use migration_plan::protocol::{HomeCommand, Side};
use os::awake::Awake;
use room_protocol::ToRoom;
use room_protocol::message::{Family, onward};
use std::sync::Arc;

/// Why a process comes home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The process waits for a call that only home can serve.
    HomeCall,
    /// A user, or the policy, wants the process at home.
    Wished,
    /// The process is to go on to another node. A process that shares memory stays: such processes
    /// can only move home, and only as a group.
    Alone,
}

impl Why {
    pub fn must_come(self) -> bool {
        self == Why::HomeCall
    }

    fn family(self) -> Family {
        if self == Why::Alone { Family::Stays } else { Family::Comes }
    }
}

/// Brings process `pid` home.
pub fn run(
    room: &Arc<Room>,
    pid: i32,
    options: MoveOptions,
    why: Why,
    progress: Arc<MoveProgress>,
) -> Result<HopReport, MoveError> {
    must_be_away(room, pid)?;
    let this = MigrationSession::begin(room, pid, Side::Room, options.pace, progress)?;
    // The rest comes in any case.
    if options.how != How::Post {
        this.offer_leftover();
    }
    let mut come = this.come(options, why);
    for _ in 1..TRIES_MAX {
        if come.as_ref().is_err_and(MoveError::is_retryable) && this.has_stayed() {
            this.timings.borrow_mut().again();
            come = this.come(options, why);
        }
    }
    come
}

impl MigrationSession {
    fn come(&self, options: MoveOptions, why: Why) -> Result<HopReport, MoveError> {
        // A process that waits for the moved one gains nothing by a shorter stop.
        let ahead = if why.must_come() { None } else { self.come_ahead(options)? };
        if !why.must_come()
            && !matches!(options.how, How::Stop | How::Flush)
            && let Err(e) = self.come_in_advance(options.pace)
        {
            self.room.tell(&ToRoom::Onward { pid: self.pid, order: onward::Order::Enough });
            ahead.into_iter().for_each(|ahead| ahead.laid.undo());
            return Err(e);
        }
        let follow_bytes = self.follow_bytes("home", options);
        // The part that comes at once takes long, and nobody waits for microseconds.
        let awake = ahead.is_some().then(Awake::now);
        self.hold_signals();
        let (pid, pace, family) = (self.pid, options.pace, why.family());
        let (ticket, course) = (ahead.as_ref().map(|ahead| ahead.ticket), ahead.as_ref().map(|ahead| ahead.course));
        let recall = ToRoom::Recall { pid, follow_bytes, pace, onward: false, ahead: ticket, family };
        self.decide(HomeCommand::Recall, &recall)?;
        let mut known = KnownMemories::default();
        let received = self.receive(why.must_come(), ahead.map(|ahead| ahead.laid), &mut known);
        match received.and_then(|received| self.go_together(received, &mut known, options.pace, why.must_come())) {
            Ok((rest, others)) => {
                drop(awake);
                os::fault::past("home");
                let follows = rest.is_some();
                let alone = match (follows, others.is_empty()) {
                    (true, _) => "post",
                    (false, true) => "stop",
                    (false, false) => memory_group::TOGETHER,
                };
                let how = course.filter(|_| others.is_empty()).map_or_else(|| alone.to_owned(), |c| c.how(follows));
                let with = others.iter().map(|other| other.pid).collect();
                let received = rest.map_or(Ok(()), |pager| self.receive_rest(&pager));
                self.leave_room()?;
                for other in others {
                    other.leave_room()?;
                }
                self.done("leave");
                received?;
                Ok(HopReport { with, ..self.report("home", &how) })
            }
            Err(e) => {
                self.stay()?;
                Err(e)
            }
        }
    }

    /// Has the room forget a process that is home.
    fn leave_room(&self) -> Result<(), MoveError> {
        self.decide(HomeCommand::Release, &ToRoom::Release { pid: self.pid })?;
        // Its number is free there when this is told; until then it could not go there again.
        let _ = self.expect(|heard| matches!(heard, RoomEvent::Left).then_some(Ok(())));
        Ok(())
    }
}
