//! What becomes of a call that the filter handed over: the row of the table decides.

pub mod capabilities;
pub mod compare;
pub mod filter;
pub mod inspecting;
pub mod ioctl;
pub mod kept_fd_calls;
pub mod limits;
pub mod pidfd;
pub mod prctl;
pub mod schedule;
pub mod socket;
pub mod stream;
pub mod sysv;

use crate::calls::streams;
use crate::sandbox::{guest_memory, ids};
use crate::state::call_counts::TimedCall;
use crate::state::calls::after::After;
use crate::state::calls::marshal;
use crate::state::going_home::HomeCall;
use crate::state::guests::{Waiting, Who, blocked_stops};
use crate::state::home_files::is_in_home_file_system;
use crate::state::orders::{Order, Which};
use crate::state::pending::Pending;
use crate::state::shared::Shared;
use crate::state::wall;
use crate::supervisor::held_files as held;
use os::ptrace::HostTid;
use os::seccomp::{Answer, Notice};
use room_protocol::ToHome;
use room_protocol::message::{Call, StandinId};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use systable::{Arg, Class, Special};

/// Longest path, bytes (PATH_MAX of linux/limits.h).
const PATH_BYTES_MAX: usize = 4096;

/// One call of a guest, waiting for its answer.
pub struct Asked {
    room: Arc<Shared>,
    waiting: Waiting,
    who: Who,
    nr: u32,
    args: [u64; 6],
    row: &'static systable::Row,
}

/// Serves one call: answers it, or asks home, whose answer will.
pub fn dispatch(room: &Arc<Shared>, listener: &Arc<OwnedFd>, notice: Notice) {
    let host_tid = HostTid(notice.host_tid);
    let (who, counts) = {
        let guests = room.guests();
        let who = guests.who(host_tid);
        (who, who.and_then(|who| guests.get(who.pid).map(|guest| guest.calls.clone())))
    };
    let call = Some((notice.nr, notice.args));
    let timed = counts.map(|counts| Arc::new(TimedCall::begin(counts, notice.nr)));
    let waiting = Waiting { listener: listener.clone(), id: notice.id, host_tid, call, timed };
    if room.is_answered_already(&waiting) {
        return;
    }
    let row = systable::row(notice.nr).filter(|_| notice.arch == systable::filter::ARCH);
    match (who, row) {
        (Some(_), Some(row)) if row.name == "userfaultfd" && room.filtering.may(host_tid) => {
            waiting.answer(Answer::Continue);
        }
        (Some(_), Some(row)) if row.name == "seccomp" && room.filtering.may(host_tid) => {
            match room.filtering.offered(host_tid) {
                Some(file) => offer(&waiting, file),
                None => waiting.answer(Answer::Continue),
            }
        }
        // The tracer takes the thread to the node's own files.
        (Some(_), Some(row)) if matches!(row.name, "chroot" | "setns") && room.filtering.may(host_tid) => {
            waiting.answer(Answer::Continue);
        }
        // Home's root is the machine's own: the thread may change its root directory.
        (Some(_), Some(row)) if row.name == "chroot" && crate::sandbox::ids::are_the_machines() => {
            waiting.answer(Answer::Continue);
        }
        // The tracer has the thread take rights that home has given.
        (Some(_), Some(row))
            if matches!(row.class, Class::Special(Special::Credentials | Special::Prctl))
                && room.filtering.may(host_tid) =>
        {
            waiting.answer(Answer::Continue);
        }
        (Some(who), Some(row)) => {
            Asked { room: room.clone(), waiting, who, nr: notice.nr, args: notice.args, row }.serve()
        }
        (Some(who), None) => {
            room.home.refused(
                who.pid,
                notice.nr,
                "a call that tern does not know (newer than its table, or of a 32-bit program)",
            );
            waiting.answer(Answer::Value(-i64::from(libc::ENOSYS)));
        }
        (None, _) => {
            waiting.answer(Answer::Value(-i64::from(libc::ENOSYS)));
        }
    }
}

