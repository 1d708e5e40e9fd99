//! The fast sampler: the lengths of sockets' queues, in periods of down to 100 us.
//!
//! A socket is read in one of two ways. A question to the kernel by netlink takes about 3 us and
//! touches nothing. A duplicate of the owner's descriptor (pidfd_getfd(2)) is read in half a
//! microsecond; but it is a reference: as long as it is there, the socket is not closed when its
//! owner closes it. So duplicates are held only where questions would take too long, and the slow
//! sampler has those dropped whose owner has closed the socket.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};

use super::clock::{self, Clock};
use crate::layer::socket;
use crate::pace::{self, Pace, Taken, Times};
use crate::parse::inet_diag::{self, Memory};
use crate::parse::unix_diag;
use crate::record::{Change, Record};
use crate::source::netlink::Netlink;

/// How one socket is read.
#[derive(Debug)]
pub enum Reader {
    /// Bytes of both queues, by a duplicate of its descriptor.
    Stream(Arc<OwnedFd>),
    /// Memory of both queues, by a duplicate of its descriptor.
    Datagrams(Arc<OwnedFd>),
    /// Bytes of both queues of a TCP socket, by a question.
    AskTcp(Vec<u8>),
    /// Memory of both queues of a UDP or raw socket, by a question.
    AskDatagrams(Vec<u8>),
    /// Bytes of both queues of a Unix stream, by a question.
    AskUnixStream(Vec<u8>),
    /// Memory of both queues of a Unix socket for datagrams, by a question.
    AskUnixDatagrams(Vec<u8>),
}

/// A socket that is read.
#[derive(Debug)]
pub struct Watched {
    /// Number of the object.
    pub object: u32,
    /// How it is read.
    pub reader: Reader,
    /// Which of the netlink sockets is asked.
    pub network: usize,
}

/// Tells the fast sampler what to read.
#[derive(Debug)]
pub enum Order {
    /// Read this socket, too.
    Watch(Watched),
    /// Do not read this object any more.
    Drop(u32),
    /// Questions for a further network go here.
    Network(Netlink),
}

/// Orders for the fast sampler, which looks whether there are any without waiting.
#[derive(Debug, Default)]
pub struct Orders {
    waiting: AtomicBool,
    orders: Mutex<Vec<Order>>,
}

impl Orders {
    /// Adds orders to those that wait.
    pub fn give(&self, orders: Vec<Order>) {
        if !orders.is_empty() {
            self.orders.lock().unwrap_or_else(PoisonError::into_inner).extend(orders);
            self.waiting.store(true, Ordering::Release);
        }
    }

    /// Takes all orders that wait.
    pub fn take(&self) -> Vec<Order> {
        if !self.waiting.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// State that both samplers share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The clock of all records.
    pub clock: Clock,
    /// Set when they shall end.
    pub ends: Arc<AtomicBool>,
    /// Where records go.
    pub sender: SyncSender<Vec<Record>>,
    /// Whether they run with SCHED_FIFO.
    pub first: bool,
}

impl Shared {
    /// Tells whether the sampler shall end.
    pub fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Prepares the calling thread. Gives why it does not run first, if it should.
    pub fn prepare_thread(&self) -> Option<String> {
        clock::wake_exactly();
        let denied = self.first.then(os::scheduling::run_first)?.err()?;
        Some(format!("--rt has no effect: {denied}"))
    }
}

/// Without sockets, orders are looked for so often, nanoseconds.
const IDLE_NS: u64 = 5_000_000;
/// Records are sent when there are so many, or so long after the first of them.
const BATCH: usize = 512;
const BATCH_NS: u64 = 20_000_000;
/// More than this many records wait for nobody: further ones are lost, and counted.
const WAITING_MAX: usize = 100_000;

/// How the fast sampler went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Went {
    /// How well it kept its period.
    pub pace: Pace,
    /// Records that were lost.
    pub lost: u64,
}

/// The fast sampler.
pub struct Fast {
    shared: Shared,
    orders: Arc<Orders>,
    progress: Arc<Mutex<Went>>,
    period_ns: u64,
    watched: Vec<Slot>,
    networks: Vec<Netlink>,
    pending: Vec<Record>,
    sent_ns: u64,
    went: Went,
    times: Times,
}

struct Slot {
    watched: Watched,
    before: Option<Lengths>,
}

/// The values of a socket's receive queue and send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lengths {
    rx: u64,
    tx: u64,
}

impl Fast {
    /// Makes the sampler. `progress` is written each time that records are sent.
    pub fn new(shared: Shared, orders: Arc<Orders>, progress: Arc<Mutex<Went>>, period_ns: u64) -> Fast {
        Fast {
            shared,
            orders,
            progress,
            period_ns,
            watched: Vec::new(),
            networks: Vec::new(),
            pending: Vec::new(),
            sent_ns: 0,
            went: Went::default(),
            times: Times::default(),
        }
    }

