//! Descriptors that look as at home to fstat(2) and its kin, to fcntl(2) (F_GETFL), and to
//! lseek(2).
//!
//! To the room's kernel a stand-in is a regular file, opened for reading and writing. The guests'
//! filter has home asked for the attributes and flags of descriptors 0 to 2; for all others that
//! would make every fstat dear. So a process gets a small filter more for each stand-in that it
//! comes with, opens by a name, or gets in a message ([`systable::filter::shown`]), and one for all
//! descriptors before it makes or accepts one of which nobody knows the number yet, or has many
//! ([`systable::filter::attributes`]): the call stops here, is marked if it is about a stand-in,
//! and goes on to the listener of the first filter, which the mark tells to have the warden answer
//! it. A second filter can have no listener of its own (seccomp(2), EBUSY). Calls for a duplicate
//! of one that is shown, or of the first three, stop here, too: then the duplicate is shown.

use crate::sandbox::guest_memory;
use crate::state::device_numbers::{bytes_of, written_at};
use crate::state::orders::Which;
use crate::state::shared::Shared;
use crate::supervisor::tracer::Tracer;
use os::inject::Inside;
use os::ptrace::{HostTid, Stopped, TraceError};
use room_protocol::message::StandinId;
use systable::filter::{self, Number};

/// The most filters for single descriptors that a process gets: every one costs every call some
/// nanoseconds.
const MAX: usize = 32;

impl crate::state::guests::Guests {
    /// What this descriptor of the process needs to look as at home, if it does not: a filter for
    /// it alone, or, without a number and for one too many, for all.
    pub fn filter_for(&mut self, pid: i32, fd: Option<i32>, has_offset: bool) -> Option<Vec<u8>> {
        let guest = self.get_mut(pid)?;
        match fd {
            Some(fd) if guest.is_shown(fd, has_offset) => None,
            Some(fd) if guest.shown.len() < MAX => {
                guest.shown.insert(fd);
                Some(program(fd))
            }
            _ => (!std::mem::replace(&mut guest.shows_all, true)).then(attributes),
        }
    }

    /// The filters of a process that comes: it may have looked at what its stand-ins are before.
    /// (Calls about other things cost no more for it: filters that allow a call by its number alone
    /// are asked once for all.)
    pub fn show_all(&mut self, pid: i32) -> Vec<Vec<u8>> {
        let began_with = self.get(pid).map(|guest| guest.began_with.clone()).unwrap_or_default();
        began_with.into_iter().filter_map(|fd| self.filter_for(pid, Some(fd), false)).collect()
    }
}

/// The filter for a descriptor, as it lies in memory.
fn program(fd: i32) -> Vec<u8> {
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
fn install(inside: &mut Inside, at: u64, program: &[u8]) -> Result<i64, TraceError> {
    inside.memory().write(at, &head(program, at + HEAD_BYTES as u64))?;
    inside.memory().write(at + HEAD_BYTES as u64, program)?;
    let (nr, args) = os::seccomp::install_more_call(at);
    inside.call(nr, args)
}

/// Descriptors of a process that are to look as at home.
#[derive(Clone, Copy, Debug)]
pub struct ToShow {
    /// PID of the process, at home.
    pub pid: i32,
    /// The number of the descriptor; `None` means all descriptors.
    pub fd: Option<i32>,
    /// The descriptor has an offset.
    pub has_offset: bool,
}

impl ToShow {
    /// All descriptors of a process.
    pub fn all(pid: i32) -> ToShow {
        ToShow { pid, fd: None, has_offset: false }
    }
}

/// Has descriptors look as at home from now on, if they do not yet; gives what the kernel said. The
/// thread may install filters.
pub fn show(room: &Shared, inside: &mut Inside, at: u64, descriptor: ToShow) -> Result<i64, TraceError> {
    let ToShow { pid, fd, has_offset } = descriptor;
    let filter = room.guests().filter_for(pid, fd, has_offset);
    filter.map_or(Ok(0), |program| install(inside, at, &program))
}

/// The call is one for the attributes of a descriptor, its flags or its offset, which only
/// [`install`]ed filters stop. (A call of fcntl(2) that makes a duplicate is another's.)
pub fn is_about_descriptor(call: u64) -> bool {
    const ABOUT: [i64; 5] = [libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_lseek, libc::SYS_fcntl];
    ABOUT.contains(&(call as i64))
}

impl Tracer {
    /// Hands a call about a stand-in on to the warden: the mark goes with its descriptor, of which
    /// the kernel takes the lower half. All others the kernel answers.
    pub fn mark_descriptor(&mut self, mut stopped: Stopped) -> Result<(), TraceError> {
        let mut registers = stopped.registers()?;
        // Of no descriptor, or of one of home's files.
        if (registers.rdi as i32) < 0 || !self.room.stands_in(stopped.tid(), registers.rdi as i32) {
            return match self.sees_homes_devices(stopped.tid(), &registers) {
                true => stopped.resume_to_call_end(),
                false => stopped.resume(0),
            };
        }
        self.births.rewritten(stopped.tid(), registers);
        registers.rdi = registers.rdi & u64::from(u32::MAX) | u64::from(filter::MARK) << 32;
        stopped.set_registers(&registers)?;
        stopped.resume_to_call_end()
    }
}

impl Tracer {
    /// The call tells device numbers to a process that has seen home's.
    fn sees_homes_devices(&self, host: HostTid, registers: &libc::user_regs_struct) -> bool {
        systable::filter::tells_devices(registers.orig_rax as u32) && self.room.has_moved(host)
    }

    /// The call that a thread is about to make again is the kernel's here, whatever descriptor it
    /// is about: the mark keeps the filter from asking home.
    pub fn mark_own_call(&mut self, mut stopped: Stopped) -> Result<Stopped, TraceError> {
        let mut registers = stopped.registers()?;
        // It may have stopped for something else since.
        let is_made_again = (-514..=-512).contains(&(registers.rax as i64));
        if is_made_again && systable::filter::tells_devices(registers.orig_rax as u32) {
            self.births.rewritten(stopped.tid(), registers);
            registers.rdi = registers.rdi & u64::from(u32::MAX) | u64::from(os::inject::OURS) << 32;
            stopped.set_registers(&registers)?;
        }
        Ok(stopped)
    }

    /// A call has ended well: if it told device numbers, they become home's for those that have
    /// seen these.
    pub fn put_devices(&self, host: HostTid, registers: &libc::user_regs_struct) {
        let is_of_home = registers.rdi >> 32 == u64::from(filter::MARK);
        if is_of_home || !self.sees_homes_devices(host, registers) {
            return;
        }
        let nr = registers.orig_rax as u32;
        let to = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8][written_at(nr)];
        let mut out = vec![0; bytes_of(nr)];
        if guest_memory::read(host.0, to, &mut out).is_ok() && self.room.device_numbers.put(nr, &mut out) {
            // What the kernel could write, this can.
            let _ = guest_memory::write(host.0, to, &out);
        }
    }
}

