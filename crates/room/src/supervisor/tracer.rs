//! The tracer: one thread, for ptrace belongs to a thread. It starts bodies, numbers their threads,
//! carries signals, and sees how they end.

pub mod arriving;
pub mod births;
pub mod bodies;
pub mod capture;
pub mod contain;
pub mod cpu_times;
pub mod deadlines;
pub mod departing;
pub mod dying;
pub mod ends;
pub mod entering;
pub mod executing;
pub mod family;
pub mod fd_delivery;
pub mod fstat_filters;
pub mod ignored;
pub mod injected;
pub mod interrupted_calls;
pub mod locked;
pub mod memory_group;
pub mod onward;
pub mod passing;
pub mod porters;
pub mod rights;
pub mod sharing;
pub mod sigio_fd;
pub mod signals;
pub mod stale_stops;
pub mod state;
pub mod stops;
pub mod streaming;
pub mod suspension;
pub mod unsupported_clone;
pub mod written_back;

use crate::sandbox::porter::{Answer, Channels, Notice, hear};
use crate::state::orders::{Afterwards, News, Order, Which, ended_child};
use crate::state::shared::Shared;
use crate::supervisor::tracer::state::arriving::Arriving;
use crate::supervisor::tracer::state::births::Births;
use crate::supervisor::tracer::state::bodies::Bodies;
use crate::supervisor::tracer::state::departing::Departing;
use crate::supervisor::tracer::state::dying::Dying;
use crate::supervisor::tracer::state::ends::Ends;
use crate::supervisor::tracer::state::entering::Entering;
use crate::supervisor::tracer::state::injected::Injected;
use crate::supervisor::tracer::state::interrupted_calls::InterruptedCalls;
use crate::supervisor::tracer::state::lost::Lost;
use crate::supervisor::tracer::state::porter::Porter;
use crate::supervisor::tracer::state::signals::Signals;
use crate::supervisor::tracer::state::stale_stops::StaleStops;
use crate::supervisor::tracer::state::stops::Stops;
use crate::supervisor::tracer::state::suspension::Kept;
use crate::supervisor::tracer::state::unsupported_clone::UnsupportedCalls;
use os::ptrace::{self, Event, HostTid};
use room_protocol::ToHome;
use room_protocol::message::{CallId, Ending};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// So many orders are obeyed, and so many stops handled, before the other kind has its turn.
const AT_ONCE: usize = 256;

/// The tracer's own state.
struct Tracer {
    room: Arc<Shared>,
    porter: Porter,
    births: Births,
    /// Threads whose call makes a duplicate of a stand-in, which has an offset or has none.
    duplicating: HashMap<HostTid, bool>,
    bodies: Bodies,
    signals: Signals,
    stops: Stops,
    injected: Injected,
    stale_stops: StaleStops,
    interrupted_calls: InterruptedCalls,
    arriving: Arriving,
    departing: Departing,
    dying: Dying,
    ends: Ends,
    entering: Entering,
    unsupported_calls: UnsupportedCalls,
    lost: Lost,
    /// Stops since the room was suspended, while it is.
    kept_stops: Option<Vec<Kept>>,
    listeners: Arc<crate::state::listeners::Listeners>,
    wait_answered: WaitAnswered,
}

/// Goes on with a wait(2) that home has answered, when the child's body has ended here too: the
/// call's id, its result, and the bytes that it wrote.
pub type WaitAnswered = Box<dyn Fn(CallId, i64, Vec<u8>) + Send>;

/// What the tracer starts with.
pub struct Parts {
    /// The room that is meant.
    pub room: Arc<Shared>,
    /// The porter, in the warden's numbers.
    pub porter: HostTid,
    /// The warden's ends of the porter's sockets.
    pub channels: Channels,
    /// Becomes readable with SIGCHLD.
    pub children: OwnedFd,
    /// Where new listeners go.
    pub listeners: Arc<crate::state::listeners::Listeners>,
    /// Goes on with calls that told of a child's end.
    pub wait_answered: WaitAnswered,
}