/// The tracer has made the thread ask for this file. When the thread goes on, the warden has it
/// open no more: the thread may close it at once, and rely on that.
fn offer(waiting: &Waiting, file: Arc<OwnedFd>) {
    let given = os::seccomp::Given { file: file.as_fd(), close_on_exec: true, answers: false };
    let number = match os::seccomp::give(waiting.listener.as_fd(), waiting.id, given) {
        Ok(Some(number)) => i64::from(number),
        // The thread has been killed.
        Ok(None) => return,
        Err(e) => -i64::from(e.errno()),
    };
    drop(file);
    waiting.answer(Answer::Value(number));
}

impl Asked {
    fn serve(self) {
        match self.row.class {
            Class::GoHome(errno) => self.go_home(i32::from(errno.0)),
            Class::Refused(errno) => self.refuse(i32::from(errno.0)),
            Class::Local | Class::Unused => self.local(),
            Class::Home if self.nr as i64 == libc::SYS_setpgid => self.set_group(),
            Class::Home if self.nr as i64 == libc::SYS_getppid => self.parent(),
            Class::Home => self.forward(),
            Class::Special(special) => self.special(special),
        }
    }

    fn special(self, special: Special) {
        match special {
            Special::Ioctl => ioctl::serve(self),
            Special::Stat => kept_fd_calls::stat(self),
            Special::Seek => kept_fd_calls::seek(self),
            Special::Splice => kept_fd_calls::splice(self),
            Special::Fcntl => kept_fd_calls::fcntl(self),
            Special::Signal => self.signal(),
            Special::SharedMapping => self.shared_mapping(),
            Special::Wait if self.nr as i64 == libc::SYS_waitid && self.args[0] == u64::from(libc::P_PIDFD) => {
                pidfd::wait(self)
            }
            // The first process of a room has no children here: home knows.
            Special::Wait => self.forward(),
            Special::Credentials => self.credentials(),
            Special::Prctl => prctl::serve(self),
            Special::Disposition => self.disposition(),
            Special::Limits => limits::serve(self),
            Special::Socket => socket::serve(self),
            Special::Ipc => sysv::serve(self),
            Special::Clone | Special::TakeSignal => self.refuse(libc::ENOSYS),
            Special::Usage => self.forward(),
            Special::SignalFd => self.signal_fd(),
            Special::Nice => self.nice(),
            Special::Owner => self.owner(),
            Special::Watch => self.watch(),
            // It could not go home later.
            Special::Semaphore if !os::objects::tells_semaphores() => self.go_home(libc::EINVAL),
            Special::Semaphore => self.here(),
            Special::Inspecting => inspecting::serve(self),
            Special::Schedule => schedule::serve(self),
            Special::Compare => compare::serve(self),
        }
    }

    /// Home alone can make the call. `errno`: what it returns if the process cannot go there.
    fn go_home(self, errno: i32) {
        self.go_home_after(errno, None);
    }

    /// The same, when `first` has come home, if it is away.
    fn go_home_after(self, errno: i32, first: Option<i32>) {
        if self.room.is_node_local() {
            return self.refuse(errno);
        }
        let file = self.file();
        let Asked { room, waiting, who, nr, .. } = self;
        room.going_home.go(&room.home, who.pid, HomeCall { waiting, nr, errno, file, first });
    }

    /// The name of the file that the call is about, for people: of its first descriptor, or path.
    fn file(&self) -> Option<Vec<u8>> {
        let host = self.waiting.host_tid.0;
        let named = |(arg, value): (&Arg, u64)| match arg {
            Arg::Fd if value as i32 >= 0 => {
                let link = os::process::link(host, &format!("fd/{}", value as i32)).ok()?;
                Some(link.into_os_string().into_vec())
            }
            Arg::Path => guest_memory::read_string(host, value, PATH_BYTES_MAX).ok(),
            _ => None,
        };
        self.row.args.iter().zip(self.args).find_map(named)
    }

    /// A local call that was handed over all the same: a reading of the wall clock, if the node's
    /// is wrong.
    fn local(self) {
        match self.room.wall.get() {
            Some(wall) => {
                let result = wall::read(wall, self.waiting.host_tid.0, self.nr, &self.args);
                self.value(result);
            }
            None => self.here(),
        }
    }

    /// The hosting kernel makes the call.
    fn here(self) {
        self.waiting.answer(Answer::Continue);
    }

