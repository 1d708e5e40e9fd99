//! Bodies that leave: all threads are stopped, calls under way at home are ended or rewound, and
//! what the process is goes home. It stays stopped until home says whether it goes on here or
//! elsewhere.

use crate::state::orders::Recall;
use crate::state::pending::Interrupted;
use crate::supervisor::sharers::common_files::refusal;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::capture::take_apart;
use crate::supervisor::tracer::onward::CollectedBody;
use crate::supervisor::tracer::state::bodies::Phase;
use crate::supervisor::tracer::state::departing::{Departure, DepartureState, LEAVING, NO_THREAD, Onward, STOPPED};
use crate::supervisor::transfer::sending::HomewardBody;
use crate::supervisor::{describe_guest, memory_group as relatives};
use checkpoint::{BodyError, Headstart, Lender, Slept};
use link::Bulk;
use os::awake::Awake;
use os::inject::Memory;
use os::ptrace::{self, HostTid, Stopped, TraceError};
use os::warm::Standby;
use room_protocol::message::Family;
use room_protocol::{Refusal, ToHome};
use std::cell::RefCell;

impl Tracer {
    /// Begins to stop a body that is to leave, or tells home why it cannot leave.
    pub fn recall(&mut self, pid: i32, recall: Recall) {
        let Recall { follow_bytes, pace, onward, ahead, family } = recall;
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
            return self.cannot_leave(pid, Refusal { why, retryable: true });
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
            true => match outline.zip(self.room.direct_links.out(pid)) {
                Some((outline, way)) => {
                    Some(Onward { outline, way, ahead: headstart(self.room.direct_links.take_ahead(pid)) })
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
        let going = Departure::leaving(slept, family);
        self.stop_for(pid, Departure { looked, follow_bytes, pace, onward, ahead, sender, awake, ..going });
        self.check_leaving(pid);
    }

    /// A body stands still while this one, with which it has files in common, leaves.
    pub fn pause(&mut self, pid: i32, leader: i32) {
        self.stop_for(pid, Departure::following(self.slept(pid), leader));
    }

    /// For how long its threads have been asleep; at most since it came.
    pub fn slept(&self, pid: i32) -> Slept {
        let here = self.bodies.here_for(pid);
        let slept = |host: HostTid| Some(os::process::slept(host.0, checkpoint::may_time_out)?.min(here));
        let threads = self.room.guests().threads_of(pid);
        threads.iter().filter_map(|(host, _)| Some((host.0, slept(*host)?))).collect()
    }

    pub fn stop_for(&mut self, pid: i32, going: Departure) {
        let threads = self.room.guests().threads_of(pid);
        // Who is about to die, or to make a process at home, has stopped already.
        let mut held = self.dying.take(pid);
        held.extend(self.unsupported_calls.take(pid));
        let running = threads.iter().filter(|(host, _)| held.iter().all(|t| t.tid() != *host));
        for (host, _) in running.filter(|(host, _)| !self.births.is_unseen(*host)) {
            // One that has ended is reported.
            drop(ptrace::interrupt(*host));
        }
        self.departing.states.insert(pid, DepartureState::Stopping(held, going));
    }

    pub fn cannot_leave(&self, pid: i32, why: impl Into<Refusal>) {
        self.room.tell(&ToHome::Whole { pid, result: Err(why.into()) });
    }

    /// A thread has stopped because we asked; gives it back if its process is not leaving.
    pub fn leaving_stop(&mut self, stopped: Stopped, signal: i32) -> Result<Option<Stopped>, TraceError> {
        let Some(pid) = self.leaving(stopped.tid()) else { return Ok(Some(stopped)) };
        self.stale_stops.forget_thread(stopped.tid());
        let mut stopped = stopped;
        if signal != libc::SIGTRAP {
            let follows =
                matches!(self.departing.states.get(&pid), Some(DepartureState::Stopping(_, g)) if g.leader.is_some());
            let refused = if follows {
                Err(BodyError::NotMigratable(STOPPED.into()))
            } else {
                checkpoint::end_its_call(&mut stopped)
            };
            if let Err(e) = refused {
                self.stay_for(pid, refusal(&e));
                return Ok(Some(stopped));
            }
            if let Some(DepartureState::Stopping(_, going)) = self.departing.states.get_mut(&pid) {
                going.stopped = true;
            }
        }
        // Where it goes on a handler may follow at once.
        if !self.interrupted(&mut stopped)? {
            self.add_leaving(pid, stopped);
            return Ok(None);
        }
        match self.room.home.hold(stopped.tid()) {
            Interrupted::NotHome => {
                let mut stopped = stopped;
                Tracer::not_made(&mut stopped)?;
                self.add_leaving(pid, stopped);
            }
            Interrupted::Running { id, asked } => {
                self.interrupted_calls.keep(id, stopped, LEAVING);
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
            Some(DepartureState::Stopping(threads, _)) => threads.iter().any(|t| t.tid() == host),
            _ => true,
        };
        if !has_stopped {
            drop(ptrace::interrupt(host));
        }
    }

    fn leaving(&self, host: HostTid) -> Option<i32> {
        let pid = self.room.guests().who(host)?.pid;
        matches!(self.departing.states.get(&pid), Some(DepartureState::Stopping(..))).then_some(pid)
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
        let Some(DepartureState::Stopping(threads, _)) = self.departing.states.get_mut(&pid) else { return };
        threads.push(stopped);
        self.check_leaving(pid);
    }

    /// A thread of this process has stopped or ended: perhaps it was the last that was waited for.
    pub fn check_leaving(&mut self, pid: i32) {
        let Some(DepartureState::Stopping(threads, _)) = self.departing.states.get(&pid) else { return };
        if threads.len() < self.room.guests().threads_of(pid).len() {
            return;
        }
        if let Some(DepartureState::Stopping(threads, going)) = self.departing.states.remove(&pid) {
            let leader = going.leader.unwrap_or(pid);
            self.departing.states.insert(pid, DepartureState::Standing(threads, going));
            self.check_family(leader);
        }
    }

    /// Goes on with a process whose threads all stand still.
    pub fn all_stopped(&mut self, pid: i32, mut threads: Vec<Stopped>, mut going: Departure) {
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
                let state =
                    DepartureState::Collected { collected, was_stopped: going.stopped, _awake: going.awake.take() };
                self.departing.states.insert(pid, state);
                let elsewhere = self.tell_shared(pid, going.family, &going.relatives, memories);
                // Home lets them all run at once.
                let follow_bytes = if going.relatives.is_empty() { going.follow_bytes } else { u64::MAX };
                let (room, pace) = (self.room.clone(), going.pace);
                // Who stands still for another had none made ready.
                let sender = going.sender.take().or_else(|| Standby::start().ok());
                let mut ahead = std::mem::take(&mut going.ahead);
                let bulk = Bulk::new(pace);
                if let Some(onward) = going.onward.take() {
                    let body = CollectedBody { pid, host, image, follow_bytes };
                    return self.send_onward(body, onward, bulk, sender);
                }
                if let Some(files) = going.locked.take().filter(|files| !files.is_empty()) {
                    self.room.tell(&ToHome::Locked { pid, files });
                }
                let send = move || {
                    room.windows.open(pid);
                    let body = HomewardBody { room: &room, pid, host, bulk: RefCell::new(bulk) };
                    let later = body.send(&image, &elsewhere, &mut ahead, follow_bytes);
                    let result = later.as_ref().map(drop).map_err(refusal);
                    room.tell(&ToHome::Whole { pid, result });
                    // To watch no longer takes the kernel a walk over all of its pages.
                    drop(ahead);
                    if let Ok(Some(lender)) = later {
                        body.lend(&image, &lender);
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
            Some(DepartureState::Stopping(_, going) | DepartureState::Standing(_, going)) if going.leader.is_some()
        )
    }

    /// The same, for this reason. Home waits to hear that nothing more comes of what it wanted.
    pub fn stay_for(&mut self, pid: i32, why: impl Into<Refusal>) {
        let why = why.into();
        self.room.windows.close(pid);
        self.room.lenders.with(pid, Lender::stop);
        match self.departing.states.remove(&pid) {
            Some(DepartureState::Stopping(threads, going) | DepartureState::Standing(threads, going)) => {
                let all = self.room.guests().threads_of(pid).into_iter().map(|(host, _)| host.0);
                let running = all.filter(|host| threads.iter().all(|t| t.tid().0 != *host));
                self.stale_stops.add(running.map(|host| (host, going.slept.get(&host).copied().unwrap_or_default())));
                self.stop_again(pid, going.stopped);
                go_on(threads, &going.slept);
                match going.leader {
                    None => {
                        self.cannot_leave(pid, why);
                        self.let_go(pid);
                    }
                    Some(leader) if leader == pid => self.not_passed(pid, going.passing, &why),
                    // It may be over for that one already.
                    Some(leader)
                        if matches!(self.departing.states.get(&leader), Some(DepartureState::Standing(..))) =>
                    {
                        let words = format!("process {pid} has an open file or memory in common with it: {}", why.why);
                        self.stay_for(leader, Refusal { why: words, ..why });
                    }
                    Some(_) => {}
                }
            }
            Some(DepartureState::Collected { collected, was_stopped, .. }) => {
                match collected.give_back() {
                    Ok(threads) => {
                        self.stop_again(pid, was_stopped);
                        go_on(threads, &Slept::new());
                    }
                    Err(BodyError::Exited) => {}
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
        if let Some(DepartureState::Collected { collected, .. }) = self.departing.states.remove(&pid)
            && relatives::begetter(&self.room, pid).is_some()
        {
            // Its parent goes on with that memory. One that has ended leaves nothing either.
            drop(collected.clear_away());
        }
        self.departing.memory_groups.forget(pid);
        // Should it come again, its deputy counts from nothing, too.
        self.stops.forget(pid);
        self.dying.forget(pid);
        self.unsupported_calls.forget(pid);
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
            Some(DepartureState::Stopping(_, Departure { leader: Some(leader), .. }))
            | Some(DepartureState::Standing(_, Departure { leader: Some(leader), .. })) => {
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
            Ok(()) | Err(BodyError::Exited) => {}
            Err(e) => tracing::error!("a thread that was to leave cannot go on: {e}"),
        }
    }
}
