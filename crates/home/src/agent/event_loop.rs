//! The poller's thread: what deputies say is carried to the room, and what needs privilege is done.

use crate::agent::replies::Replied;
use crate::deputy::channel::{self, DeputyMessage};
use crate::deputy::early_signals::EarlySignals;
use crate::deputy::hear::{HearError, hear};
use crate::deputy::job::{Job, Purpose};
use crate::deputy::placement_request::PlacementRequest;
use crate::deputy::proof::ProofError;
use crate::deputy::record::{Deputy, Phase};
use crate::deputy::stops::Stops;
use crate::deputy::table::RoomState;
use crate::deputy::thread::Thread;
use crate::describe::place;
use crate::migration::{called_home, sharing};
use crate::proxy::{calls, devices};
use crate::room::orders::Order;
use crate::room::poller::Source;
use crate::room::state::Room;
use os::contain::{contained, on_account_of};
use room_protocol::ToRoom;
use room_protocol::message::{CallId, Program, StandinId};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// How often a deputy thread that should leave its call is told so, until it has: the signal may
/// come just before the call.
const NUDGE: Duration = Duration::from_millis(2);

/// Packets heard of one thread before the others have their turn.
const PACKETS_AT_ONCE: usize = 16;
/// A channel holds fewer: so many are heard where all that was said until now counts.
const PACKETS_IN_CHANNEL: usize = 4096;
/// Orders obeyed before deputies have their turn.
const ORDERS_AT_ONCE: usize = 256;

/// State of this thread alone.
pub struct EventLoop {
    pub room: Arc<Room>,
    pub buffer: Vec<u8>,
    pub stops: Stops,
}

/// Runs until the room is lost and its last deputy has ended.
pub fn run(room: Arc<Room>) {
    let mut this = EventLoop { room, buffer: vec![0; channel::REPLY_BYTES_MAX], stops: Stops::new() };
    let mut ready = Vec::new();
    loop {
        let nudge = this.contain(|this| this.nudge()).unwrap_or_default().then_some(NUDGE);
        let look = this.contain(EventLoop::look_for_stops).flatten();
        let delayed = this.contain(|this| calls::forward_delayed(&this.room)).flatten();
        this.room.poller.wait(nudge.into_iter().chain(look).chain(delayed).min(), &mut ready);
        for (key, source, _) in &ready {
            this.contain(|this| match *source {
                Source::Bell => {}
                Source::Channel { pid, tid } => this.listen(*key, pid, tid),
                Source::End { pid } => this.ended(*key, pid),
                Source::Edges => this.room.tell_changes(),
            });
        }
        this.obey_some();
        let moving = this.room.sessions.are_running();
        let table = this.room.table();
        if matches!(table.room, RoomState::Lost(_)) && table.deputies.is_empty() && !moving {
            return;
        }
    }
}

impl EventLoop {
    fn contain<T>(&mut self, work: impl FnOnce(&mut EventLoop) -> T) -> Option<T> {
        let room = self.room.clone();
        room.contain(None, || work(self))
    }

    /// Tells the room of deputies that have stopped; how long until the next look.
    fn look_for_stops(&mut self) -> Option<Duration> {
        let seen = self.stops.look(&mut self.room.table());
        seen.stopped.into_iter().for_each(|pid| self.room.tell(&ToRoom::Stop { pid }));
        seen.next
    }

    fn obey_some(&mut self) {
        for _ in 0..ORDERS_AT_ONCE {
            let Some(order) = self.room.poller.next_order() else { return };
            self.contain(|this| this.obey(order));
        }
        self.room.poller.wake();
    }

