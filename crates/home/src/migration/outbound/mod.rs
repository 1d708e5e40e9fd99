//! From home to the room.
//!
//! The room makes an empty body while the process still runs ([`prepare`]), and pages may go ahead
//! ([`precopy`]). Then the session stops the process, sends what is left ([`departure`]), and while
//! the room rebuilds the body, the original is made ready to be its deputy ([`commit`]). Pages that
//! follow are lent by the deputy ([`postcopy`]); [`edges`] keeps what epoll instances have told.
//! Processes that share memory leave together ([`group`]).
//!
//! Within `migration` this imports the session and what all directions share.

mod commit;
mod departure;
mod edges;
mod group;
mod postcopy;
mod precopy;
mod prepare;

use crate::migration::error::MoveError;
use crate::migration::outbound::departure::Terms;
use crate::migration::outbound::prepare::Prepared;
use crate::migration::session::{MigrationSession, TRIES_MAX, has_ended};
use crate::room::event::RoomEvent;
use crate::room::progress::MoveProgress;
use crate::room::state::Room;
use checkpoint::{Ahead, BodyError, Headstart};
use control_protocol::moves::{HopReport, How, MoveOptions};
use migration_plan::protocol::{HomeCommand, Side};
use migration_plan::{Rounds, Way};
use os::landlock_probe;
use os::pages::Own;
use os::pidfd::PidFd;
use room_protocol::ToRoom;
use room_protocol::message::onward::Sibling;
use std::rc::Rc;
use std::sync::Arc;

/// A request to move a process out of home.
#[derive(Clone, Debug)]
pub struct OutwardRequest {
    /// How its memory shall go.
    pub options: MoveOptions,
    /// The user who wants it; 0: root, or the policy.
    pub asker_uid: u32,
    /// A process of another room with the same memory.
    pub sibling: Option<Sibling>,
}

/// After so many tries in vain all is looked at anew when it stands still: it takes longer, but
/// nobody new can have come from it meanwhile.
const TRIES_QUICK: usize = 2;

/// Moves process `pid` to the room.
pub fn run(
    room: &Arc<Room>,
    pid: i32,
    request: OutwardRequest,
    progress: Arc<MoveProgress>,
) -> Result<HopReport, MoveError> {
    if room.table().deputies.contains_key(&pid) {
        return Err(MoveError::Moving);
    }
    let OutwardRequest { options, asker_uid, sibling } = request;
    // The memory is home's already.
    let options = if options.how == How::Flush { MoveOptions { how: How::Post, ..options } } else { options };
    let this = Rc::new(MigrationSession::begin(room, pid, Side::Home, options.pace, progress)?);
    this.asker_uid.set(asker_uid);
    this.sibling.replace(sibling);
    this.as_root.set(options.as_root);
    let pidfd = PidFd::open(pid).map_err(|e| if has_ended(pid) { BodyError::Exited } else { e.into() })?;
    let mut moved = this.go_out(&pidfd, options, false);
    for tried in 1..TRIES_MAX {
        if moved.as_ref().is_err_and(MoveError::is_retryable) && !has_ended(pid) {
            this.timings.borrow_mut().again();
            moved = this.go_out(&pidfd, options, tried >= TRIES_QUICK);
        }
    }
    if let Err(MoveError::Body(BodyError::SharesMemory(_))) = moved
        && !options.alone
    {
        moved = go_together(&this, options);
    }
    // Whatever could not be read of it then has its reason in this.
    moved.map_err(|e| if has_ended(pid) { BodyError::Exited.into() } else { e })
}

/// Moves the process, and those with which it shares memory.
fn go_together(this: &Rc<MigrationSession>, options: MoveOptions) -> Result<HopReport, MoveError> {
    let mut left = group::leave_together(this, options.pace, false);
    for tried in 1..TRIES_MAX {
        if left.as_ref().is_err_and(MoveError::is_retryable) && !has_ended(this.pid) {
            this.timings.borrow_mut().again();
            left = group::leave_together(this, options.pace, tried >= TRIES_QUICK);
        }
    }
    let others = left?;
    let mut report = this.report(&this.room.args.host, group::TOGETHER);
    for other in &others {
        tracing::info!("process {} left with process {}: they share memory", other.pid, this.pid);
        let theirs = other.report(&this.room.args.host, group::TOGETHER);
        report.page_bytes += theirs.page_bytes;
        report.frozen_bytes += theirs.page_bytes;
    }
    report.with = others.iter().map(|other| other.pid).collect();
    Ok(report)
}

impl MigrationSession {
    fn go_out(&self, pidfd: &PidFd, options: MoveOptions, carefully: bool) -> Result<HopReport, MoveError> {
        let probe = landlock_probe::is_needed()
            .then(|| self.room.watchdog.witness(&os::process::status(self.pid)?))
            .transpose()?;
        let mut prepared = self.prepare(None)?;
        self.done("prepare");
        let ahead = match self.precopy_if_wanted(pidfd, &prepared, options) {
            Err(MoveError::Body(e)) if options.how == How::Auto => {
                tracing::info!("process {} goes without pre-copy: {e}", self.pid);
                // Another body: this one may have some of its pages.
                self.call_off();
                prepared = self.prepare(None)?;
                Ok(None)
            }
            other => other,
        };
        let follow_bytes = self.follow_bytes(&self.room.args.host, options);
        let headstart = ahead.map(|ahead| Headstart::of(self.pid, ahead));
        let terms = Terms { pidfd, follow_bytes, carefully, probe: probe.as_ref() };
        let left = headstart.and_then(|ahead| self.leave(prepared, ahead, &terms));
        let how = left.inspect_err(|_| self.call_off())?;
        Ok(self.report(&self.room.args.host, &how))
    }

    /// Pre-copy, if it is wanted, or needed for the bound. Where the kernel cannot tell who writes
    /// what, `auto` does without.
    fn precopy_if_wanted(
        &self,
        pidfd: &PidFd,
        prepared: &Prepared,
        options: MoveOptions,
    ) -> Result<Option<Ahead>, MoveError> {
        let areas = prepared.observed.image().areas;
        let own_bytes = checkpoint::filled_bytes(self.pid, &Own::of(self.pid)?, &areas)?;
        let parts = prepared.observed.parts(self.pid);
        let costs = |how| self.room.sessions.costs(&self.room.args.host, how, parts).limited(options.pace.rate);
        let chosen = costs("stop").choose(own_bytes, options.max_freeze_us);
        let rounds = || Rounds::new(own_bytes, options.max_freeze_us, costs("pre"));
        match (options.how, chosen) {
            (How::Stop, _) | (How::Auto, Way::Stop) => self.lay_out_there(&prepared.observed).map(|()| None),
            (How::Post | How::Flush, _) => self.send_files(&prepared.observed),
            (How::Auto, Way::Copy) => self.send_copy(&prepared.observed, rounds()),
            (How::Auto, Way::Pre) | (How::Pre, _) => Ok(Some(self.send_ahead(pidfd, &prepared.observed, rounds())?)),
        }
    }

    /// Has the room remove the body that was prepared.
    pub fn call_off(&self) {
        self.mapped_here();
        self.stocked.borrow_mut().clear();
        self.room.return_rights(self.pid);
        if self.decide(HomeCommand::Release, &ToRoom::Release { pid: self.pid }).is_err() {
            return;
        }
        let _ = self.expect(|heard| matches!(heard, RoomEvent::Left).then_some(Ok(())));
    }
}
