//! Bodies that leave: all threads are stopped, calls under way at home are ended or rewound, and
//! what the process is goes home. It stays stopped until home says whether it goes on here or
//! elsewhere.

use super::Tracer;
use super::bodies::Phase;
use super::capture::take_apart;
use super::memory_group::Together;
use super::onward::Onward;
use super::passing::Passing;
use super::sending::{lend, send};
use super::sharing::Asked;
use crate::warden::describe_guest::{self, Looked};
use crate::warden::relatives;
use crate::warden::shared::Interrupted;
use crate::warden::sharers::{Sought, refusal};
use checkpoint::{BodyError, Collected, Headstart, Lender, Slept};
use image::Image;
use link::Bulk;
use migration_plan::Pace;
use os::awake::Awake;
use os::inject::Memory;
use os::ptrace::{self, HostTid, Stopped, TraceError};
use os::warm::Standby;
use room_protocol::message::onward::Ticket;
use room_protocol::message::{Family, LockedFile};
use room_protocol::{Refusal, ToHome};
use std::cell::RefCell;
use std::collections::HashMap;

/// Those that leave.
#[derive(Debug, Default)]
pub struct Departing {
    pub(super) states: HashMap<i32, State>,
    /// What home was told of those that may go to another room.
    pub(super) outlines: HashMap<i32, Image>,
    /// Of those that leave together.
    pub(super) together: Together,
}

/// How far one is.
#[derive(Debug)]
pub enum State {
    /// These have stopped; others will.
    Stopping(Vec<Stopped>, Going),
    /// All have stopped, but another body may have to, too ([`super::sharing`]).
    Standing(Vec<Stopped>, Going),
    /// All is collected and on its way; job control had stopped it.
    Collected { collected: Box<Collected>, was_stopped: bool, _awake: Option<Awake> },
}

/// How it goes.
#[derive(Debug)]
pub struct Going {
    /// Job control had stopped it.
    pub stopped: bool,
    /// For how long its threads had been asleep.
    pub slept: Slept,
    /// It does not leave itself, but stands still for this one.
    pub leader: Option<i32>,
    /// It does not leave itself, but stands still until what it passes is home's.
    pub passing: Option<Passing>,
    /// Files that it has in common with others.
    pub asked: Option<Asked>,
    /// Open files of its that may have locks of their own, once they were looked for.
    pub locked: Option<Vec<LockedFile>>,
    /// What becomes of those with which it shares memory,
    pub family: Family,
    /// and who they are, when all of them stand still.
    pub relatives: Vec<i32>,
    /// Its memory areas before it was stopped.
    pub looked: Option<Looked>,
    /// If it has so many bytes of its own, pages may follow when it goes on at home.
    pub follow_bytes: u64,
    /// How its pages go.
    pub pace: Pace,
    /// It goes to another room.
    pub onward: Option<Onward>,
    /// It goes home, where this is in place.
    pub ahead: Headstart,
    /// A thread that will send it.
    sender: Option<Standby>,
    /// While it stands still.
    awake: Option<Awake>,
}

/// Why a body stays that nobody can send.
pub const NO_THREAD: &str = "no thread to send it";

impl Going {
    /// It stands still for this one.
    fn following(slept: Slept, leader: i32) -> Going {
        Going { leader: Some(leader), ..Going::leaving(slept, Family::Stays) }
    }

    /// It passes descriptors, and stands still for itself.
    pub fn passing(slept: Slept, pid: i32, passing: Passing) -> Going {
        Going { passing: Some(passing), ..Going::following(slept, pid) }
    }

    /// The open files of its that have to become home's.
    pub fn sought(&self) -> Sought {
        let may_have_sockets = self.looked.as_ref().is_none_or(|looked| looked.has_sockets);
        match &self.passing {
            Some(passing) => passing.sought(),
            None if may_have_sockets => Sought::CommonAndPairs,
            None => Sought::Common,
        }
    }

