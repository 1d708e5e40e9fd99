//! The commit point of a way out: the original becomes the deputy, and the body runs in the room.

use crate::deputy::implant::{self, Implant};
use crate::deputy::job::{Job, Purpose};
use crate::deputy::proof::DeputyProof;
use crate::deputy::record::{Deputy, Phase};
use crate::deputy::{channel, rights};
use crate::describe::place;
use crate::describe::snapshot::ProcessSnapshot;
use crate::migration::error::MoveError;
use crate::migration::outbound::departure::{Leaving, put_back};
use crate::migration::outbound::edges::Since;
use crate::migration::session::MigrationSession;
use crate::room::event::RoomEvent;
use crate::room::orders::Order;
use checkpoint::{BodyError, Collected};
use migration_plan::protocol::HomeCommand;
use os::pidfd::PidFd;
use os::process_identity::ProcessIdentity;
use room_protocol::ToRoom;
use room_protocol::message::{Place, Program};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc;

/// An original whose deputy is ready, before the commit point.
pub struct ReadyDeputy {
    /// The descriptors and memory of the process.
    now: ProcessSnapshot,
    collected: Collected,
    implanted: Implant,
    /// Flags of stand-ins that have changed since the body was made.
    flags: Option<ToRoom>,
    /// Signals that the process ignores (bit n-1 for signal n).
    ignored: u64,
    child_flags: u64,
    was_stopped: bool,
}

impl MigrationSession {
    /// Makes the original ready to be the deputy while the room rebuilds the body; then commits.
    /// `kept` is the memory whose pages follow. On failure the process runs where it was.
    pub fn hand_over(
        &self,
        pidfd: &PidFd,
        leaving: Leaving,
        kept: &[(u64, u64)],
        since: &Since,
    ) -> Result<(), MoveError> {
        let ready = self.prepare_deputy(pidfd, leaving, kept)?;
        if let Err(e) = self.await_rebuilt(&ready) {
            return self.take_back(ready, e);
        }
        self.commit(&ready, since)?;
        self.become_deputy(pidfd, ready, kept)
    }

    /// Makes the original ready to be the deputy. On failure the process runs where it was.
    pub fn prepare_deputy(
        &self,
        pidfd: &PidFd,
        leaving: Leaving,
        kept: &[(u64, u64)],
    ) -> Result<ReadyDeputy, MoveError> {
        let Leaving { now, place, mut collected, ignored, was_stopped } = leaving;
        const SIGCHLD: usize = libc::SIGCHLD as usize - 1;
        let child_flags = collected.process.actions.get(SIGCHLD).map_or(0, |a| a[1])
            & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
        let (implanted, channels) =
            match implant::implant(pidfd, &mut collected, now.areas(), ignored, !kept.is_empty()) {
                Ok(implanted) => implanted,
                Err(e) => return put_back(collected, e.into()),
            };
        self.done("implant");
        let flags = place::changed_flags(self.pid, &place.descriptors).unwrap_or_default();
        let adopted = self.adopt(&place, channels, !kept.is_empty());
        let ready = ReadyDeputy { now, collected, implanted, flags, ignored, child_flags, was_stopped };
        match adopted {
            Ok(()) => Ok(ready),
            Err(e) => self.take_back(ready, e),
        }
    }

    /// Lets the original go on where it was, because of this error.
    pub fn take_back<T>(&self, ready: ReadyDeputy, e: MoveError) -> Result<T, MoveError> {
        let ReadyDeputy { mut collected, implanted, .. } = ready;
        self.dismiss();
        implanted.withdraw(&mut collected)?;
        put_back(collected, e)
    }

    /// The commit point: lets the body run. From here on only the end of the process can undo it.
    pub fn commit(&self, ready: &ReadyDeputy, since: &Since) -> Result<(), MoveError> {
        if ready.was_stopped {
            // As a deputy it stops again before it does anything; so does its body.
            self.room.table().deputies.get_mut(&self.pid).into_iter().for_each(|d| d.stopped = true);
            self.room.tell(&ToRoom::Stop { pid: self.pid });
        }
        ready.flags.iter().for_each(|flags| self.room.tell(flags));
        since.tell_missed(&self.room);
        self.decide(HomeCommand::Resume, &ToRoom::Resume { pid: self.pid })
    }

    /// Lets the original go on as the deputy of the body, which runs.
    pub fn become_deputy(&self, pidfd: &PidFd, ready: ReadyDeputy, kept: &[(u64, u64)]) -> Result<(), MoveError> {
        let ReadyDeputy { now, collected, implanted, ignored, child_flags, was_stopped, .. } = ready;
        self.mapped_there();
        self.room.return_rights(self.pid);
        os::fault::past("committed");
        if let Err(e) = implanted.go(collected, kept, &now.written(), was_stopped) {
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

    /// Waits until the room has rebuilt the body. An error if it has not, or if the process has
    /// changed meanwhile.
    pub fn await_rebuilt(&self, ready: &ReadyDeputy) -> Result<(), MoveError> {
        let holds = ready.now.still_holds(self.pid, &self.sharing.borrow())?;
        self.done("look again");
        self.expect(|heard| match heard {
            RoomEvent::Rebuilt(result) => Some(result),
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
                Ok(RoomEvent::Runs(then)) => return self.timings.borrow_mut().thaw(then),
                Ok(_) => {}
                Err(e) => return tracing::warn!("process {}: {e}", self.pid),
            }
        }
    }

    fn deputy(&self, place: &Place, channels: Vec<(i32, OwnedFd)>) -> Result<Deputy, MoveError> {
        let mut channels: HashMap<i32, OwnedFd> = channels.into_iter().collect();
        let first = channels.remove(&self.pid).ok_or(BodyError::Exited)?;
        let Program { path, argv, envp } = place.program.clone();
        let program = Program { path, argv, envp };
        let proof = DeputyProof::of_coming(ProcessIdentity::of(self.pid)?);
        let mut deputy = Deputy::new(PidFd::open(self.pid)?, proof, program, first);
        deputy.phase = Phase::Away;
        deputy.credentials = rights::credentials(self.pid)?;
        for descriptor in &place.descriptors {
            deputy.standins.entry(descriptor.standin).or_default().push(descriptor.fd);
        }
        channels.into_iter().for_each(|(tid, channel)| deputy.add_thread(tid, channel, None));
        Ok(deputy)
    }
}
