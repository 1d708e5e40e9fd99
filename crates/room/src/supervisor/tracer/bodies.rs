//! Bodies from their start to their end.

use crate::sandbox::porter::body::{MARK_FAILED, MARK_FILTERED, MARK_WORD, NO_NODE, SYS_NICE};
use crate::sandbox::porter::{Command, tell};
use crate::sandbox::usage::Usage;
use crate::state::exec_rights;
use crate::state::guests::{Guest, LockedMemory, ToBeTraced, Who};
use crate::state::oom_score::endanger;
use crate::state::transfer::postcopy_queue::PostcopyEvent;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::state::bodies::Phase;
use crate::supervisor::tracer::state::porter::Then;
use os::ptrace::{HostTid, Stopped, TraceError, UsageBytes};
use room_protocol::ToHome;
use room_protocol::message::{Cause, Ending, Place};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

impl Tracer {
    /// Makes the process of a body that will be placed.
    pub fn expect(&mut self, pid: i32) {
        self.lost.take(pid);
        match os::socket::pair() {
            Ok((mine, childs)) => {
                self.room.guests().add(pid, Guest::new(&[], 0, 0));
                self.bodies.set(pid, Phase::Expected(mine));
                self.porter.ask(Command::Start { pid }, Some(childs), Then::Placed { pid });
            }
            Err(e) => tracing::error!("{e}"),
        }
    }

    pub fn place(&mut self, place: Place) {
        let pid = place.pid;
        if !self.bodies.is_expected(pid) {
            self.expect(pid);
        }
        let packed = memfd(&place);
        let locked = LockedMemory::of(&place);
        let is_first_of_all = place.credentials.capabilities.effective & SYS_NICE != 0;
        let child_flags = place.arrival.as_ref().map_or(0, |a| a.child_flags);
        let has_moved = place.arrival.is_some() || place.home_devices;
        if let Some(arrival) = place.arrival {
            self.arriving.expect(pid, arrival);
        }
        let gains_by_exec = exec_rights::gains_by_exec(&place.credentials);
        let guest = Guest::new(&place.descriptors, place.ignored, child_flags);
        let guest = Guest { gains_by_exec, has_moved, locked, is_first_of_all, ..guest };
        self.room.guests().add(pid, guest);
        place.descriptors.iter().filter(|d| d.timed).for_each(|d| self.room.standins.set_timed(d.standin, true));
        self.room.standins.files.begin_all(&place.descriptors);
        let socket = match self.bodies.phases.insert(pid, Phase::Starting) {
            Some(Phase::Expected(socket)) => Ok(socket),
            _ => Err(os::Error::new("making a process", std::io::Error::from_raw_os_error(libc::EAGAIN))),
        };
        let told = packed.and_then(|packed| tell(socket?.as_fd(), &pid, &[packed.as_fd()]));
        if let Err(e) = told {
            self.bodies.phases.remove(&pid);
            self.room.guests().remove(pid);
            self.room.tell(&ToHome::Placed { pid, result: Err((e.errno(), e.to_string())) });
        }
    }

    /// A thread that is seen for the first time: the room's numbers say who it is.
    pub fn meet(&mut self, host: HostTid) -> Option<Who> {
        if host == self.porter.host {
            return None;
        }
        if let Some(who) = self.room.guests().who(host) {
            return Some(who);
        }
        let status = os::process::status(host.0).ok()?;
        let tid = *status.ns_tids.last()?;
        let pid = if status.tgid == host.0 { tid } else { os::process::inner_tid(status.tgid).ok()? };
        let who = Who { pid, tid };
        self.room.guests().add_thread(host, who);
        Some(who)
    }

    /// Its program does not run yet, but will.
    pub fn is_coming(&self, pid: i32) -> bool {
        self.bodies.is_starting(pid) || self.births.is_reserved(pid)
    }

    /// A process that has no deputy that is known here.
    pub fn is_unknown_process(&self, host: HostTid) -> bool {
        if self.room.guests().who(host).is_some() {
            return false;
        }
        let Ok(status) = os::process::status(host.0) else { return false };
        status.tgid == host.0 && status.ns_tids.last().is_some_and(|pid| self.room.guests().get(*pid).is_none())
    }

    /// A child of a guest lives here too: it holds what its parent holds.
    pub fn adopt(&mut self, child: HostTid, pid: i32, parent: Who) {
        self.lost.take(pid);
        let mut guests = self.room.guests();
        let like_its_parent = guests.get(parent.pid).map(|guest| guest.child(parent.pid));
        like_its_parent.into_iter().for_each(|guest| guests.add(pid, guest));
        guests.add_thread(child, Who { pid, tid: pid });
        drop(guests);
        self.bodies.phases.insert(pid, Phase::Running);
        self.early_signals(pid);
    }