    /// Takes samples until it shall end.
    pub fn run(mut self) -> Went {
        if let Some(text) = self.shared.prepare_thread() {
            self.pending.push(Record::Note { at_us: self.shared.clock.now_us(), text });
        }
        let mut due_ns = self.shared.clock.now_ns() + self.period_ns;
        while !self.shared.ends() {
            self.shared.clock.wait_until(due_ns);
            let began_ns = self.shared.clock.now_ns();
            self.follow_orders();
            self.sample(began_ns / 1000);
            self.send_if_due(began_ns);
            let ended_ns = self.shared.clock.now_ns();
            if self.watched.is_empty() {
                // Nothing is sampled: only orders are looked for.
                due_ns = ended_ns + self.period_ns.max(IDLE_NS);
                continue;
            }
            self.times.count(ended_ns.saturating_sub(began_ns));
            due_ns = self.went.pace.count(Taken { due_ns, began_ns, ended_ns }, self.period_ns);
        }
        if let Some(text) = pace::advice(&self.went.pace, &self.times, self.period_ns) {
            let text = format!("{} sockets: {text}", self.watched.len());
            self.pending.push(Record::Note { at_us: self.shared.clock.now_us(), text });
        }
        // The collector takes all that comes until both samplers have ended.
        let _ = self.shared.sender.send(std::mem::take(&mut self.pending));
        self.went
    }

    fn follow_orders(&mut self) {
        for order in self.orders.take() {
            match order {
                Order::Watch(watched) => self.watched.push(Slot { watched, before: None }),
                Order::Drop(object) => self.watched.retain(|slot| slot.watched.object != object),
                Order::Network(netlink) => self.networks.push(netlink),
            }
        }
    }

    fn sample(&mut self, at_us: u64) {
        for slot in &mut self.watched {
            let Some(lengths) = read(&slot.watched, &mut self.networks) else { continue };
            if slot.before == Some(lengths) {
                continue;
            }
            if self.pending.len() >= WAITING_MAX {
                self.went.lost += 1;
                continue;
            }
            let [rx, tx] = slot.watched.reader.columns();
            let is_new = |length: u64, before: fn(&Lengths) -> u64| slot.before.as_ref().map(before) != Some(length);
            let mut changes = Vec::with_capacity(2);
            if is_new(lengths.rx, |before| before.rx) {
                changes.push(Change::exact(rx, lengths.rx));
            }
            if is_new(lengths.tx, |before| before.tx) {
                changes.push(Change::exact(tx, lengths.tx));
            }
            slot.before = Some(lengths);
            self.pending.push(Record::Sample { at_us, object: slot.watched.object, changes });
        }
    }

    fn send_if_due(&mut self, now_ns: u64) {
        if self.pending.len() >= BATCH || now_ns.saturating_sub(self.sent_ns) >= BATCH_NS {
            self.sent_ns = now_ns;
            self.send();
        }
    }

    fn send(&mut self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = self.went;
        if self.pending.is_empty() {
            return;
        }
        match self.shared.sender.try_send(std::mem::take(&mut self.pending)) {
            // The writer is behind: it gets them later.
            Err(TrySendError::Full(records)) => self.pending = records,
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

impl Reader {
    fn columns(&self) -> [u8; 2] {
        match self {
            Reader::Stream(_) | Reader::AskTcp(_) | Reader::AskUnixStream(_) => [socket::RX_BYTES, socket::TX_BYTES],
            _ => [socket::RX_MEMORY, socket::TX_MEMORY],
        }
    }
}

/// Reads a socket. `None`: it is gone, or cannot be read now.
fn read(watched: &Watched, networks: &mut [Netlink]) -> Option<Lengths> {
    let of_memory = |memory: Memory| Lengths { rx: memory.rx.into(), tx: memory.tx.into() };
    match &watched.reader {
        Reader::Stream(fd) => Some(Lengths {
            rx: os::streams::unread_bytes(fd.as_fd()).ok()? as u64,
            tx: os::streams::unsent_bytes(fd.as_fd()).ok()? as u64,
        }),
        Reader::Datagrams(fd) => {
            let bytes: Vec<u8> =
                os::streams::memory(fd.as_fd()).ok()?.iter().flat_map(|number| number.to_ne_bytes()).collect();
            Memory::read(&bytes).map(of_memory)
        }
        Reader::AskTcp(question) => ask(networks.get_mut(watched.network)?, question, |body| {
            let told = inet_diag::read(0, body)?;
            Some(Lengths { rx: told.rx.into(), tx: told.tx.into() })
        }),
        Reader::AskDatagrams(question) => {
            ask(networks.get_mut(watched.network)?, question, |body| inet_diag::read(0, body)?.memory.map(of_memory))
        }
        Reader::AskUnixStream(question) => ask(networks.get_mut(watched.network)?, question, |body| {
            let told = unix_diag::read(body)?;
            Some(Lengths { rx: told.rx.into(), tx: told.tx.into() })
        }),
        Reader::AskUnixDatagrams(question) => {
            ask(networks.get_mut(watched.network)?, question, |body| unix_diag::read(body)?.memory.map(of_memory))
        }
    }
}

fn ask(netlink: &mut Netlink, question: &[u8], read: impl Fn(&[u8]) -> Option<Lengths>) -> Option<Lengths> {
    let mut found = None;
    netlink.ask(question, false, |body| found = read(body)).ok()?;
    found
}
