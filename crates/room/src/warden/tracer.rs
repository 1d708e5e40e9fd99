//! The tracer: one thread, for ptrace belongs to a thread. It starts bodies, numbers their threads, carries signals, and sees how they end.

mod arriving;
mod births;
mod bodies;
mod cpu_times;
mod deadlines;
mod departing;
mod dying;
mod executing;
mod family;
mod held;
mod ignored;
mod injected;
mod locked;
mod needless;
mod onward;
mod owed;
mod porters;
mod sending;
mod sharing;
pub(crate) mod shown;
mod signals;
mod stops;
mod together;
mod told;
mod unmade;

use super::shared::Shared;
use super::standins::Asked;
use crate::porter::{Answer, Channels, Notice, hear};
use arriving::Arriving;
use births::Births;
use bodies::Bodies;
use body::Window;
use departing::Departing;
use dying::Dying;
use held::Held;
use image::Image;
use injected::Injected;
use needless::Needless;
use os::inject::Memory;
use os::ptrace::{self, Event, HostTid};
use os::userfault::Userfault;
use porters::Porter;
pub use sending::{pages_within, send_dense, send_image};
pub use shown::Which;
use signals::Signals;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use stops::Stops;
use unmade::Unmade;
use wire::message::{CallId, Place, StandinId};
use wire::{Refusal, ToHome};

/// What other threads want of the tracer.
#[derive(Debug)]
pub enum Order {
    /// Make the process of a body that will be placed.
    Expect {
        /// Its number.
        pid: i32,
    },
    /// Start a body.
    Place(Box<Place>),
    /// Home made a deputy or a thread of one (its number), or could not (negative error number).
    Reserved {
        /// Who waits for it.
        host: HostTid,
        /// The number.
        result: i64,
    },
    /// A signal arrived at the deputy.
    Signal {
        /// The process.
        pid: i32,
        /// The thread, if it was for one.
        tid: Option<i32>,
        /// siginfo.
        info: [u8; 128],
    },
    /// Home has run the call that this thread waits in: the tracer gives the result.
    Answer {
        /// The thread.
        host: HostTid,
    },
    /// A call whose thread is held for it has ended at home.
    Ended {
        /// The call.
        id: CallId,
        /// Its result.
        result: i64,
    },
    /// A thread has written to a FIFO that nobody reads.
    BrokenPipe {
        /// The thread.
        host: HostTid,
        /// What its write says, behind the signal.
        reply: homefs::client::LateReply,
    },
    /// A thread executes what home alone can execute.
    BeginsAtHome {
        /// The thread.
        host: HostTid,
        /// What its call says, if its process cannot go home.
        reply: homefs::client::LateReply,
    },
    /// A thread that waits for a file was woken by a signal, which another may have taken: it stops before it goes on, so that its call is made again.
    Interrupted {
        /// The thread.
        host: HostTid,
        /// What comes next.
        then: Afterwards,
    },
    /// A request for a stand-in has ended so; a signal came before.
    Finish {
        /// The request.
        asked: Asked,
        /// Its result.
        result: i64,
    },
    /// The deputy is stopped: the body stops too.
    Stop {
        /// The process.
        pid: i32,
    },
    /// A body whose stop home was asked for goes on.
    GoOn {
        /// The process.
        pid: i32,
    },
    /// A thread's call at its listener is made again when descriptors look as at home.
    Show {
        /// The thread.
        host: HostTid,
        /// Those.
        which: Which,
    },
    /// A thread has opened a device, which looks as at home when it has it.
    Opened {
        /// The thread.
        host: HostTid,
        /// Its request.
        unique: u64,
        /// What stands for the device.
        standin: StandinId,
    },
    /// Home has the files that a body that leaves has in common with others, or why not.
    Shared {
        /// Who leaves.
        pid: i32,
        /// Process, stand-in, and number of its deputy's descriptor.
        result: Result<Vec<(i32, StandinId, i32)>, Refusal>,
    },
    /// A body cannot go home to die, or to make a process.
    StayHere {
        /// The process.
        pid: i32,
    },
    /// End a body.
    Kill {
        /// The process.
        pid: i32,
    },
    /// Lay out the memory of a body that comes.
    Map {
        /// The process.
        pid: i32,
        /// What it is.
        image: Arc<Image>,
        /// How its memory is written, or why it could not be laid out.
        answer: Sender<Result<(Memory, Vec<Window>), String>>,
    },
    /// Watch the missing pages of a body that comes.
    Watch {
        /// The process.
        pid: i32,
        /// Pages that have come, and come again: these are missing too.
        stale: Vec<body::Run>,
        /// How, or why not.
        answer: Sender<Result<Userfault, String>>,
    },
    /// All pages of a body that comes are there, but those that follow.
    Rebuild {
        /// The process.
        pid: i32,
        /// What it is, if its memory is still to be made to fit that.
        image: Option<Arc<Image>>,
        /// Pages that are not there any more.
        gone: Vec<body::Run>,
        /// Another room brought it: signals that wait for it are in its image alone.
        onward: bool,
    },
    /// A body that has come, or was to leave, runs here.
    Resume {
        /// The process.
        pid: i32,
    },
    /// A body is to leave.
    Recall {
        /// The process.
        pid: i32,
        /// If it has so many bytes of its own, pages may follow when it goes on at home.
        follow_bytes: u64,
        /// How its pages go.
        pace: strategy::Pace,
        /// To another room, by the way that was made.
        onward: bool,
        /// Home, where what was sent ahead in this try is in place.
        ahead: Option<wire::message::onward::Ticket>,
        /// What becomes of those with which it shares memory.
        family: wire::message::Family,
    },
    /// The memory of a body is to go home while it runs.
    Homeward {
        /// The process.
        pid: i32,
        /// How.
        wish: wire::message::onward::Homeward,
    },
    /// Home wants to know what a body holds that may go to another room.
    Outline {
        /// The process.
        pid: i32,
    },
    /// The memory of a body is to go to another room while it runs.
    Ahead {
        /// The process.
        pid: i32,
        /// How.
        wish: wire::message::onward::Ahead,
    },
    /// A body that was to leave goes on elsewhere.
    Release {
        /// The process.
        pid: i32,
    },
}