    /// Begins the leaving of a process.
    fn leaving(slept: Slept, family: Family) -> Going {
        Going {
            stopped: false,
            slept,
            leader: None,
            passing: None,
            asked: None,
            locked: None,
            family,
            relatives: Vec::new(),
            looked: None,
            follow_bytes: 0,
            pace: Pace::default(),
            onward: None,
            ahead: Headstart::default(),
            sender: None,
            awake: None,
        }
    }
}

/// Why what its deputy has to do first cannot be done.
pub const STOPPED: &str = "it is stopped (by job control or SIGSTOP): continue it first";

/// In the place of the signal that a held thread gets: it is to leave.
pub const LEAVING: i32 = -1;

impl Tracer {
    /// A body is to leave.
    pub fn recall(
        &mut self,
        pid: i32,
        (follow_bytes, pace): (u64, Pace),
        (onward, family): (bool, Family),
        ahead: Option<Ticket>,
    ) {
        let host = self.room.guests().host(pid);
        let headstart = |ahead| host.map_or_else(Headstart::default, |host| Headstart::of(host.0, ahead));
        let sender = Standby::start().ok();
        let ahead = headstart(self.room.homeward.take(pid, ahead));
        let outline = self.departing.outlines.remove(&pid);
        if let Family::With(first) = family {
            return self.join(pid, first, pace);
        }
        if self.departing.states.contains_key(&pid) {
            let why = "it stands still there, for a move of its own or another's".to_owned();
            return self.cannot_leave(pid, Refusal { why, fleeting: true });
        }
        if !self.bodies.is_running(pid) {
            return self.cannot_leave(pid, "it does not run there");
        }
        if let Err(e) = os::fault::at("recall there") {
            return self.cannot_leave(pid, refusal(&e.into()));
        }
        let looked = host.and_then(describe_guest::look);
        let own_bytes = host.and_then(|host| os::process::anonymous_bytes(host.0).ok());
        let onward = match onward {
            true => match outline.zip(self.room.lanes.out(pid)) {
                Some((outline, way)) => {
                    Some(Onward { outline, way, ahead: headstart(self.room.lanes.take_ahead(pid)) })
                }
                None => return self.cannot_leave(pid, "there is no way to the other room"),
            },
            false => None,
        };
        let slept = self.slept(pid);
        self.room.tell(&ToHome::Leaving { pid, own_bytes: own_bytes.unwrap_or(0) });
        // What goes at once takes long, and nobody waits for microseconds.
        let is_short = !onward.as_ref().map_or(&ahead, |onward| &onward.ahead).is_none();
        let awake = is_short.then(Awake::now).flatten();
        let going = Going::leaving(slept, family);
        self.stop_for(pid, Going { looked, follow_bytes, pace, onward, ahead, sender, awake, ..going });
        self.check_leaving(pid);
    }

    /// A body stands still while this one, with which it has files in common, leaves.
    pub fn pause(&mut self, pid: i32, leader: i32) {
        self.stop_for(pid, Going::following(self.slept(pid), leader));
    }

    /// For how long its threads have been asleep; at most since it came.
    pub(super) fn slept(&self, pid: i32) -> Slept {
        let here = self.bodies.here_for(pid);
        let slept = |host: HostTid| Some(os::process::slept(host.0, checkpoint::may_time_out)?.min(here));
        let threads = self.room.guests().threads_of(pid);
        threads.iter().filter_map(|(host, _)| Some((host.0, slept(*host)?))).collect()
    }

    pub(super) fn stop_for(&mut self, pid: i32, going: Going) {
        let threads = self.room.guests().threads_of(pid);
        // Who is about to die, or to make a process at home, has stopped already.
        let mut held = self.dying.take(pid);
        held.extend(self.unmade.take(pid));
        let running = threads.iter().filter(|(host, _)| held.iter().all(|t| t.tid() != *host));
        for (host, _) in running.filter(|(host, _)| !self.births.is_unseen(*host)) {
            // One that has ended is reported.
            drop(ptrace::interrupt(*host));
        }
        self.departing.states.insert(pid, State::Stopping(held, going));
    }

    pub(super) fn cannot_leave(&self, pid: i32, why: impl Into<Refusal>) {
        self.room.tell(&ToHome::Whole { pid, result: Err(why.into()) });
    }

