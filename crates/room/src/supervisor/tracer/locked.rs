//! A body that leaves, and has files open that may have locks of their own: home is told which they
//! are ([`crate::state::file_locks`]).

use crate::state::home_mounts::HomeFiles;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::injected::with_inside;
use crate::supervisor::tracer::state::departing::DepartureState;
use checkpoint::BodyError;
use os::ptrace::HostTid;
use room_protocol::message::LockedFile;

impl Tracer {
    /// Looks for those of a body that stands still, once.
    pub fn find_locked(&mut self, pid: i32) -> Result<(), BodyError> {
        let Some(DepartureState::Standing(threads, going)) = self.departing.states.get_mut(&pid) else { return Ok(()) };
        if going.locked.is_some() {
            return Ok(());
        }
        going.locked = Some(Vec::new());
        let Some(host) = self.room.guests().host(pid).filter(|_| !self.room.locked.is_empty()) else { return Ok(()) };
        let files = files_of_home(host)?;
        let at = threads.iter().position(|t| t.tid() == host).ok_or(BodyError::Exited)?;
        let slept = going.slept.get(&host.0).copied().unwrap_or_default();
        let stopped = threads.swap_remove(at);
        let (room, mut found) = (self.room.clone(), Vec::new());
        let (stopped, looked) = with_inside(stopped, slept, |inside, _| {
            for fd in files {
                let sync = || inside.call(libc::SYS_fdatasync, [fd as u64, 0, 0, 0, 0, 0]).map(drop);
                let told = room.locked.told_by(pid as u32, sync)?;
                found.extend(told.map(|at_home| LockedFile { fd, at_home }));
            }
            Ok(())
        })?;
        if let Some(DepartureState::Standing(threads, going)) = self.departing.states.get_mut(&pid) {
            threads.push(stopped);
            going.locked = Some(found);
            looked?;
            if going.onward.is_some() && going.locked.as_ref().is_some_and(|locked| !locked.is_empty()) {
                return Err(BodyError::NotMigratable("it has locked a file while it was away: it goes by home".into()));
            }
        }
        Ok(())
    }
}

/// Descriptors that are open on files that home's server has open.
fn files_of_home(host: HostTid) -> Result<Vec<i32>, BodyError> {
    let home = HomeFiles::of(host)?;
    let mut found = Vec::new();
    for fd in os::process::descriptors(host.0)? {
        let info = os::process::fd_info(host.0, fd)?;
        let is_named_only = info.flags & (libc::O_PATH | libc::O_DIRECTORY) != 0;
        if home.mounts.contains(&info.mount_id) && !is_named_only {
            found.push(fd);
        }
    }
    Ok(found)
}