/// Runs until the porter is gone.
pub fn run(parts: Parts) -> os::Result<()> {
    let Parts { room, porter, channels, children, listeners, wait_answered } = parts;
    os::warm::up();
    if let Err(e) = ptrace::seize(porter) {
        return Err(os::Error::new("tracing the porter", std::io::Error::other(e)));
    }
    let mut tracer = Tracer {
        porter: Porter::new(porter, channels),
        births: Births::default(),
        duplicating: HashMap::new(),
        bodies: Bodies::default(),
        signals: Signals::default(),
        stops: Stops::default(),
        injected: Injected::default(),
        stale_stops: StaleStops::default(),
        interrupted_calls: InterruptedCalls::default(),
        arriving: Arriving::default(),
        departing: Departing::default(),
        dying: Dying::default(),
        ends: Ends::default(),
        entering: Entering::default(),
        unsupported_calls: UnsupportedCalls::default(),
        lost: Lost::default(),
        kept_stops: None,
        room,
        listeners,
        wait_answered,
    };
    let mut is_behind = false;
    loop {
        let room = tracer.room.clone();
        let watched = [children.as_fd(), room.orders.bell(), tracer.porter.commands(), tracer.porter.notices()];
        let mut polled = watched.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        // SAFETY: live pollfds.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, if is_behind { 0 } else { -1 }) };
        os::fds::drain(room.orders.bell());
        let _ = rustix::io::read(&children, &mut [0u8; 1024]);
        if polled[2].revents != 0 {
            let Some((answer, _)) = hear::<Answer>(tracer.porter.commands())? else { return Ok(()) };
            tracer.contain(|this| this.porter_answered(answer));
            tracer.porter.go_on();
        }
        if polled[3].revents != 0 {
            let Some((notice, _)) = hear::<Notice>(tracer.porter.notices())? else { return Ok(()) };
            tracer.contain(|this| this.porter_noticed(notice));
        }
        // In turn: neither a guest that stops all the time nor a flood from home keeps the tracer
        // from the rest.
        let orders = (0..AT_ONCE).map_while(|_| room.orders.next());
        let obeyed = orders.map(|order| tracer.contain(|this| this.obey(order))).count();
        let mut seen = 0;
        while seen < AT_ONCE
            && let Some((tid, event, usage)) = ptrace::poll()?
        {
            if tid == porter && matches!(event, Event::Exited(_) | Event::Killed(_)) {
                return Ok(());
            }
            if let Some(Kept { tid, event, usage }) = tracer.keep_stop(tid, event, usage) {
                tracer.contain_event(tid, event, &usage);
            }
            seen += 1;
        }
        tracer.contain(Tracer::tell_ends);
        is_behind = obeyed == AT_ONCE || seen == AT_ONCE;
    }
}