    /// A thread has stopped because we asked; gives it back if its process is not leaving.
    pub fn leaving_stop(&mut self, stopped: Stopped, signal: i32) -> Result<Option<Stopped>, TraceError> {
        let Some(pid) = self.leaving(stopped.tid()) else { return Ok(Some(stopped)) };
        self.needless.forget_thread(stopped.tid());
        let mut stopped = stopped;
        if signal != libc::SIGTRAP {
            let follows = matches!(self.departing.states.get(&pid), Some(State::Stopping(_, g)) if g.leader.is_some());
            let refused =
                if follows { Err(BodyError::Stays(STOPPED.into())) } else { checkpoint::end_its_call(&mut stopped) };
            if let Err(e) = refused {
                self.stay_for(pid, refusal(&e));
                return Ok(Some(stopped));
            }
            if let Some(State::Stopping(_, going)) = self.departing.states.get_mut(&pid) {
                going.stopped = true;
            }
        }
        // Where it goes on a handler may follow at once.
        if !self.interrupted(&mut stopped)? {
            self.add_leaving(pid, stopped);
            return Ok(None);
        }
        match self.room.hold(stopped.tid()) {
            Interrupted::NotHome => {
                let mut stopped = stopped;
                Tracer::not_made(&mut stopped)?;
                self.add_leaving(pid, stopped);
            }
            Interrupted::Running { id, asked } => {
                self.held.keep(id, stopped, LEAVING);
                if asked {
                    self.room.tell(&ToHome::Cancel { id });
                }
            }
            Interrupted::Done(result) => self.leave_with(stopped, result)?,
        }
        Ok(None)
    }

    /// A thread that is to leave and has stopped for something else is asked to stop again.
    pub fn interrupt_leaving(&self, host: HostTid) {
        let Some(pid) = self.leaving(host) else { return };
        let has_stopped = match self.departing.states.get(&pid) {
            Some(State::Stopping(threads, _)) => threads.iter().any(|t| t.tid() == host),
            _ => true,
        };
        if !has_stopped {
            drop(ptrace::interrupt(host));
        }
    }

    fn leaving(&self, host: HostTid) -> Option<i32> {
        let pid = self.room.guests().who(host)?.pid;
        matches!(self.departing.states.get(&pid), Some(State::Stopping(..))).then_some(pid)
    }

    /// The call of a thread that is to leave has ended at home with this result.
    pub fn leave_with(&mut self, stopped: Stopped, result: i64) -> Result<(), TraceError> {
        let mut stopped = self.pay(stopped, 0)?;
        if result != -i64::from(libc::EINTR) {
            let mut registers = stopped.registers()?;
            registers.rax = result as u64;
            stopped.set_registers(&registers)?;
        } else {
            Tracer::not_made(&mut stopped)?;
        }
        match self.leaving(stopped.tid()) {
            Some(pid) => self.add_leaving(pid, stopped),
            None => stopped.resume(0)?,
        }
        Ok(())
    }

    fn add_leaving(&mut self, pid: i32, stopped: Stopped) {
        let Some(State::Stopping(threads, _)) = self.departing.states.get_mut(&pid) else { return };
        threads.push(stopped);
        self.check_leaving(pid);
    }

    /// A thread of this process has stopped or ended: perhaps it was the last that was waited for.
    pub fn check_leaving(&mut self, pid: i32) {
        let Some(State::Stopping(threads, _)) = self.departing.states.get(&pid) else { return };
        if threads.len() < self.room.guests().threads_of(pid).len() {
            return;
        }
        if let Some(State::Stopping(threads, going)) = self.departing.states.remove(&pid) {
            let leader = going.leader.unwrap_or(pid);
            self.departing.states.insert(pid, State::Standing(threads, going));
            self.check_family(leader);
        }
    }