    /// A word from a body that is starting; `false` if the stop is none.
    pub fn mark(&mut self, stopped: &mut Stopped) -> Result<bool, TraceError> {
        let mut registers = stopped.registers()?;
        if registers.rsi != MARK_WORD || registers.orig_rax != libc::SYS_clone as u64 {
            return Ok(false);
        }
        let Some(who) = self.meet(stopped.tid()).filter(|who| self.bodies.is_starting(who.pid)) else {
            return Ok(false);
        };
        match registers.rdi {
            MARK_FILTERED => {
                endanger(stopped.tid(), 0);
                if registers.r10 != NO_NODE {
                    self.entering.expect(who.pid, registers.r10);
                }
                if let Err(e) = self.listeners.add(stopped.tid(), registers.rdx as i32) {
                    tracing::error!("{e}");
                    self.kill(who.pid);
                }
            }
            MARK_FAILED => {
                if self.bodies.fail(who.pid) {
                    self.room.guests().remove(who.pid);
                    let result = Err((registers.rdx as i32, "executing the program".to_owned()));
                    self.room.tell(&ToHome::Placed { pid: who.pid, result });
                }
            }
            _ => return Ok(false),
        }
        registers.orig_rax = u64::MAX;
        registers.rax = 0;
        stopped.set_registers(&registers)?;
        Ok(true)
    }

    pub fn exec_stop(&mut self, stopped: Stopped, former: HostTid) -> Result<(), TraceError> {
        let host = stopped.tid();
        let Some(who) = self.meet(host) else { return stopped.resume(0) };
        os::contain::on_account_of(who.pid);
        os::fault::past("exec there");
        if self.room.strange.get().is_some() {
            crate::state::foreign_vdso::hide(&stopped)?;
        }
        let forget = |guest: &mut Guest| (guest.vdso, guest.without_vdso) = (None, false);
        self.room.guests().get_mut(who.pid).into_iter().for_each(forget);
        if self.bodies.is_starting(who.pid) {
            self.stop_at_entry(who.pid, &stopped);
            self.bodies.phases.insert(who.pid, Phase::Running);
            self.room.guests().runs(who.pid);
            self.room.tell(&ToHome::Placed { pid: who.pid, result: Ok(()) });
            self.early_signals(who.pid);
        } else {
            if let Some(guest) = self.room.guests().get_mut(who.pid)
                && guest.traced == ToBeTraced::ByShell
            {
                guest.traced = ToBeTraced::Due;
            }
            self.other_threads_gone(who, former);
            self.forget_child_flags(who);
            let arguments = os::process::arguments(host.0).unwrap_or_default();
            let comm = os::process::comm(host.0).unwrap_or_default();
            let exe = os::process::link(host.0, "exe").unwrap_or_default().into_os_string().into_vec();
            self.room.tell(&ToHome::Exec { pid: who.pid, arguments, comm, exe });
        }
        stopped.resume(0)
    }

    /// A program begins with no flags of SIGCHLD's (flush_signal_handlers in kernel/signal.c).
    fn forget_child_flags(&mut self, who: Who) {
        let ignored = self.room.guests().get_mut(who.pid).and_then(|guest| {
            let had = std::mem::take(&mut guest.child_flags) != 0;
            had.then_some(guest.mirrored())
        });
        if let Some(ignored) = ignored {
            self.room.tell(&ToHome::Ignores { pid: who.pid, tid: who.tid, ignored, child_flags: 0 });
        }
    }

    /// An exec ended all other threads, and the one that made it has the first one's number now.
    fn other_threads_gone(&mut self, who: Who, former: HostTid) {
        let gone: Vec<(HostTid, Who)> =
            self.room.guests().threads_of(who.pid).into_iter().filter(|(_, w)| w.tid != w.pid).collect();
        for (host, other) in gone {
            // Those that the tracer has not yet seen end are reported when it does; the one that
            // became the first is never seen to end.
            if host == former {
                self.room.guests().remove_thread(host);
                self.room.tell(&ToHome::ThreadGone { pid: other.pid, tid: other.tid });
            }
        }
    }