/// What follows when a thread is certain to stop.
#[derive(Debug)]
pub enum Afterwards {
    /// Home need not answer it any more.
    Cancel(CallId),
    /// It is answered.
    Give(homefs::client::LateReply),
}

/// The way to the tracer.
pub struct Orders {
    queue: Mutex<VecDeque<Order>>,
    bell: OwnedFd,
}

impl Orders {
    /// An empty queue.
    pub fn new() -> os::Result<Orders> {
        Ok(Orders { queue: Mutex::default(), bell: os::fds::event()? })
    }

    /// Puts an order at the end.
    pub fn give(&self, order: Order) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(order);
        os::fds::wake(self.bell.as_fd());
    }

    fn next(&self) -> Option<Order> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

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
    needless: Needless,
    held: Held,
    arriving: Arriving,
    departing: Departing,
    dying: Dying,
    unmade: Unmade,
    listeners: Arc<super::notices::Listeners>,
}

/// What the tracer starts with.
pub struct Parts {
    /// The room.
    pub room: Arc<Shared>,
    /// The porter, in the warden's numbers.
    pub porter: HostTid,
    /// The warden's ends of the porter's sockets.
    pub channels: Channels,
    /// Becomes readable with SIGCHLD.
    pub children: OwnedFd,
    /// Where new listeners go.
    pub listeners: Arc<super::notices::Listeners>,
}

/// Runs until the porter is gone.
pub fn run(parts: Parts) -> os::Result<()> {
    let Parts { room, porter, channels, children, listeners } = parts;
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
        needless: Needless::default(),
        held: Held::default(),
        arriving: Arriving::default(),
        departing: Departing::default(),
        dying: Dying::default(),
        unmade: Unmade::default(),
        room,
        listeners,
    };
    loop {
        let room = tracer.room.clone();
        let watched = [children.as_fd(), room.orders.bell.as_fd(), tracer.porter.commands(), tracer.porter.notices()];
        let mut polled = watched.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        // SAFETY: live pollfds.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        os::fds::drain(room.orders.bell.as_fd());
        let _ = rustix::io::read(&children, &mut [0u8; 1024]);
        if polled[2].revents != 0 {
            let Some((answer, _)) = hear::<Answer>(tracer.porter.commands())? else { return Ok(()) };
            tracer.porter_answered(answer);
        }
        if polled[3].revents != 0 {
            let Some((notice, _)) = hear::<Notice>(tracer.porter.notices())? else { return Ok(()) };
            tracer.porter_noticed(notice);
        }
        while let Some(order) = room.orders.next() {
            tracer.obey(order);
        }
        while let Some((tid, event, usage)) = ptrace::poll()? {
            if tid == porter && matches!(event, Event::Exited(_) | Event::Killed(_)) {
                return Ok(());
            }
            tracer.event(tid, event, &usage);
        }
    }
}

impl Tracer {
    fn obey(&mut self, order: Order) {
        match order {
            Order::Expect { pid } => self.expect(pid),
            Order::Place(place) => self.place(*place),
            Order::Reserved { host, result } => self.reserved(host, result),
            Order::Answer { host } => self.interrupt_to_answer(host),
            Order::Ended { id, result } => self.held_ended(id, result),
            Order::Signal { pid, tid, info } => self.signal_from_home(pid, tid, info),
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
            Order::StayHere { pid } => {
                self.die_here(pid);
                self.fail_unmade(pid);
            }
            Order::Kill { pid } => self.kill(pid),
            Order::Map { pid, image, answer } => self.map_arriving(pid, image, &answer),
            Order::Watch { pid, stale, answer } => self.watch_arriving(pid, &stale, &answer),
            Order::Rebuild { pid, image, gone, onward } => self.rebuild_arriving(pid, image, &gone, onward),
            Order::Resume { pid } => {
                if !self.resume_arrived(pid) && !self.follows(pid) {
                    self.stay(pid);
                }
            }
            Order::Recall { pid, follow_bytes, pace, onward, ahead, family } => {
                self.recall(pid, (follow_bytes, pace), (onward, family), ahead);
            }
            Order::Homeward { pid, wish } => self.send_homeward(pid, wish),
            Order::Outline { pid } => self.outline(pid),
            Order::Ahead { pid, wish } => self.send_ahead(pid, wish),
            Order::Release { pid } => self.vanish(pid),
        }
    }

    fn event(&mut self, tid: HostTid, event: Event, usage: &ptrace::UsageBytes) {
        // Before it goes on: else it may come to its program first, with an EINTR that is only due to us.
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
                self.ended(tid, wire::message::Ending::Exit(status), usage);
                Ok(())
            }
            Event::Killed(signal) => {
                self.ended(tid, wire::message::Ending::Signal(signal), usage);
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

    /// Any other stop makes the kernel forget that a thread was asked to stop (ptrace_stop in kernel/signal.c).
    fn interrupt_again(&self, host: HostTid) {
        self.interrupt_leaving(host);
        self.interrupt_to_send(host);
    }

    fn refuse_call(&self, host: HostTid, nr: u32, why: &str) {
        if let Some(who) = self.room.guests().who(host) {
            self.room.refused(who.pid, nr, why);
        }
    }

    fn expect_birth(&self, host: HostTid) -> CallId {
        self.room.expect(super::shared::Pending::Birth { host })
    }
}
