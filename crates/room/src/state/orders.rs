//! The tracer's queue: what other threads want of it.
//!
//! Nobody fills it. What a guest's own thread causes waits for an answer, so that there is little
//! of it. Signals wait for nobody: of standard ones each waits once for each target, as in the
//! kernel, and of real-time ones so many. What is left comes from home, which has no reason to send
//! much: a home that does loses its room ([`Orders::is_flooded`]).

use crate::state::files::standins::requests::StandinRequest;
use crate::state::ledger::is_end;
use checkpoint::Window;
use image::Image;
use os::inject::Memory;
use os::ptrace::HostTid;
use os::signals;
use os::userfault::Userfault;
use room_protocol::Refusal;
use room_protocol::message::{CallId, MemoryId, Place, StandinId};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most signals that wait in it of those that are queued each time that they are sent.
const QUEUED_MAX: usize = 1 << 15;
/// More orders than all threads that a room may have give rise to.
const ORDERS_MAX: usize = 1 << 17;

/// What other threads want of the tracer.
#[derive(Debug)]
pub enum Order {
    /// Make the process of a body that will be placed.
    Expect {
        /// PID of the process.
        pid: i32,
    },
    /// Start a body.
    Place(Box<Place>),
    /// Home made a deputy or a thread of one (its number), or could not (negative error number).
    Reserved {
        /// Who waits for it.
        host: HostTid,
        /// The number that the call returns.
        result: i64,
    },
    /// A signal arrived at the deputy.
    Signal {
        /// PID of the process that this is about.
        pid: i32,
        /// The thread, if it was for one.
        tid: Option<i32>,
        /// The siginfo of the signal.
        info: [u8; 128],
    },
    /// Home has run the call that this thread waits in: the tracer gives the result.
    Answer {
        /// TID of the thread on this node.
        host: HostTid,
    },
    /// A call whose thread is held for it has ended at home.
    Ended {
        /// The id of the call.
        id: CallId,
        /// The result of the call.
        result: i64,
    },
    /// A thread has written to a FIFO that nobody reads.
    BrokenPipe {
        /// TID of the thread on this node.
        host: HostTid,
        /// What its write says, behind the signal.
        reply: homefs::client::LateReply,
    },
    /// A thread executes what home alone can execute.
    BeginsAtHome {
        /// TID of the thread on this node.
        host: HostTid,
        /// What its call says, if its process cannot go home.
        reply: homefs::client::LateReply,
    },
    /// A thread that waits for a file was woken by a signal, which another may have taken: it stops
    /// before it goes on, so that its call is made again.
    Interrupted {
        /// TID of the thread on this node.
        host: HostTid,
        /// What comes next.
        then: Afterwards,
    },
    /// A request for a stand-in has ended so; a signal came before.
    Finish {
        /// The request that is answered.
        asked: StandinRequest,
        /// The result of the call.
        result: i64,
    },
    /// A parent hears of the end of a child, whose body may live still.
    TellEnd {
        /// PID of the child.
        child: i32,
        /// The parent's news.
        news: News,
    },
    /// The deputy is stopped: the body stops too.
    Stop {
        /// PID of the process that this is about.
        pid: i32,
    },
    /// A body whose stop home was asked for goes on.
    GoOn {
        /// PID of the process that this is about.
        pid: i32,
    },
    /// A thread's call at its listener is made again when descriptors look as at home.
    Show {
        /// TID of the thread on this node.
        host: HostTid,
        /// The descriptors that are meant.
        which: Which,
    },
    /// A thread has opened a device, which looks as at home when it has it.
    Opened {
        /// TID of the thread on this node.
        host: HostTid,
        /// The number of the request.
        unique: u64,
        /// What stands for the device.
        standin: StandinId,
    },
    /// A thread waits in a call that passes descriptors of the room's own to home: their files
    /// become home's.
    Pass {
        /// TID of the thread on this node.
        host: HostTid,
        /// Numbers of the descriptors.
        fds: BTreeSet<i32>,
    },
    /// A stand-in becomes a stream.
    Stream {
        /// The stand-in that is meant.
        standin: StandinId,
    },
    /// A stream becomes a stand-in again.
    Unstream {
        /// The stand-in that is meant.
        standin: StandinId,
    },
    /// Home has the files that a body that leaves has in common with others, or those that it
    /// passes, or why not.
    Shared {
        /// The process that leaves, or passes them.
        pid: i32,
        /// Process, stand-in, and number of its deputy's descriptor.
        result: Result<Vec<(i32, StandinId, i32)>, Refusal>,
    },
    /// A body cannot go home to die, or to make a process.
    StayHere {
        /// PID of the process that this is about.
        pid: i32,
    },
    /// End a body on whose account the warden has failed.
    Lose {
        /// PID of the process that this is about.
        pid: i32,
        /// What failed, and why.
        why: String,
    },
    /// End a body.
    Kill {
        /// PID of the process that this is about.
        pid: i32,
    },
    /// Lay out the memory of a body that comes.
    Map {
        /// PID of the process that this is about.
        pid: i32,
        /// What it is.
        image: Arc<Image>,
        /// How its memory is written, or why it could not be laid out.
        answer: Sender<Result<(Memory, Vec<Window>), String>>,
    },
    /// A body comes with others, which share memory with it.
    Memories {
        /// PID of the process that this is about.
        pid: i32,
        /// The try of home in which they come.
        group: u32,
        /// The identities of its memories at home, in the order of the image.
        memories: Vec<MemoryId>,
    },
    /// Watch the missing pages of a body that comes.
    Watch {
        /// PID of the process that this is about.
        pid: i32,
        /// Pages that have come, and come again: these are missing too.
        stale: Vec<checkpoint::Run>,
        /// How, or why not.
        answer: Sender<Result<Userfault, String>>,
    },
    /// All pages of a body that comes are there, but those that follow.
    Rebuild {
        /// PID of the process that this is about.
        pid: i32,
        /// What it is, if its memory is still to be made to fit that.
        image: Option<Arc<Image>>,
        /// Pages that are not there any more.
        gone: Vec<checkpoint::Run>,
    },
    /// A body that has come, or was to leave, runs here.
    Resume {
        /// PID of the process that this is about.
        pid: i32,
    },
    /// A body is to leave.
    Recall {
        /// PID of the process that this is about.
        pid: i32,
        /// The wish of home.
        recall: Recall,
    },
    /// The memory of a body is to go home while it runs.
    Homeward {
        /// PID of the process that this is about.
        pid: i32,
        /// Way in which the memory goes.
        wish: room_protocol::message::onward::Homeward,
    },
    /// Home wants to know what a body holds that may go to another room.
    Outline {
        /// PID of the process that this is about.
        pid: i32,
    },
    /// The memory of a body is to go to another room while it runs.
    Ahead {
        /// PID of the process that this is about.
        pid: i32,
        /// Way in which the memory goes.
        wish: room_protocol::message::onward::Ahead,
    },
    /// A body that was to leave goes on elsewhere.
    Release {
        /// PID of the process that this is about.
        pid: i32,
    },
    /// All bodies stand still, until they are woken.
    Suspend,
    /// All bodies go on.
    Wake,
}

