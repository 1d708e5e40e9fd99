//! Descriptors that look as at home to fstat(2) and its kin, and to lseek(2).
//!
//! To the room's kernel a stand-in is a regular file. The guests' filter has home asked for the attributes of descriptors 0 to 2; for all others that would make
//! every fstat dear. So a process gets a small filter more when it gets the first other stand-in that is no file ([`systable::filter::attributes`]), and one for each
//! file of home's, for its offset ([`systable::filter::shown`]): the call stops here, is marked if it is about a stand-in, and goes on to the listener of the first filter,
//! which the mark tells to have the warden answer it. A second filter can have no listener of its own (seccomp(2), EBUSY).

use super::Tracer;
use crate::warden::shared::Shared;
use os::inject::Inside;
use os::ptrace::{HostTid, Stopped, TraceError};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use systable::filter;

/// The most filters for files that a process gets: every one costs every call some nanoseconds.
const MAX: usize = 32;

/// Threads that are made to make seccomp(2) or userfaultfd(2), about which the guests' filter asks too: to install a filter, to be answered by a descriptor, to be watched.
#[derive(Debug, Default)]
pub struct Filtering(Mutex<HashMap<HostTid, Option<Arc<OwnedFd>>>>);

impl Filtering {
    fn lock(&self) -> MutexGuard<'_, HashMap<HostTid, Option<Arc<OwnedFd>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this thread may.
    pub fn begin(&self, host: HostTid) {
        self.lock().insert(host, None);
    }

    /// From now on this file is the answer.
    pub fn offer(&self, host: HostTid, file: Arc<OwnedFd>) {
        self.lock().insert(host, Some(file));
    }

    /// What the thread is to be answered.
    pub fn offered(&self, host: HostTid) -> Option<Arc<OwnedFd>> {
        self.lock().get(&host).cloned().flatten()
    }

    /// It may no more.
    pub fn end(&self, host: HostTid) {
        self.lock().remove(&host);
    }

    /// Whether it may.
    pub fn may(&self, host: HostTid) -> bool {
        self.lock().contains_key(&host)
    }
}

impl crate::warden::guests::Guests {
    /// A descriptor of this process is to look as at home; `true` if that needs a filter that it has not.
    pub fn show(&mut self, pid: i32, fd: i32) -> bool {
        fd > libc::STDERR_FILENO && self.get_mut(pid).is_some_and(|g| g.shown.len() < MAX && g.shown.insert(fd))
    }

    /// The filters of a process that comes: for all files of home's that there is room for, and for the attributes of all its descriptors, if it has others. (Calls about
    /// other things cost no more for it: filters that allow a call by its number alone are asked once for all.)
    pub fn show_all(&mut self, pid: i32) -> Vec<Vec<u8>> {
        let Some(guest) = self.get_mut(pid) else { return Vec::new() };
        let fds = guest.began_with.iter().copied().take(MAX);
        guest.shown = fds.clone().collect();
        fds.map(program).chain(guest.shows_attributes.then(attributes)).collect()
    }

    /// It has the filter for the attributes of all its descriptors; whether it had not.
    fn shows_attributes(&mut self, pid: i32) -> bool {
        self.get_mut(pid).is_some_and(|guest| !std::mem::replace(&mut guest.shows_attributes, true))
    }

    /// It has got no filter.
    pub fn hide(&mut self, pid: i32, fd: i32) {
        if let Some(guest) = self.get_mut(pid) {
            guest.shown.remove(&fd);
        }
    }
}

/// The filter for a descriptor, as it lies in memory.
pub fn program(fd: i32) -> Vec<u8> {
    as_bytes(&filter::shown(fd as u32))
}

/// The filter for the attributes of all descriptors, likewise.
fn attributes() -> Vec<u8> {
    as_bytes(&filter::attributes())
}

fn as_bytes(program: &[filter::Insn]) -> Vec<u8> {
    let bytes = |i: &filter::Insn| [&i.code.to_le_bytes()[..], &[i.jt, i.jf], &i.k.to_le_bytes()].concat();
    program.iter().flat_map(bytes).collect()
}

/// `struct sock_fprog` of this filter, if it lies there: count, then address.
pub fn head(program: &[u8], at: u64) -> [u8; HEAD_BYTES] {
    const INSN_BYTES: usize = size_of::<filter::Insn>();
    let mut head = [0; HEAD_BYTES];
    head[0] = (program.len() / INSN_BYTES) as u8;
    head[8..].copy_from_slice(&at.to_le_bytes());
    head
}

const HEAD_BYTES: usize = 16;

/// Installs a filter; what the kernel said. `at`: where nothing of the process' own lies.
pub fn install(inside: &mut Inside, at: u64, program: &[u8]) -> Result<i64, TraceError> {
    inside.memory().write(at, &head(program, at + HEAD_BYTES as u64))?;
    inside.memory().write(at + HEAD_BYTES as u64, program)?;
    let (nr, args) = os::seccomp::install_more_call(at);
    inside.call(nr, args)
}

/// Has home asked for the attributes of a process' descriptors from now on, if it is not already; what the kernel said. The thread may install filters.
pub fn show_attributes(room: &Shared, inside: &mut Inside, at: u64, pid: i32) -> Result<i64, TraceError> {
    if room.guests().shows_attributes(pid) { install(inside, at, &attributes()) } else { Ok(0) }
}

/// The call is one for the attributes of a descriptor or its offset, which only [`install`]ed filters stop.
pub fn is_about_descriptor(call: u64) -> bool {
    matches!(call as i64, libc::SYS_fstat | libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_lseek)
}

impl Tracer {
    /// Hands a call about a stand-in on to the warden: the mark goes with its descriptor, of which the kernel takes the lower half. All others the kernel answers.
    pub fn mark_descriptor(&mut self, mut stopped: Stopped) -> Result<(), TraceError> {
        let mut registers = stopped.registers()?;
        if !self.room.stands_in(stopped.tid(), registers.rdi as i32) {
            return stopped.resume(0);
        }
        self.births.rewritten(stopped.tid(), registers);
        registers.rdi = registers.rdi & u64::from(u32::MAX) | u64::from(filter::MARK) << 32;
        stopped.set_registers(&registers)?;
        stopped.resume_to_call_end()
    }
}

#[cfg(test)]
mod tests {
    use crate::warden::guests::{Guest, Guests};
    use wire::message::{Descriptor, StandinId};

    /// Failed before: of one open file only one number looked as at home, and that was the deputy's.
    #[test]
    fn every_file_is_shown_and_attributes_if_there_is_more() {
        let (file, pipe) = (StandinId(3).of_file(), StandinId(4));
        let descriptor = |(fd, standin)| {
            let (terminal, timed, end) = (false, false, None);
            Descriptor { fd, at_home: fd + 10, standin, flags: 0, terminal, timed, offset: 0, end }
        };
        let mut guests = Guests::default();
        let files: Vec<_> = [(0, pipe), (5, file), (6, file), (9, file)].map(descriptor).into();
        guests.add(7, Guest::new(&files, 0, 0));
        assert_eq!(guests.show_all(7), [5, 6, 9].map(super::program));
        assert_eq!((guests.show(7, 6), guests.show(7, 2), guests.show(7, 8)), (false, false, true));
        assert_eq!((guests.shows_attributes(7), guests.shows_attributes(7)), (true, false));
        guests.add(8, Guest::new(&[descriptor((3, pipe))], 0, 0));
        assert_eq!(guests.show_all(8), [super::attributes()]);
        assert!(!guests.shows_attributes(8));
    }
}