    pub fn obey(&mut self, order: Order) {
        order.process().into_iter().for_each(on_account_of);
        match order {
            Order::Lose { pid, why } => self.room.lose(pid, &why),
            Order::Arrive { coming, channel, program, blocked } => {
                let pid = coming.proof.pid();
                if let Err(e) = self.arrive(coming, channel, program, blocked) {
                    tracing::warn!("process {pid} cannot be placed: {e}");
                    self.room.tell(&ToRoom::Kill { pid });
                }
            }
            Order::Dismiss { pid, memory, done } => {
                self.dismiss(pid, memory);
                let _ = done.send(());
            }
            Order::Yield { pid, done } => {
                let _ = done.send(self.give_up(pid).map(Box::new));
            }
            Order::Disown { pid, done } => {
                self.room.watchdog.dismiss(pid);
                let _ = done.send(());
            }
            Order::Settled { pid, done } => {
                self.room.watchdog.settle(pid);
                let _ = done.send(());
            }
            Order::Cancel(id) => self.cancel(id),
            Order::Watch { id, pid, standin } => self.room.watch(id, pid, standin),
            Order::Notices { standins, done } => {
                let _ = done.send(self.room.count_notices(&standins));
            }
            Order::Notice(standins) => standins.into_iter().for_each(|standin| self.room.changed(standin)),
            Order::BringHome(called) => called_home::bring_home(&self.room, called),
            Order::TakeOver { pid, commons } => sharing::take_over(&self.room, pid, commons),
            Order::Release(standin) => self.room.release(standin),
            Order::LookAt { id, path, look } => {
                // Whoever asks waits in the kernel.
                let looked = contained(|| devices::look(&path, look));
                let (result, out) = looked.unwrap_or_else(|_| (-i64::from(libc::EIO), Vec::new()));
                self.room.tell(&ToRoom::Return { id, result, out, ready: None });
            }
        }
    }

    fn arrive(&mut self, coming: PlacementRequest, channel: OwnedFd, program: Program, blocked: u64) -> os::Result<()> {
        let early = EarlySignals::begin(coming.proof.pid());
        let pid = coming.proof.pid();
        let deputy = Deputy {
            blocked,
            early,
            manner: coming.manner,
            ..Deputy::new(coming.pidfd, coming.proof, program, channel)
        };
        self.room.adopt(pid, deputy)?;
        // Now, while the process turns into its deputy: the room makes the body meanwhile.
        self.describe(pid);
        Ok(())
    }

    /// What a deputy has told already: signals that it has taken, and that nobody else will.
    fn listen_once_more(&mut self, pid: i32) {
        let tids: Vec<i32> =
            self.room.table().deputies.get(&pid).into_iter().flat_map(|d| d.threads.keys().copied()).collect();
        for tid in tids {
            self.listen_to(pid, tid, PACKETS_IN_CHANNEL);
        }
    }

    /// It is not this room's any more; what it tells from now on, the other hears. Until that has
    /// it, it still ends with this steward.
    fn give_up(&mut self, pid: i32) -> Option<Deputy> {
        self.listen_once_more(pid);
        let mut table = self.room.table();
        table.calls.retain(|_, (p, _)| *p != pid);
        table.closes.forget(pid);
        let deputy = table.deputies.remove(&pid)?;
        let files = [deputy.pidfd.as_fd()].into_iter().chain(deputy.threads.values().map(|t| t.channel().as_fd()));
        self.room.poller.remove_process(pid, files);
        Some(deputy)
    }

    /// The process goes on at home by itself: nothing of it is watched, and nothing is told to it.
    fn dismiss(&mut self, pid: i32, memory: Option<OwnedFd>) {
        self.listen_once_more(pid);
        self.room.poller.forget_process(pid);
        let mut table = self.room.table();
        match (memory, table.deputies.get(&pid)) {
            (Some(memory), Some(deputy)) => self.room.watchdog.entrust_with_memory(pid, &deputy.pidfd, &memory),
            _ => self.room.watchdog.dismiss(pid),
        }
        table.calls.retain(|_, (p, _)| *p != pid);
        table.closes.forget(pid);
        table.deputies.remove(&pid);
    }