impl Order {
    /// The thread that it is about, where it is about one.
    pub fn thread(&self) -> Option<HostTid> {
        match self {
            Order::Reserved { host, .. }
            | Order::Answer { host }
            | Order::BrokenPipe { host, .. }
            | Order::BeginsAtHome { host, .. }
            | Order::Interrupted { host, .. }
            | Order::Show { host, .. }
            | Order::Pass { host, .. }
            | Order::Opened { host, .. } => Some(*host),
            _ => None,
        }
    }

    /// The process that it is about, where it names one.
    pub fn process(&self) -> Option<i32> {
        match self {
            Order::Place(place) => Some(place.pid),
            Order::Finish { asked, .. } => Some(asked.pid),
            Order::Expect { pid }
            | Order::Signal { pid, .. }
            | Order::TellEnd { child: pid, .. }
            | Order::Stop { pid }
            | Order::GoOn { pid }
            | Order::Shared { pid, .. }
            | Order::StayHere { pid }
            | Order::Lose { pid, .. }
            | Order::Kill { pid }
            | Order::Map { pid, .. }
            | Order::Memories { pid, .. }
            | Order::Watch { pid, .. }
            | Order::Rebuild { pid, .. }
            | Order::Resume { pid }
            | Order::Recall { pid, .. }
            | Order::Homeward { pid, .. }
            | Order::Outline { pid }
            | Order::Ahead { pid, .. }
            | Order::Release { pid } => Some(*pid),
            _ => None,
        }
    }
}

/// How home wants a body to leave.
#[derive(Debug)]
pub struct Recall {
    /// If the body has at least so many bytes of its own, pages may follow when it runs elsewhere.
    pub follow_bytes: u64,
    /// The pace of its pages.
    pub pace: migration_plan::Pace,
    /// The body goes to another room, by the way that was made, and not home.
    pub onward: bool,
    /// The try in which its memory was sent home while it ran.
    pub ahead: Option<room_protocol::message::onward::Ticket>,
    /// The destination of the processes with which it shares memory.
    pub family: room_protocol::message::Family,
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
    queue: Mutex<Queue>,
    bell: OwnedFd,
}

/// Process, thread if it is for one, and number of a signal.
type Key = (i32, Option<i32>, i32);

#[derive(Default)]
struct Queue {
    orders: VecDeque<Order>,
    /// Signals in it that are not queued twice.
    standard: HashSet<Key>,
    /// Number of the others.
    queued: usize,
}

/// Which signal an order is.
fn key(order: &Order) -> Option<Key> {
    match order {
        Order::Signal { pid, tid, info } => Some((*pid, *tid, signals::number(info))),
        _ => None,
    }
}