    /// Goes on with a process whose threads all stand still.
    pub fn all_stopped(&mut self, pid: i32, mut threads: Vec<Stopped>, mut going: Going) {
        let Some(host) = self.room.guests().host(pid) else {
            self.let_go(pid);
            return self.cannot_leave(pid, "it ended");
        };
        threads.sort_by_key(|t| (t.tid() != host, t.tid().0));
        // A clone that was interrupted is made again at home, with another number.
        threads.iter().for_each(|t| self.cancel_reservation(t.tid()));
        match take_apart(&self.room, pid, host, threads, &going) {
            Ok((mut image, memories, collected)) => {
                // Should it stay, it sends them itself.
                for (tid, info) in self.injected.signals(host) {
                    match image.threads.iter_mut().find(|t| Some(t.tid) == tid) {
                        Some(thread) => thread.pending.push(info.to_vec()),
                        None => image.process.pending.push(info.to_vec()),
                    }
                }
                let own = image.threads.iter_mut().flat_map(|t| t.pending.iter_mut());
                for info in own.chain(image.process.pending.iter_mut()) {
                    self.signals.fill_in(pid, info);
                }
                let collected = Box::new(collected);
                let state = State::Collected { collected, was_stopped: going.stopped, _awake: going.awake.take() };
                self.departing.states.insert(pid, state);
                let elsewhere = self.tell_shared(pid, (going.family, &going.relatives), memories);
                // Home lets them all run at once.
                let follow_bytes = if going.relatives.is_empty() { going.follow_bytes } else { u64::MAX };
                let (room, pace) = (self.room.clone(), going.pace);
                // Who stands still for another had none made ready.
                let sender = going.sender.take().or_else(|| Standby::start().ok());
                let mut ahead = std::mem::take(&mut going.ahead);
                let bulk = RefCell::new(Bulk::new(pace));
                if let Some(onward) = going.onward.take() {
                    return self.send_onward((pid, host), image, (onward, follow_bytes, bulk.into_inner()), sender);
                }
                if let Some(files) = going.locked.take().filter(|files| !files.is_empty()) {
                    self.room.tell(&ToHome::Locked { pid, files });
                }
                let send = move || {
                    room.windows.open(pid);
                    let later = send(&room, (pid, host), (&image, &elsewhere), (&mut ahead, follow_bytes), &bulk);
                    let result = later.as_ref().map(drop).map_err(refusal);
                    room.tell(&ToHome::Whole { pid, result });
                    // To watch no longer takes the kernel a walk over all of its pages.
                    drop(ahead);
                    if let Ok(Some(lender)) = later {
                        lend(&room, pid, host, &image, &lender, &bulk);
                    }
                };
                match sender {
                    Some(sender) => sender.run(c"leaving", send),
                    None => {
                        self.cannot_leave(pid, NO_THREAD);
                        self.stay(pid);
                    }
                }
            }
            Err((e, threads)) => {
                self.cannot_leave(pid, refusal(&e));
                self.stop_again(pid, going.stopped);
                go_on(threads, &going.slept);
                self.let_go(pid);
            }
        }
    }

    /// When its threads are let go they stop again, if job control had stopped them.
    pub fn stop_again(&self, pid: i32, was_stopped: bool) {
        if let Some(host) = self.room.guests().host(pid).filter(|_| was_stopped) {
            // SAFETY: a thread that this tracer traces and has not waited for: the number is its
            // own.
            unsafe { libc::kill(host.0, libc::SIGSTOP) };
        }
    }

    /// A body that was to leave goes on here: home wants it so.
    pub fn stay(&mut self, pid: i32) {
        self.stay_for(pid, "home called it off");
    }

    /// It stands still because another leaves, and not to leave itself.
    pub fn follows(&self, pid: i32) -> bool {
        matches!(
            self.departing.states.get(&pid),
            Some(State::Stopping(_, going) | State::Standing(_, going)) if going.leader.is_some()
        )
    }

