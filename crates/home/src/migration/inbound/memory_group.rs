//! Processes that share memory come home together: each deputy is filled while all the bodies stand
//! still in the room, and none goes on before all of them are put together. So until then all can
//! go back, and from then on nothing of the room is needed. The memory is made in the first deputy
//! that has it; the others map that.

use crate::deputy::record::Phase;
use crate::migration::error::{MoveError, stays_for};
use crate::migration::inbound::arrival::{Finished, Rest};
use crate::migration::inbound::known_memories::KnownMemories;
use crate::migration::inbound::receive::Received;
use crate::migration::session::MigrationSession;
use crate::restore::deputy_restore::DeputyRestore;
use crate::room::progress::MoveProgress;
use checkpoint::BodyError;
use migration_plan::Pace;
use migration_plan::protocol::{HomeCommand, Side};
use room_protocol::ToRoom;
use room_protocol::message::Family;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of this way in reports.
pub const TOGETHER: &str = "together";

/// How long another move of one of them may take to end: the room refuses it at once, for all stand
/// still.
const FREE_WITHIN: Duration = Duration::from_millis(500);

/// A process that came with another one.
type Other = (MigrationSession, DeputyRestore);

/// How all of a group come home.
struct GroupTerms {
    pace: Pace,
    /// The processes come for a call that only home can serve.
    must_come: bool,
}

impl MigrationSession {
    /// Lets the process go on at home once all of its group have come. Gives the pager of the pages
    /// that follow, and the sessions of the others.
    pub fn go_together(
        &self,
        received: Received,
        known: &mut KnownMemories,
        pace: Pace,
        must_come: bool,
    ) -> Result<(Rest, Vec<MigrationSession>), MoveError> {
        let Received { restore: mut filling, others } = received;
        let mut with = Vec::new();
        let ready = self
            .receive_others(&others, known, &GroupTerms { pace, must_come }, &mut with)
            .and_then(|()| Ok(self.make_ready(&mut filling)?))
            .and_then(|rest| {
                with.iter_mut().try_for_each(|(other, filling)| other.make_ready_alone(filling))?;
                Ok(rest)
            });
        let rest = match ready {
            Ok(rest) => rest,
            Err(e) => {
                let mut undone = filling.undo().map_err(MoveError::from);
                for (other, filling) in with {
                    undone = undone.and(filling.undo().map_err(MoveError::from)).and(other.stay());
                }
                return Err(undone.err().unwrap_or(e));
            }
        };
        self.arrive(&rest)?;
        // From here on each goes on, whatever becomes of the others and of the room.
        let arrived: Vec<_> = with.iter().map(|(other, _)| other.arrive(&None)).collect();
        let finished = self.finish(filling);
        let mut came = Vec::new();
        for ((other, filling), arrived) in with.into_iter().zip(arrived) {
            match arrived {
                Ok(()) => came.push((other.finish(filling), other)),
                Err(e) => tracing::error!("process {}, which came with {}: {e}", other.pid, self.pid),
            }
        }
        self.go(finished);
        os::fault::past("first of several");
        let go = |(finished, other): (Option<Finished>, MigrationSession)| {
            other.go(finished);
            tracing::info!("process {} came home with process {}: they share memory", other.pid, self.pid);
            other
        };
        Ok((rest, came.into_iter().map(go).collect()))
    }

    fn make_ready_alone(&self, filling: &mut DeputyRestore) -> Result<(), MoveError> {
        match self.make_ready(filling)? {
            None => Ok(()),
            Some(_) => Err(MoveError::Room("pages of several were to follow".into())),
        }
    }

    /// Fills the deputies of those that must come with it.
    fn receive_others(
        &self,
        others: &[i32],
        known: &mut KnownMemories,
        terms: &GroupTerms,
        with: &mut Vec<Other>,
    ) -> Result<(), MoveError> {
        let GroupTerms { pace, must_come } = *terms;
        for pid in others {
            os::fault::at("other")?;
            let other = self.begin_other(*pid, pace)?;
            other.hold_signals();
            let family = Family::With(self.pid);
            let recall = ToRoom::Recall { pid: *pid, follow_bytes: u64::MAX, pace, onward: false, ahead: None, family };
            other.decide(HomeCommand::Recall, &recall)?;
            match other.receive(must_come, None, known) {
                Ok(received) => with.push((other, received.restore)),
                Err(e) => {
                    other.stay()?;
                    return Err(stays_for(*pid, e));
                }
            }
            self.check_wanted()?;
        }
        Ok(())
    }

    /// Begins a session of another process of the group. Waits for a move of that process which the
    /// room has refused and which is about to end, but not for pages that follow.
    fn begin_other(&self, pid: i32, pace: Pace) -> Result<MigrationSession, MoveError> {
        let begun = Instant::now();
        loop {
            if self.room.table().deputies.get(&pid).is_none_or(|d| d.phase != Phase::Away) {
                // It has ended, most likely.
                return Err(stays_for(pid, BodyError::Retryable("it is not away".into()).into()));
            }
            match MigrationSession::begin(&self.room, pid, Side::Room, pace, Arc::<MoveProgress>::default()) {
                Err(e)
                    if e.is_momentary()
                        && begun.elapsed() < FREE_WITHIN
                        && !self.room.sessions.residue_pending(pid) =>
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                begun => return begun.map_err(|e| stays_for(pid, e)),
            }
        }
    }
}
