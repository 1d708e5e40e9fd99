//! How soon a process is killed for want of memory (oom_score_adj in proc_pid(5)): a program sets
//! it at home, where its deputy has it and from where children have it. The hosting kernel follows
//! as far as guests are killed no later for it than its owner's programs.

use crate::files::proc::{ProcRequest, Served};
use crate::state::files::proc::place;
use crate::state::files::proc::table::Step;
use crate::state::oom_score::endanger;
use crate::state::shared::Shared;
use homefs::proto::{OpenIn, SetattrIn, WriteIn, WriteOut, fattr};
use room_protocol::ToHome;
use room_protocol::message::Look;

/// Home has written, and says what the file holds now.
pub fn written(room: &Shared, unique: u64, step: Step, out: &[u8]) {
    let Step::Written(pid, bytes) = step else { return };
    let value = std::str::from_utf8(out).ok().and_then(|text| text.trim().parse().ok());
    if let (Some(host), Some(thousandths)) = (room.guests().host(pid), value) {
        endanger(host, thousandths);
    }
    room.proc.device.value(unique, &WriteOut { size: bytes as u32, padding: 0 });
}

impl ProcRequest<'_> {
    pub fn opens_for_writing(&self) -> Result<bool, i32> {
        let open: OpenIn = self.request.args().take().map_err(|_| libc::EPROTO)?;
        Ok(open.flags as i32 & libc::O_ACCMODE != libc::O_RDONLY)
    }

    /// A file of /proc has no size that changes, but whoever opens it may say that it is to be
    /// empty (O_TRUNC).
    pub fn change(&self) -> Served {
        let wanted: SetattrIn = self.request.args().take().map_err(|_| libc::EPROTO)?;
        let path = self.path()?;
        match place::is_killed_by(&path) {
            Some(_) if wanted.valid & (fattr::MODE | fattr::UID | fattr::GID) == 0 => {
                let id = self.request.header.nodeid;
                self.ask(path, Look::Node, Step::Attributes(id))
            }
            _ => Err(libc::EPERM),
        }
    }

    pub fn write(&self) -> Served {
        let mut args = self.request.args();
        let write: WriteIn = args.take().map_err(|_| libc::EPROTO)?;
        let bytes = args.bytes(write.size as usize).map_err(|_| libc::EPROTO)?.to_vec();
        let path = self.path()?;
        let pid = place::is_killed_by(&path).ok_or(libc::EACCES)?;
        let step = Step::Written(pid, bytes.len());
        self.write_at_home(path, bytes, step)
    }

    pub fn write_at_home(&self, path: Vec<u8>, bytes: Vec<u8>, step: Step) -> Served {
        self.expect(step, |id, pid| ToHome::WriteProc { id, pid, path, bytes })
    }
}