    /// The same, for this reason. Home waits to hear that nothing more comes of what it wanted.
    pub fn stay_for(&mut self, pid: i32, why: impl Into<Refusal>) {
        let why = why.into();
        self.room.windows.close(pid);
        self.room.lenders.with(pid, Lender::stop);
        match self.departing.states.remove(&pid) {
            Some(State::Stopping(threads, going) | State::Standing(threads, going)) => {
                let all = self.room.guests().threads_of(pid).into_iter().map(|(host, _)| host.0);
                let running = all.filter(|host| threads.iter().all(|t| t.tid().0 != *host));
                self.needless.add(running.map(|host| (host, going.slept.get(&host).copied().unwrap_or_default())));
                self.stop_again(pid, going.stopped);
                go_on(threads, &going.slept);
                match going.leader {
                    None => {
                        self.cannot_leave(pid, why);
                        self.let_go(pid);
                    }
                    Some(leader) if leader == pid => self.not_passed(pid, going.passing, &why),
                    // It may be over for that one already.
                    Some(leader) if matches!(self.departing.states.get(&leader), Some(State::Standing(..))) => {
                        let words = format!("process {pid} has an open file or memory in common with it: {}", why.why);
                        self.stay_for(leader, Refusal { why: words, ..why });
                    }
                    Some(_) => {}
                }
            }
            Some(State::Collected { collected, was_stopped, .. }) => {
                match collected.give_back() {
                    Ok(threads) => {
                        self.stop_again(pid, was_stopped);
                        go_on(threads, &Slept::new());
                    }
                    Err(BodyError::Gone) => {}
                    Err(e) => {
                        tracing::error!("process {pid} cannot go on: {e}");
                        self.kill(pid);
                    }
                }
                self.let_go(pid);
            }
            None => {}
        }
        if let Some(host) = self.room.guests().host(pid) {
            self.interrupt_to_send(host);
        }
    }

    /// A body goes on elsewhere: what is left of it vanishes unseen.
    pub fn vanish(&mut self, pid: i32) {
        os::fault::past("leave there");
        self.room.windows.close(pid);
        self.room.lenders.with(pid, Lender::stop);
        if let Some(State::Collected { collected, .. }) = self.departing.states.remove(&pid)
            && relatives::begetter(&self.room, pid).is_some()
        {
            // Its parent goes on with that memory. One that has ended leaves nothing either.
            drop(collected.clear_away());
        }
        self.departing.together.forget(pid);
        // Should it come again, its deputy counts from nothing, too.
        self.stops.forget(pid);
        self.dying.forget(pid);
        self.unmade.forget(pid);
        self.room.going_home.forget(pid);
        self.arriving.forget(pid);
        if self.bodies.await_failed(pid) {
            return;
        }
        if self.room.guests().get(pid).is_none() {
            return self.room.tell(&ToHome::Left { pid });
        }
        self.bodies.set(pid, Phase::Left);
        let threads = self.room.guests().threads_of(pid);
        {
            let mut guests = self.room.guests();
            guests.remove(pid);
            for (host, _) in &threads {
                guests.remove_thread(*host);
            }
        }
        for (host, who) in threads {
            self.room.forget(host);
            if who.tid == who.pid {
                // SAFETY: a thread that this tracer traces and has not waited for: the number is
                // its own.
                unsafe { libc::kill(host.0, libc::SIGKILL) };
            }
        }
    }

    /// A body ended while it was to leave.
    pub fn ended_leaving(&mut self, pid: i32) {
        match self.departing.states.remove(&pid) {
            Some(State::Stopping(_, Going { leader: Some(leader), .. }))
            | Some(State::Standing(_, Going { leader: Some(leader), .. })) => {
                // One that stood still for itself has passed nothing.
                if leader == pid { self.let_go(pid) } else { self.check_family(leader) }
            }
            Some(_) => {
                self.cannot_leave(pid, "it ended");
                self.let_go(pid);
            }
            None => {}
        }
    }
}

fn go_on(threads: Vec<Stopped>, slept: &Slept) {
    for thread in threads {
        let host = thread.tid().0;
        let slept = slept.get(&host).copied().unwrap_or_default();
        let resumed = Memory::of(host)
            .map_err(BodyError::from)
            .and_then(|memory| checkpoint::as_it_was(thread, slept, &memory))
            .and_then(|thread| Ok(thread.resume(0)?));
        match resumed {
            Ok(()) | Err(BodyError::Gone) => {}
            Err(e) => tracing::error!("a thread that was to leave cannot go on: {e}"),
        }
    }
}
