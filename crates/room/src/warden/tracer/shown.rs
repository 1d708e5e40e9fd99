//! Descriptors that look as at home to fstat(2) and its kin, and to lseek(2).
//!
//! To the room's kernel a stand-in is a regular file. The guests' filter has home asked for the attributes of descriptors 0 to 2; for all others that would make
//! every fstat dear. So a process that asks whether another descriptor is a terminal gets a filter more, for that one alone ([`systable::filter::shown`]): the call
//! stops here, is marked, and goes on to the listener of the first filter, which the mark tells to have the warden answer it. A second filter can have no listener
//! of its own (seccomp(2), EBUSY).

use super::Tracer;
use os::inject::Inside;
use os::ptrace::{HostTid, Stopped, TraceError};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use systable::filter;

/// The most filters that a process gets: every one costs every call some nanoseconds.
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

    /// Stand-ins of a process that comes: it may have looked at what they are before, so it looks at all that there is room for, at terminals first. (Calls about other
    /// things cost no more for it: filters that allow a call by its number alone are asked once for all.)
    pub fn show_all(&mut self, pid: i32) -> Vec<i32> {
        let Some(guest) = self.get_mut(pid) else { return Vec::new() };
        let above = guest.began_with.iter().copied().filter(|fd| *fd > libc::STDERR_FILENO);
        let fds: Vec<i32> = above.take(MAX).collect();
        guest.shown = fds.iter().copied().collect();
        fds
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
    let bytes = |i: &filter::Insn| [&i.code.to_le_bytes()[..], &[i.jt, i.jf], &i.k.to_le_bytes()].concat();
    filter::shown(fd as u32).iter().flat_map(bytes).collect()
}

/// `struct sock_fprog` of a filter that lies there: count, then address.
pub fn head(program: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0] = filter::shown(0).len() as u8;
    head[8..].copy_from_slice(&program.to_le_bytes());
    head
}

const HEAD_BYTES: usize = 16;

/// Installs the filter for a descriptor; what the kernel said. `at`: where nothing of the process' own lies.
pub fn install(inside: &mut Inside, at: u64, fd: i32) -> Result<i64, TraceError> {
    inside.memory().write(at, &head(at + HEAD_BYTES as u64))?;
    inside.memory().write(at + HEAD_BYTES as u64, &program(fd))?;
    let (nr, args) = os::seccomp::install_more_call(at);
    inside.call(nr, args)
}

/// The call is one for the attributes of a descriptor or its offset, which only [`install`]ed filters stop.
pub fn is_about_descriptor(call: u64) -> bool {
    matches!(call as i64, libc::SYS_fstat | libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_lseek)
}

impl Tracer {
    /// Hands the call on to the warden: the mark goes with its descriptor, of which the kernel takes the lower half.
    pub fn mark_descriptor(&mut self, mut stopped: Stopped) -> Result<(), TraceError> {
        let mut registers = stopped.registers()?;
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
    fn every_number_is_shown() {
        let (file, pipe) = (StandinId(3).of_file(), StandinId(4));
        let descriptor = |(fd, standin)| {
            let (terminal, timed, end) = (false, false, None);
            Descriptor { fd, at_home: fd + 10, standin, flags: 0, terminal, timed, offset: 0, end }
        };
        let mut guests = Guests::default();
        let descriptors: Vec<_> = [(0, pipe), (3, pipe), (5, file), (6, file), (9, file)].map(descriptor).into();
        guests.add(7, Guest::new(&descriptors, 0, 0));
        assert_eq!(guests.show_all(7), [5, 6, 9, 3]);
        assert_eq!((guests.show(7, 6), guests.show(7, 2), guests.show(7, 8)), (false, false, true));
    }
}
