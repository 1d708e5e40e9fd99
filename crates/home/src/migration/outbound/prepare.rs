//! Has the room make an empty body for a process that still runs at home.

use crate::describe::room_names::RoomNames;
use crate::describe::snapshot::ProcessSnapshot;
use crate::describe::{confinement, place};
use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use checkpoint::BodyError;
use os::pidfd::PidFd;
use os::process_identity::ProcessIdentity;
use os::superuser;
use room_protocol::ToRoom;
use room_protocol::message::{Place, StandinId};

/// A body that waits in the room for its image.
pub struct Prepared {
    /// Descriptors and memory of the process when the body was made.
    pub observed: ProcessSnapshot,
    /// The description of the process that the room has.
    pub place: Place,
}

impl MigrationSession {
    /// Has the room make an empty body. `observed`: what the process holds, if it is known already.
    pub fn prepare(&self, observed: Option<ProcessSnapshot>) -> Result<Prepared, MoveError> {
        os::fault::at("prepare")?;
        self.check_rights()?;
        let observed = match observed {
            Some(observed) => observed,
            None => ProcessSnapshot::of_running(self.pid, false, &self.sharing.borrow())?,
        };
        self.reserve_mapped(&observed).inspect_err(|_| self.mapped_here())?;
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
        let names = RoomNames::of_removed(self.room.link.files(), self.pid, &observed.files, &observed.removed())?;
        let place = observed.place(self.pid, &standins, &names)?;
        self.check_rights()?;
        self.hold_watched(&observed, &standins)?;
        self.room.borrow_rights(self.pid)?;
        self.room.tell(&ToRoom::Place(Box::new(place.clone())));
        if let Err(e) = self.await_placed() {
            self.call_off();
            return Err(self.retryable_if_changed(e, &observed));
        }
        Ok(Prepared { observed, place })
    }

    /// Why no body could be made for what was observed: a file may have been closed or removed
    /// meanwhile, or name and flags are those of two files that had the same number one after the
    /// other.
    fn retryable_if_changed(&self, e: MoveError, observed: &ProcessSnapshot) -> MoveError {
        match (e, ProcessSnapshot::of_running(self.pid, false, &self.sharing.borrow())) {
            (MoveError::Room(why), Ok(now)) if !now.is_served_by(observed) => MoveError::Retryable(why),
            (e, _) => e,
        }
    }

    /// What the process watches, the body asks about as soon as it watches it again: before it has
    /// a deputy.
    fn hold_watched(&self, observed: &ProcessSnapshot, standins: &[(i32, StandinId)]) -> Result<(), MoveError> {
        let pidfd = PidFd::open(self.pid)?;
        for (fd, standin) in standins.iter().filter(|(fd, _)| observed.watches(*fd)) {
            self.room.hold(*standin, pidfd.get_fd(*fd)?);
        }
        Ok(())
    }

    /// Checks that the process is still that of the user who wants it and of the user whose room it
    /// is, that it may have its rights there, and that it is in no sandbox: under its number a
    /// program may run by now that gives rights, or has given some up for good.
    pub fn check_rights(&self) -> Result<(), BodyError> {
        confinement::refuse(self.pid)?;
        let identity = ProcessIdentity::of(self.pid)?;
        if !identity.belongs_to(self.asker_uid.get()) {
            let why = "it runs, or ran, a program with other rights than those of the user who wants it moved";
            return Err(BodyError::NotMigratable(why.into()));
        }
        self.room.args.check_owner(self.pid, &identity.uid[..3]).map_err(BodyError::NotMigratable)?;
        match superuser::power_of(self.pid)? {
            Some(power) if !self.as_root.get() => Err(BodyError::NotMigratable(format!(
                "it has root's rights ({power}), and the node is not trusted with them"
            ))),
            _ => Ok(()),
        }
    }
}