    fn value(self, value: i64) {
        self.waiting.answer(Answer::Value(value));
    }

    /// Not served; the row says why.
    fn refuse(self, errno: i32) {
        let why = self.row.why;
        self.refuse_for(errno, why);
    }

    fn refuse_for(self, errno: i32, why: &str) {
        self.room.home.refused(self.who.pid, self.nr, why);
        self.value(-i64::from(errno));
    }

    /// getppid: the room knows a parent that lives here.
    fn parent(self) {
        let parent = self.room.guests().parent_here(self.who.pid);
        match parent {
            Some(parent) => self.value(parent.into()),
            None => self.forward(),
        }
    }

    /// The deputy makes the call, as the row describes it.
    fn forward(self) {
        self.forward_and_then(After::Write);
    }

    /// Who gets its first descriptor of home's sees it as it is there: the call is made again when
    /// it does.
    fn is_made_again(&self) -> bool {
        let shows = self.room.guests().get(self.who.pid).is_none_or(|guest| guest.shows_all);
        if !shows {
            self.room.orders.give(Order::Show { host: self.waiting.host_tid, which: Which::All });
        }
        !shows
    }

    /// setpgid: whether a child has executed a program, this kernel knows first. Home is told by an
    /// argument that the call does not have.
    fn set_group(self) {
        let child = self.args[0] as i32;
        let host = self.room.guests().host(child).filter(|_| child != self.who.pid);
        let has_executed = host.is_some_and(|host| os::stopped::has_executed(host.0));
        match self.pack() {
            Ok((mut call, back)) => {
                call.args[2] = has_executed.into();
                self.ask(call, After::Write(back), false);
            }
            Err(errno) => self.value(-i64::from(errno)),
        }
    }

    fn forward_and_then(self, after: impl FnOnce(Vec<marshal::Back>) -> After) {
        match self.pack() {
            Ok((call, back)) => {
                // Made twice, setsid(2) fails. And rights that were given up are not there to do it
                // again.
                let exact =
                    matches!(self.row.class, Class::Special(Special::Wait | Special::Signal | Special::Credentials))
                        || self.nr as i64 == libc::SYS_setsid;
                self.ask(call, after(back), exact);
            }
            Err(errno) => self.value(-i64::from(errno)),
        }
    }

    /// The call and its memory, as the row describes it.
    fn pack(&self) -> Result<(Call, Vec<marshal::Back>), i32> {
        let host = self.waiting.host_tid.0;
        let read = |from, into: &mut [u8]| guest_memory::read(host, from, into).map_err(|_| libc::EFAULT);
        marshal::pack(self.nr, self.row, &self.args, read).map_err(|marshal::Unable(errno)| errno)
    }

    /// The stand-in that argument `i` names.
    fn standin(&self, i: usize) -> Option<StandinId> {
        self.room.standin_of(self.waiting.host_tid, self.args[i] as i32)
    }

    /// The stream that argument `i` names.
    fn stream(&self, i: usize) -> Option<StandinId> {
        self.room.stream_of(self.waiting.host_tid, self.args[i] as i32)
    }

    /// The stand-in or stream that argument `i` names.
    fn kept_at_home(&self, i: usize) -> Option<StandinId> {
        self.room.kept_at_home(self.waiting.host_tid, self.args[i] as i32)
    }

    /// Asks home. `exact`: the call consumes something, so its result must not get lost.
    fn ask(self, call: Call, after: After, exact: bool) {
        let Asked { room, waiting, who, .. } = self;
        streams::settle(&room);
        room.standins.settle();
        if let Some(timed) = &waiting.timed {
            timed.asks_home();
        }
        let caller = waiting.clone();
        let id = room.home.expect(Pending::Notified { waiting, after, exact, asked: false });
        // Interrupted before this was noted: the kernel has the caller make the call again, and it
        // must not be made twice.
        if caller.still_waits() {
            // To one that has seen home's device numbers home says the true ones.
            if !room.has_moved(caller.host_tid) {
                room.devices.asked(id, call.nr);
            }
            room.ledger.asked(id, who.pid, &call, || {
                let (user, system) = os::process::ticks(caller.host_tid.0).unwrap_or_default();
                let before = room.guests().ticks_before(who.pid);
                (user + before.user, system + before.system)
            });
            // A terminal does not stop those who block its signals.
            let blocked = if i64::from(call.nr) == libc::SYS_ioctl { blocked_stops(caller.host_tid) } else { 0 };
            room.home.ask(id, who, Call { blocked, ..call });
        } else {
            room.withdraw(id);
        }
    }