impl Queue {
    /// Adds an order, unless it is a signal that waits already, or one too many.
    fn give(&mut self, order: Order) {
        let takes = match key(&order) {
            Some(key) if signals::is_queued(key.2) => {
                self.queued += 1;
                self.queued <= QUEUED_MAX
            }
            Some(key) => self.standard.insert(key),
            None => true,
        };
        if takes {
            self.orders.push_back(order);
        }
        self.queued = self.queued.min(QUEUED_MAX);
    }

    fn next(&mut self) -> Option<Order> {
        let order = self.orders.pop_front()?;
        match key(&order) {
            Some(key) if signals::is_queued(key.2) => self.queued -= 1,
            Some(key) => drop(self.standard.remove(&key)),
            None => {}
        }
        Some(order)
    }
}

impl Orders {
    /// An empty queue.
    pub fn new() -> os::Result<Orders> {
        Ok(Orders { queue: Mutex::default(), bell: os::fds::event()? })
    }

    /// Puts an order at the end. A signal that waits already is not queued again, and one too many
    /// is dropped.
    pub fn give(&self, order: Order) {
        self.lock().give(order);
        os::fds::wake(self.bell.as_fd());
    }

    /// Home has sent more than the room can be behind with.
    pub fn is_flooded(&self) -> bool {
        self.lock().orders.len() > ORDERS_MAX
    }

    pub fn next(&self) -> Option<Order> {
        self.lock().next()
    }

    /// Becomes readable when there are orders.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A word of home's about a child.
#[derive(Debug)]
pub enum News {
    /// The parent has waited for it: the result of its call.
    Wait {
        /// The id of the call.
        id: CallId,
        /// The result of the call.
        result: i64,
        /// The bytes that it wrote.
        out: Vec<u8>,
    },
    /// The SIGCHLD that tells the parent.
    Signal {
        /// PID of the parent.
        pid: i32,
        /// The thread that it is for, if it is for one.
        tid: Option<i32>,
        /// The signal as the parent gets it (siginfo_t of sigaction(2)).
        info: [u8; 128],
    },
}

/// The descriptors that are to be shown.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    /// Only this descriptor.
    One(i32),
    /// The one that the thread's call has returned; it may have an offset, or never has one.
    Returned { has_offset: bool },
    /// All that there are.
    All,
    /// Those of the file system, in the call that the thread makes: about a descriptor of which
    /// home would be asked, were that a stand-in.
    Devices,
}

/// The child of whose end this signal tells.
pub fn ended_child(info: &[u8; 128]) -> Option<i32> {
    let word = |at: usize| i32::from_le_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    (signals::number(info) == libc::SIGCHLD && is_end(word(8))).then(|| word(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(pid: i32, signal: i32) -> Order {
        let mut info = [0; 128];
        info[..4].copy_from_slice(&signal.to_le_bytes());
        Order::Signal { pid, tid: None, info }
    }

    /// What is left, one word each.
    fn drain(queue: &mut Queue) -> Vec<String> {
        let show = |order| match order {
            Order::Signal { pid, info, .. } => format!("{pid}:{}", signals::number(&info)),
            Order::Stop { pid } => format!("{pid}:stop"),
            _ => "other".into(),
        };
        std::iter::from_fn(|| queue.next()).map(show).collect()
    }

    #[test]
    fn a_flood_of_standard_signals_is_one_order() {
        let mut queue = Queue::default();
        (0..100_000).for_each(|_| queue.give(signal(7, libc::SIGUSR1)));
        queue.give(signal(8, libc::SIGUSR1));
        assert_eq!(drain(&mut queue), ["7:10", "8:10"]);
        queue.give(signal(7, libc::SIGUSR1));
        assert_eq!(drain(&mut queue), ["7:10"], "it had been taken");
    }

    #[test]
    fn real_time_signals_are_bounded_and_leave_room_for_others() {
        let mut queue = Queue::default();
        (0..QUEUED_MAX + 5).for_each(|_| queue.give(signal(7, 34)));
        queue.give(Order::Kill { pid: 8 });
        queue.give(signal(8, libc::SIGTERM));
        let left = drain(&mut queue);
        assert_eq!((left.len(), left.last().map(String::as_str)), (QUEUED_MAX + 2, Some("8:15")));
        queue.give(signal(7, 34));
        assert_eq!(queue.queued, 1);
    }

    #[test]
    fn stops_and_continuations_keep_their_order() {
        let mut queue = Queue::default();
        let (cont, stop) = (|| signal(7, libc::SIGCONT), || signal(7, libc::SIGTSTP));
        [cont(), Order::Stop { pid: 7 }, cont(), stop(), cont(), stop()].into_iter().for_each(|o| queue.give(o));
        assert_eq!(drain(&mut queue), ["7:18", "7:stop", "7:18", "7:20", "7:18", "7:20"]);
    }
}