    fn listen(&mut self, key: u64, pid: i32, tid: i32) {
        on_account_of(pid);
        if self.listen_to(pid, tid, PACKETS_AT_ONCE) {
            return;
        }
        self.room.poller.forget(key);
        if let Some(deputy) = self.room.table().deputies.get_mut(&pid) {
            deputy.threads.remove(&tid);
        }
    }

    /// Hears what a thread has said, at most so many packets: one that says much has the others
    /// wait no longer than that. `false`: it will say no more.
    fn listen_to(&mut self, pid: i32, tid: i32, packets_max: usize) -> bool {
        for _ in 0..packets_max {
            let said = {
                let table = self.room.table();
                let Some(thread) = table.deputies.get(&pid).and_then(|d| d.threads.get(&tid)) else { return false };
                hear(pid, thread.channel(), &mut self.buffer)
            };
            match said {
                Ok(Some(said)) => self.said(pid, tid, said),
                Ok(None) => return true,
                Err(HearError::Closed) => return false,
                Err(HearError::NotTrusted(why)) => {
                    self.expel(pid, &why);
                    return false;
                }
            }
        }
        // The poller tells again of what is left.
        true
    }

    /// The process is no deputy, whatever it says: its body ends, and nothing is done for it any
    /// more. The process itself ends with it while it is still its user's; a program that gives
    /// rights is not the steward's to kill.
    pub fn expel(&mut self, pid: i32, why: &ProofError) {
        let gone = self.room.table().deputies.remove(&pid);
        // One that was killed shows nothing of what it was.
        if gone.as_ref().is_none_or(|deputy| !deputy.pidfd.has_ended()) {
            tracing::warn!(pid, "a deputy is not trusted any more: {why}");
        }
        self.room.poller.forget_process(pid);
        self.room.watchdog.dismiss(pid);
        if let Some(deputy) = gone
            && deputy.proof.check_unchanged().is_ok()
        {
            let _ = deputy.pidfd.kill(libc::SIGKILL);
        }
        self.room.forget_calls(pid);
        self.room.tell(&ToRoom::Kill { pid });
    }

    pub fn said(&mut self, pid: i32, tid: i32, said: DeputyMessage) {
        match said {
            DeputyMessage::Ready { number, .. } => self.ready(pid, tid, number),
            DeputyMessage::Signal(info) => self.signal(pid, tid, info),
            DeputyMessage::Reply { result, out } => {
                let done = {
                    let mut table = self.room.table();
                    table.deputies.get_mut(&pid).and_then(|d| d.threads.get_mut(&tid)).and_then(|t| t.replied(result))
                };
                if let Some((job, result)) = done {
                    self.done(job, Replied { pid, tid, result, out });
                }
            }
        }
    }

    fn ready(&mut self, pid: i32, tid: i32, number: i32) {
        let proven = self.room.table().deputies.get_mut(&pid).filter(|_| tid == pid).map(|d| d.proof.begin());
        if let Some(Err(why)) = proven {
            return self.expel(pid, &why);
        }
        if let Some(thread) = self.room.table().deputies.get_mut(&pid).and_then(|d| d.threads.get_mut(&tid)) {
            thread.number = Some(number);
            thread.ready();
        }
    }

    /// What the process is does not change any more: its body can be made.
    fn describe(&mut self, pid: i32) {
        let mut table = self.room.table();
        let Some(program) = table.deputies.get(&pid).filter(|d| d.phase == Phase::Arriving).map(|d| d.program.clone())
        else {
            return;
        };
        let mut last = table.last_standin;
        let next = || {
            last += 1;
            StandinId(last)
        };
        let described = place::describe(pid, program, next);
        table.last_standin = last;
        let Some(deputy) = table.deputies.get_mut(&pid) else { return };
        // The description belongs to the caller only if the process has not changed meanwhile.
        if let Err(why) = deputy.proof.check_unchanged() {
            drop(table);
            return self.expel(pid, &why);
        }
        let owned = described.map_err(|e| e.to_string()).and_then(|place| {
            self.room.args.check_owner(pid, &place.credentials.uid)?;
            Ok(place)
        });
        match owned {
            Ok(place) => {
                let home_devices = deputy.manner.sees_home_devices();
                let place = room_protocol::message::Place { blocked: deputy.blocked, home_devices, ..place };
                deputy.phase = Phase::Placing;
                // What the program ignores is known now, and the room throws it away.
                deputy.give_any(Job::new(channel::order(abi::OP_IGNORE, [place.ignored, 0], &[]), Purpose::Nothing));
                deputy.credentials = place.credentials.clone();
                for descriptor in &place.descriptors {
                    deputy.standins.entry(descriptor.standin).or_default().push(descriptor.fd);
                }
                drop(table);
                self.room.place(place);
            }
            Err(e) => deputy.end(channel::order(abi::OP_EXIT, [125, 0], &[]), Some(&format!("tern: {e}\n"))),
        }
    }