    /// Ids are changed at home, where files are served with them. The body takes what that comes to
    /// (`tracer/rights.rs`).
    fn credentials(self) {
        if matches!(self.nr as i64, libc::SYS_capget | libc::SYS_capset) {
            return capabilities::serve(self);
        }
        // To what it has no number for here the process changes at home.
        let nobody = |id: u64| id as u32 == u32::MAX || ids::has(id as u32);
        let unknown = self.row.args.iter().zip(self.args).any(|(arg, id)| *arg == Arg::Id && !nobody(id));
        if unknown { self.go_home(libc::EINVAL) } else { self.forward() }
    }

    /// What the program ignores, its deputy ignores too: a child that nobody waits for vanishes at
    /// once, a background write to the terminal goes through.
    fn disposition(self) {
        const SIG_IGN: u64 = 1;
        let signal = self.args[0] as u32;
        let mut action = [0; 16];
        let readable = guest_memory::read(self.waiting.host_tid.0, self.args[1], &mut action).is_ok();
        if readable && (1..=64).contains(&signal) {
            let word = |at: usize| action[at..at + 8].iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b));
            let flags =
                (signal == libc::SIGCHLD as u32).then(|| word(8) & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64);
            self.mirror(1 << (signal - 1), word(0) == SIG_IGN, flags);
        }
        self.here();
    }

    fn mirror(&self, bit: u64, ignore: bool, child_flags: Option<u64>) {
        let pid = self.who.pid;
        let changed = {
            let mut guests = self.room.guests();
            let Some(guest) = guests.get_mut(pid) else { return };
            let before = (guest.mirrored(), guest.child_flags);
            guest.ignored = if ignore { guest.ignored | bit } else { guest.ignored & !bit };
            guest.child_flags = child_flags.unwrap_or(guest.child_flags);
            let after = (guest.mirrored(), guest.child_flags);
            (before != after).then_some(after)
        };
        if let Some((ignored, child_flags)) = changed {
            self.room.tell(&ToHome::Ignores { pid, tid: self.who.tid, ignored, child_flags });
        }
    }

    /// kill and its kin: the own process' signals are the hosting kernel's, but for those that stop
    /// and continue, about which home decides; all others are sent at home, where all processes
    /// are.
    fn signal(self) {
        let (own, signal) = match self.nr as i64 {
            libc::SYS_kill | libc::SYS_rt_sigqueueinfo => (self.args[0] as i32 == self.who.pid, self.args[1]),
            libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => (self.args[0] as i32 == self.who.pid, self.args[2]),
            libc::SYS_tkill => {
                let guests = self.room.guests();
                let target = guests.host(self.args[0] as i32).and_then(|h| guests.who(h));
                (target.is_some_and(|w| w.pid == self.who.pid), self.args[1])
            }
            libc::SYS_pidfd_send_signal => match self.standin(0) {
                Some(standin) => return pidfd::signal(self, standin),
                None if pidfd::directory(&self).is_some() => return pidfd::signal_by_directory(self),
                // The hosting kernel has those of the guest's own.
                None => (true, self.args[1]),
            },
            libc::SYS_pidfd_open => return pidfd::open(self),
            _ => (false, 0),
        };
        match (own, self.nr as i64) {
            (true, libc::SYS_pidfd_send_signal) if stops_or_continues(signal) => self.kill_oneself(signal),
            (true, _) if stops_or_continues(signal) => self.forward(),
            (true, _) => self.here(),
            (false, _) => self.forward(),
        }
    }

    /// Who reads signals sees what they carry before the tracer does.
    fn signal_fd(self) {
        if let Some(guest) = self.room.guests().get_mut(self.who.pid) {
            guest.reads_signals = true;
        }
        self.here();
    }

    /// Nice values are home's. The body follows as far as it then gives way here: nobody is served
    /// before its host's own programs.
    fn nice(self) {
        os::fault::past("nice there");
        let [which, whom, value, ..] = self.args.map(|arg| arg as i32);
        let thread = match whom {
            0 => Some(self.waiting.host_tid),
            tid => self.room.guests().host(tid),
        };
        let thread = thread.filter(|_| which == libc::PRIO_PROCESS as i32);
        self.forward_and_then(|back| thread.map_or(After::Write(back), |host| After::Nice { host, value }));
    }

    /// A file is given to a user or group that its room may not have.
    fn owner(self) {
        let first = if i64::from(self.nr) == libc::SYS_fchownat { 2 } else { 1 };
        let is_known = |id: &u64| *id as u32 == u32::MAX || crate::sandbox::ids::has(*id as u32);
        match self.args[first..=first + 1].iter().all(is_known) {
            true => self.here(),
            false => self.go_home(libc::EINVAL),
        }
    }

    /// An epoll instance is to watch a file: those that home's file systems keep are always ready,
    /// and none of home's kernel's. The kernel asks at once what else is ready, and must not wait
    /// for home then (`standins::adds_to_epoll`): so home is asked before it, of what nobody has
    /// watched yet.
    fn watch(self) {
        let (host, fd) = (self.waiting.host_tid, self.args[2] as i32);
        match self.standin(2) {
            Some(standin) if standin.is_file() => self.value(-i64::from(libc::EPERM)),
            Some(standin) if self.room.standins.begins_to_watch(standin) => {
                let Asked { room, waiting, who, .. } = self;
                let pending = Pending::Notified { waiting, after: After::Watched(standin), exact: false, asked: true };
                let id = room.home.expect(pending);
                room.tell(&ToHome::Watch { id, pid: who.pid, standin });
            }
            None if is_in_home_file_system(host, fd) && !self.room.stands_in(host, fd) => {
                self.value(-i64::from(libc::EPERM));
            }
            _ => self.here(),
        }
    }

    /// kill(getpid(), signal), at home.
    fn kill_oneself(self, signal: u64) {
        let call = Call::new(libc::SYS_kill, [self.who.pid as u64, signal, 0, 0, 0, 0]);
        self.ask(call, After::Write(Vec::new()), true);
    }

    /// The descriptor is of a file in memory (memfd_create(2)), which is the body's own.
    fn is_memory(&self, fd: i32) -> bool {
        const TMPFS_MAGIC: i64 = 0x0102_1994; // linux/magic.h
        // A room's files are the home's, behind FUSE: tmpfs there is memfd (and /dev/shm, if home
        // has none).
        rustix::fs::statfs(format!("/proc/{}/fd/{fd}", self.waiting.host_tid.0))
            .is_ok_and(|fs| fs.f_type == TMPFS_MAGIC)
    }

    /// Serves a mapping of a file that others can see. Home may hold the file for this room. If
    /// others have it open, stores would reach them late, so the process makes them at home.
    /// Reading is harmless.
    fn shared_mapping(self) {
        let writable = self.args[2] & libc::PROT_WRITE as u64 != 0;
        if let Some(file) = held::to_be_held(&self.room, self.waiting.host_tid, self.args[4] as i32, writable) {
            let call = Call::new(i64::from(self.nr), [file.inode, file.device, 0, 0, 0, 0]);
            let (pid, nr, file) = (self.who.pid, self.nr, self.file());
            return self.ask(call, After::HereElseHome { pid, nr, file }, false);
        }
        // What this kernel would keep of a file that stays home nobody would tell it to forget.
        let is_kept = self.standin(4).is_some_and(StandinId::is_file);
        let open_for_writing = || {
            os::process::fd_info(self.waiting.host_tid.0, self.args[4] as i32)
                .is_ok_and(|i| i.flags & libc::O_ACCMODE != libc::O_RDONLY)
        };
        if is_kept || (writable && open_for_writing() && !self.is_memory(self.args[4] as i32)) {
            self.go_home(libc::ENODEV);
        } else {
            self.here();
        }
    }
}

fn stops_or_continues(signal: u64) -> bool {
    matches!(signal as i32, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU | libc::SIGCONT)
}