impl Tracer {
    /// A call is about to make a duplicate, which gets this number. What it returns is known at its
    /// end; but shells make the same one again and again.
    pub fn duplicate(&mut self, stopped: Stopped, number: Number) -> Result<(), TraceError> {
        let (host, fd) = (stopped.tid(), stopped.registers()?.rdi as i32);
        if !self.room.stands_in(host, fd) {
            return stopped.resume(0);
        }
        let has_offset = self.room.standin_of(host, fd).is_some_and(StandinId::is_file);
        let expected = match number {
            Number::This(fd) => Some(fd),
            // Another thread could take it meanwhile.
            Number::From(fd) => (self.is_only_thread(host) && os::process::fd_info(host.0, fd).is_err()).then_some(fd),
        };
        if expected.is_some_and(|fd| self.is_shown(host, fd, has_offset)) {
            return stopped.resume(0);
        }
        self.duplicating.insert(host, has_offset);
        stopped.resume_to_call_end()
    }

    /// The call has returned this.
    pub fn is_duplicated(&mut self, host: HostTid, result: i64) {
        let Some(has_offset) = self.duplicating.remove(&host) else { return };
        if i32::try_from(result).is_ok_and(|fd| fd >= 0 && !self.is_shown(host, fd, has_offset)) {
            self.show(host, Which::Returned { has_offset });
        }
    }

    fn is_only_thread(&self, host: HostTid) -> bool {
        let guests = self.room.guests();
        guests.who(host).is_some_and(|who| guests.threads_of(who.pid).len() == 1)
    }

    fn is_shown(&self, host: HostTid, fd: i32, has_offset: bool) -> bool {
        let guests = self.room.guests();
        let guest = guests.who(host).and_then(|who| guests.get(who.pid));
        guest.is_none_or(|guest| guest.is_shown(fd, has_offset))
    }
}

#[cfg(test)]
mod tests {
    use crate::state::guests::{Guest, Guests};
    use crate::supervisor::tracer::fstat_filters::{MAX, attributes, program};
    use room_protocol::message::{Descriptor, StandinId};

    /// Failed before: of one open file only one number looked as at home, and that was the
    /// deputy's.
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
        assert_eq!(guests.show_all(7), [5, 6, 9, 3].map(program));
        let mut filter = |fd, has_offset| guests.filter_for(7, fd, has_offset);
        assert_eq!((filter(Some(6), true), filter(Some(2), false)), (None, None));
        assert_eq!(filter(Some(8), false), Some(program(8)));
        assert_eq!((filter(None, false), filter(None, false)), (Some(attributes()), None));
        assert_eq!((filter(Some(11), false), filter(Some(12), true)), (None, Some(program(12))));
        let many: Vec<_> = (3..50).map(|fd| descriptor((fd, pipe))).collect();
        guests.add(8, Guest::new(&many, 0, 0));
        let filters = guests.show_all(8);
        assert!(filters.len() == MAX + 1 && filters[MAX] == attributes());
        assert!(guests.get(8).is_some_and(|guest| guest.is_shown(99, false)));
    }
}