    fn signal(&self, pid: i32, told_by: i32, info: [u8; 128]) {
        const SI_TKILL: i32 = -6;
        os::fault::past("signal");
        let code = i32::from_le_bytes([info[8], info[9], info[10], info[11]]);
        let tid = (code == SI_TKILL).then_some(told_by);
        let (signal, sender) = (
            i32::from_le_bytes([info[0], info[1], info[2], info[3]]),
            i32::from_le_bytes([info[16], info[17], info[18], info[19]]),
        );
        {
            let mut table = self.room.table();
            let Some(deputy) = table.deputies.get_mut(&pid) else { return };
            if let Some(thread) = deputy.threads.get_mut(&told_by) {
                thread.told(signal);
            }
            if signal == libc::SIGCONT {
                deputy.was_continued();
            }
        }
        if signal == libc::SIGCHLD
            && code > 0
            && self.room.table().deputies.get(&pid).is_some_and(|d| d.unborn.contains(&sender))
        {
            return;
        }
        if self.room.table().deputies.get_mut(&pid).is_some_and(|deputy| deputy.early.keep((tid, info))) {
            return;
        }
        let tell = || self.room.tell(&ToRoom::Signal { pid, tid, info: info.to_vec() });
        self.room.sessions.keep_signal(pid, tid, info, tell);
    }

    fn ended(&mut self, key: u64, pid: i32) {
        on_account_of(pid);
        self.room.poller.forget(key);
        let gone = self.room.table().deputies.remove(&pid);
        self.room.forget_calls(pid);
        if gone.is_some_and(|d| matches!(d.phase, Phase::Arriving | Phase::Placing | Phase::Away)) {
            self.room.tell(&ToRoom::Kill { pid });
        }
    }

    fn cancel(&mut self, id: CallId) {
        let mut table = self.room.table();
        let of = table.calls.get(&id).copied();
        let thread = of.and_then(|(pid, tid)| table.deputies.get_mut(&pid)?.threads.get_mut(&tid));
        let removed = thread.and_then(|thread| thread.cancel(id)).is_some();
        if removed || table.closes.cancel(id).is_some() {
            table.calls.remove(&id);
            drop(table);
            self.room.tell(&ToRoom::Return { id, result: -i64::from(libc::EINTR), out: Vec::new(), ready: None });
        }
    }

    /// Interrupts the threads that are to leave their calls; whether there are any.
    fn nudge(&self) -> bool {
        let mut table = self.room.table();
        let mut any = false;
        for (pid, deputy) in &mut table.deputies {
            on_account_of(*pid);
            let interrupts = deputy.threads.values().any(Thread::is_to_be_interrupted);
            // To another program the signal would be no such word.
            if interrupts && deputy.proof.check().is_err() {
                continue;
            }
            for (tid, _) in deputy.threads.iter().filter(|(_, t)| t.is_to_be_interrupted()) {
                any = true;
                // SAFETY: the process is held by its pidfd and has not been reaped by us; a reused
                // TID inside it is its own thread.
                unsafe { libc::syscall(libc::SYS_tgkill, *pid, *tid, abi::CANCEL_SIGNAL) };
            }
        }
        any
    }
}