    /// The tracer has seen the last of a thread.
    pub fn ended(&mut self, host: HostTid, how: Ending, usage: &UsageBytes) {
        self.births.forget(host);
        self.duplicating.remove(&host);
        self.stops.forget_thread(host);
        self.signals.forget_thread(host);
        self.injected.forget_thread(host);
        self.stale_stops.forget_thread(host);
        self.dying.forget_thread(host);
        self.unsupported_calls.forget_thread(host);
        self.room.unpassed.forget(host);
        self.room.forget(host);
        self.labour_over(host);
        let Some(who) = self.room.guests().remove_thread(host) else { return };
        self.entering.forget(host, (who.tid == who.pid).then_some(who.pid));
        if who.tid != who.pid {
            self.room.tell(&ToHome::ThreadGone { pid: who.pid, tid: who.tid });
            return self.check_leaving(who.pid);
        }
        self.ended_leaving(who.pid);
        match self.bodies.phases.get(&who.pid) {
            Some(Phase::Running) => self.exited(who.pid, how, usage),
            Some(Phase::Expected(_)) => {
                self.bodies.phases.remove(&who.pid);
                self.room.guests().remove(who.pid);
            }
            Some(Phase::Starting) => {
                self.bodies.fail(who.pid);
                self.room.guests().remove(who.pid);
                self.room.tell(&ToHome::Placed {
                    pid: who.pid,
                    result: Err((libc::EIO, format!("the body ended before its program ran: {how:?}"))),
                });
            }
            _ => {}
        }
    }

    /// A program has ended, and its deputy may. The kernel has told the porter, which reaps before
    /// it obeys: whoever gets this number next gets it.
    fn exited(&mut self, pid: i32, how: Ending, usage: &UsageBytes) {
        let usage = Usage::read(usage).unwrap_or_default();
        let (user_us, system_us) = usage.times_us();
        self.room.ledger.ended(pid, usage);
        self.signals.forget(pid);
        self.stops.forget(pid);
        self.dying.forget(pid);
        self.unsupported_calls.forget(pid);
        self.bodies.forget(pid);
        self.room.guests().remove(pid);
        self.room.postcopy.give(PostcopyEvent::Ended);
        // What it had open is closed at home before its parent hears of its end.
        self.room.standins.settle();
        os::fault::past("ended there");
        let cause = match self.lost.take(pid) {
            Some(why) => Cause::Warden { why },
            None => self.cause(how),
        };
        self.room.tell(&ToHome::Exited { pid, how, cpu_us: user_us + system_us, cause });
    }

    /// Whose doing an end was. What home's processes kill ends at home, and nothing of this is told
    /// of it.
    fn cause(&self, how: Ending) -> Cause {
        if how != Ending::Signal(libc::SIGKILL as u8) {
            return Cause::Own;
        }
        if os::process::is_exiting(self.porter.host.0) {
            return Cause::Room;
        }
        // Else by itself, or by somebody on this node: its kernel does not say.
        if self.room.kernel_killed_for_memory() { Cause::Memory } else { Cause::Own }
    }

    /// The porter reaped a body: its number is free.
    pub fn reaped(&mut self, pid: i32, usage: Usage) {
        let awaited = match self.bodies.phases.get(&pid) {
            Some(Phase::Left) => {
                self.room.ledger.ended(pid, usage);
                true
            }
            Some(Phase::Failed { awaited }) => *awaited,
            _ => return,
        };
        self.signals.forget(pid);
        self.bodies.forget(pid);
        if awaited {
            // Home lets go of the files that the process had open here before it hears of this.
            self.room.standins.settle();
            self.room.tell(&ToHome::Left { pid });
        }
    }

    pub fn kill(&mut self, pid: i32) {
        self.arriving.forget(pid);
        if self.bodies.is_expected(pid) {
            // Its process ends by itself when nobody can tell it what to be.
            self.bodies.phases.remove(&pid);
            self.room.guests().remove(pid);
        }
        let host = self.room.guests().host(pid);
        if let Some(host) = host {
            // SAFETY: a thread that this tracer traces and has not waited for: the number is its
            // own.
            unsafe { libc::kill(host.0, libc::SIGKILL) };
        }
        self.room.abandon(pid);
    }
}

fn memfd(place: &Place) -> os::Result<OwnedFd> {
    let failed = |e: std::io::Error| os::Error::new("packing what is to be placed", e);
    let bytes = postcard::to_stdvec(place).map_err(|e| failed(std::io::Error::other(e)))?;
    let fd = rustix::fs::memfd_create("place", rustix::fs::MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let mut file = std::fs::File::from(fd);
    file.write_all(&bytes).map_err(failed)?;
    Ok(file.into())
}