impl Tracer {
    fn obey(&mut self, order: Order) {
        let account = order.process().or_else(|| self.room.process(order.thread()?));
        account.into_iter().for_each(os::contain::on_account_of);
        match order {
            Order::Lose { pid, why } => self.lose(pid, why),
            Order::Expect { pid } => self.expect(pid),
            Order::Place(place) => self.place(*place),
            Order::Reserved { host, result } => self.reserved(host, result),
            Order::Answer { host } => self.interrupt_to_answer(host),
            Order::Ended { id, result } => self.held_ended(id, result),
            Order::Signal { pid, tid, info } => match ended_child(&info) {
                Some(child) => self.tell_end(child, News::Signal { pid, tid, info }),
                None => self.signal_from_home(pid, tid, info),
            },
            Order::TellEnd { child, news } => self.tell_end(child, news),
            Order::BrokenPipe { host, reply } => {
                self.broken_pipe(host);
                reply.give();
            }
            Order::BeginsAtHome { host, reply } => self.execute_at_home(host, reply),
            Order::Interrupted { host, then } => {
                // One that is gone needs no answer.
                drop(ptrace::interrupt(host));
                match then {
                    Afterwards::Cancel(id) => self.room.tell(&ToHome::Cancel { id }),
                    Afterwards::Give(reply) => reply.give(),
                }
            }
            Order::Finish { asked, result } => self.room.standins.finish(asked, result, &[]),
            Order::Stop { pid } => self.stop(pid),
            Order::GoOn { pid } => self.go_on(pid),
            Order::Show { host, which } => self.show(host, which),
            Order::Opened { host, unique, standin } => {
                self.show(host, Which::Returned { has_offset: false });
                self.room.standins.opened(unique, Some(standin));
            }
            Order::Shared { pid, result } => self.share(pid, result),
            Order::Pass { host, fds } => self.pass(host, fds),
            Order::Stream { standin } => self.stream(standin),
            Order::Unstream { standin } => self.unstream(standin),
            Order::StayHere { pid } => {
                self.die_here(pid);
                self.fail_unmade(pid);
            }
            Order::Kill { pid } => self.kill(pid),
            Order::Map { pid, image, answer } => self.map_arriving(pid, image, &answer),
            Order::Memories { pid, group, memories } => self.arriving.groups.expect(pid, group, memories),
            Order::Watch { pid, stale, answer } => self.watch_arriving(pid, &stale, &answer),
            Order::Rebuild { pid, image, gone } => self.rebuild_arriving(pid, image, &gone),
            Order::Resume { pid } => {
                if !self.resume_arrived(pid) && !self.follows(pid) {
                    self.stay(pid);
                }
            }
            Order::Recall { pid, recall } => self.recall(pid, recall),
            Order::Homeward { pid, wish } => self.send_homeward(pid, wish),
            Order::Outline { pid } => self.outline(pid),
            Order::Ahead { pid, wish } => self.send_ahead(pid, wish),
            Order::Release { pid } => self.vanish(pid),
            Order::Suspend => self.suspend(),
            Order::Wake => self.wake(),
        }
    }

    fn event(&mut self, tid: HostTid, event: Event, usage: &ptrace::UsageBytes) {
        // Before it goes on: else it may come to its program first, with an EINTR that is only due
        // to us.
        let is_asked_again = !matches!(event, Event::Halt(..) | Event::Exited(_) | Event::Killed(_));
        if is_asked_again {
            self.interrupt_again(tid);
        }
        let handled = match event {
            Event::Signal(stopped, signal) => self.signal_stop(stopped, signal),
            Event::SystemCall(stopped) => self.call_done(stopped),
            Event::Filter(stopped) => self.filter_stop(stopped),
            Event::Exec(stopped, former) => self.exec_stop(stopped, former),
            Event::Halt(stopped, signal) => self.halt_stop(stopped, signal),
            Event::Made(stopped, child) => self.born(stopped, child),
            Event::Other(stopped) => stopped.resume(0),
            Event::Exited(status) => {
                self.ended(tid, Ending::Exit(status), usage);
                Ok(())
            }
            Event::Killed(ptrace::Death { signal, has_core }) => {
                let how = if has_core { Ending::Core(signal) } else { Ending::Signal(signal) };
                self.ended(tid, how, usage);
                Ok(())
            }
        };
        match handled {
            // A thread that was killed in its stop: its end is reported next.
            Ok(()) | Err(ptrace::TraceError::Gone) => {}
            Err(e) => tracing::error!("tracing {}: {e}", tid.0),
        }
        if !is_asked_again {
            self.interrupt_again(tid);
        }
    }

    /// Any other stop makes the kernel forget that a thread was asked to stop (ptrace_stop in
    /// kernel/signal.c).
    fn interrupt_again(&self, host: HostTid) {
        self.interrupt_leaving(host);
        self.interrupt_to_send(host);
    }

    fn refuse_call(&self, host: HostTid, nr: u32, why: &str) {
        if let Some(who) = self.room.guests().who(host) {
            self.room.home.refused(who.pid, nr, why);
        }
    }

    fn expect_birth(&self, host: HostTid) -> CallId {
        self.room.home.expect(crate::state::pending::Pending::Birth { host })
    }
}
