//! Says which queues stay at their limit, why, and what can be changed.
//!
//! A queue is at its limit if it holds at least three quarters of what it may hold: a queue whose
//! next packet does not fit is rarely full to the last byte. It stays there if that was so at every
//! sample for `STAYS_US`. Each such time is told once, and again if it goes on for another cause.

mod moved;
mod parallel;

use std::collections::HashMap;

use crate::book::{Book, Entry};
use crate::layer::{Layer, backlog, device, discipline, socket};
use crate::record::{Cause, Finding};
use crate::sampler::remote::FIRST_OBJECT;

/// A queue that is at its limit for so long stays there, microseconds.
const STAYS_US: u64 = 500_000;
/// A queue without limit that is not empty for so long is not read, microseconds.
const UNREAD_US: u64 = 1_000_000;

/// Looks at the book from time to time.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// Queues that are full, and since when.
    full: HashMap<Queue, Episode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Queue {
    object: u32,
    column: u8,
}

#[derive(Clone, Copy, Debug)]
struct Episode {
    since_us: u64,
    /// The cause now, and since when that is so.
    cause: Cause,
    cause_since_us: u64,
    told: Option<Cause>,
}

impl Episode {
    fn begin(now_us: u64, cause: Cause) -> Episode {
        Episode { since_us: now_us, cause, cause_since_us: now_us, told: None }
    }

    /// Gives since when the queue is full of this cause, if that is to be told now. Another cause
    /// than the one that was told must have lasted for a while, too.
    fn tell(&mut self, now_us: u64, full: &Full) -> Option<u64> {
        if self.cause != full.cause {
            (self.cause, self.cause_since_us) = (full.cause, now_us);
        }
        let since_us = if self.told.is_none() { self.since_us } else { self.cause_since_us };
        let is_due = self.told != Some(full.cause) && now_us.saturating_sub(since_us) >= full.for_us;
        is_due.then(|| {
            self.told = Some(full.cause);
            since_us
        })
    }
}

/// A queue that is full now.
struct Full {
    column: u8,
    /// How long it must be full until that is told.
    for_us: u64,
    cause: Cause,
    text: String,
}

impl Diagnosis {
    /// Looks at all queues, and begins the next time for lows. Gives what is newly found.
    pub fn check(&mut self, book: &mut Book) -> Vec<Finding> {
        let now_us = book.now_us;
        let mut found = Vec::new();
        let mut still = HashMap::new();
        // Other nodes look at their own queues.
        let is_own = |entry: &&Entry| entry.gone.is_none() && entry.object.id < FIRST_OBJECT;
        for entry in book.entries().filter(is_own) {
            for full in full_queues(entry, book) {
                let queue = Queue { object: entry.object.id, column: full.column };
                let mut episode = self.full.get(&queue).copied().unwrap_or_else(|| Episode::begin(now_us, full.cause));
                if let Some(since_us) = episode.tell(now_us, &full) {
                    found.push(Finding {
                        object: queue.object,
                        column: queue.column,
                        since_us,
                        cause: full.cause,
                        text: full.text,
                    });
                }
                still.insert(queue, episode);
            }
        }
        self.full = still;
        book.reset_lows();
        found
    }
}

fn full_queues(entry: &Entry, book: &Book) -> Vec<Full> {
    let found = match entry.object.layer {
        Layer::Socket => vec![receive_queue(entry, book), send_queue(entry, book), accept_queue(entry)],
        Layer::Discipline => vec![discipline_queue(entry)],
        Layer::Backlog => vec![backlog_queue(entry)],
        Layer::Device => vec![device_queue(entry), device_ring(entry)],
        Layer::Task => vec![parallel::task_queue(entry)],
        Layer::Rank => vec![parallel::rank_queue(entry)],
        Layer::Link => vec![moved::relay_queue(entry)],
        Layer::Stream => vec![moved::stream_queue(entry, book.now_us), moved::stream_out_queue(entry)],
        Layer::Guest => Vec::new(),
        Layer::Daemon => vec![parallel::daemon_queue(entry)],
    };
    found.into_iter().flatten().collect()
}

/// Tells whether a queue was at its limit since the last look.
fn is_at_limit(entry: &Entry, column: u8) -> bool {
    let limit = entry.object.layer.column(column).and_then(|column| entry.limit(column));
    limit.is_some_and(|limit| entry.cell(column).low >= limit - limit / 4)
}

/// Names the process of an object.
fn process(entry: &Entry) -> String {
    match (entry.object.pid, entry.object.detail("program")) {
        (Some(pid), Some(program)) => format!("{program} (process {pid})"),
        (Some(pid), None) => format!("process {pid}"),
        _ => "its process".into(),
    }
}

fn is_daemon(entry: &Entry) -> bool {
    entry.object.detail("program").is_some_and(|program| program.starts_with("pvmd"))
}

fn receive_queue(entry: &Entry, book: &Book) -> Option<Full> {
    if !is_at_limit(entry, socket::RX_MEMORY) {
        return None;
    }
    let who = process(entry);
    let limit = entry.cell(socket::RX_LIMIT).number();
    let bytes = entry.cell(socket::RX_BYTES);
    let more = format!(
        "a larger limit (SO_RCVBUF and net.core.rmem_max, net.ipv4.tcp_rmem; now {limit} bytes) only delays it"
    );
    let (cause, text) = if let Some(stream) = moved::stream_of(entry, book) {
        moved::held_by_relay(stream, book.now_us)
    } else if is_daemon(entry) {
        (
            Cause::DaemonBottleneck,
            format!("{who} does not pass on what it receives fast enough; let tasks talk directly (PvmRouteDirect)"),
        )
    } else if bytes.low == bytes.number() && bytes.before == bytes.number() {
        (Cause::ReceiverDoesNotRead, format!("{who} does not read; look at what it waits for; {more}"))
    } else {
        (
            Cause::ReceiverIsSlow,
            format!(
                "{who} reads less than comes; give it more processor time, or let it read in larger pieces; {more}"
            ),
        )
    };
    Some(Full { column: socket::RX_MEMORY, for_us: STAYS_US, cause, text })
}

/// Gives from where on select(2) and poll(2) do not tell a program to write any more: less than a
/// third of the limit is free (`sk_stream_is_writeable`), or three quarters (`unix_writable`).
fn not_writable_from(entry: &Entry) -> u64 {
    let limit = entry.cell(socket::TX_LIMIT).number();
    let is_unix = entry.object.detail("protocol") == Some("unix");
    if is_unix { limit / 4 } else { limit - limit / 3 }
}

fn send_queue(entry: &Entry, book: &Book) -> Option<Full> {
    let limit = entry.cell(socket::TX_LIMIT).number();
    if limit == 0 || entry.cell(socket::TX_MEMORY).low < not_writable_from(entry) {
        return None;
    }
    let (bytes, unsent) = (entry.cell(socket::TX_BYTES).number(), entry.cell(socket::UNSENT_BYTES));
    let link_is_full = || {
        book.present(Layer::Discipline).any(|other| discipline_queue(other).is_some())
            || book.present(Layer::Device).any(|other| device_queue(other).is_some())
    };
    let (cause, text) = if unsent.value.is_none() || unsent.number() >= bytes {
        no_room(peer(entry, book))
    } else if link_is_full() {
        (Cause::LinkFull, "the link carries no more; send less, or use a faster link".into())
    } else {
        let text = format!(
            "the socket may hold {limit} bytes and waits for acknowledgements; raise its limit (SO_SNDBUF and net.core.wmem_max, net.ipv4.tcp_wmem)"
        );
        (Cause::SocketLimit, text)
    };
    Some(Full { column: socket::TX_MEMORY, for_us: STAYS_US, cause, text })
}

/// Says why a peer takes nothing, as far as it is on this machine.
fn no_room(peer: Option<&Entry>) -> (Cause, String) {
    match peer {
        Some(peer) if is_daemon(peer) => {
            let text = format!(
                "{} at the other end does not take it fast enough; let tasks talk directly (PvmRouteDirect)",
                process(peer)
            );
            (Cause::DaemonBottleneck, text)
        }
        Some(peer) if peer.object.pid.is_some() => {
            let text = format!("{} at the other end does not read, or reads too little", process(peer));
            (Cause::ReceiverDoesNotRead, text)
        }
        _ => {
            let text = "the receiver has no room left: it does not read, or reads too little; look at the process at the other end";
            (Cause::ReceiverDoesNotRead, text.into())
        }
    }
}

/// Finds the other end of a connection, if it is on this machine.
fn peer<'a>(entry: &Entry, book: &'a Book) -> Option<&'a Entry> {
    let own = |name| entry.object.detail(name);
    let remote = own("remote")?;
    book.present(Layer::Socket).find(|other| {
        let of = |name| other.object.detail(name);
        match remote.strip_prefix('#') {
            Some(inode) => of("inode") == Some(inode),
            None => of("local") == Some(remote) && of("remote") == own("local") && of("protocol") == own("protocol"),
        }
    })
}

fn accept_queue(entry: &Entry) -> Option<Full> {
    let limit = entry.cell(socket::ACCEPT_LIMIT).number();
    is_at_limit(entry, socket::ACCEPTS).then(|| Full {
        column: socket::ACCEPTS,
        for_us: STAYS_US,
        cause: Cause::ReceiverDoesNotRead,
        text: format!("{} does not accept connections; a larger limit (listen(2) and net.core.somaxconn; now {limit}) only delays it", process(entry)),
    })
}

fn discipline_queue(entry: &Entry) -> Option<Full> {
    let column = [discipline::BYTES, discipline::PACKETS].into_iter().find(|column| is_at_limit(entry, *column));
    let drops = entry.cell(discipline::DROPS).risen();
    // A queue that drops packets while others wait is full, whatever limit it has.
    let dropping = (drops > 0 && entry.cell(discipline::PACKETS).low > 0).then_some(discipline::PACKETS);
    let column = column.or(dropping)?;
    let what = match entry.object.detail("kind") {
        Some("tbf") => "the rate of this token bucket is used up; raise its rate (tc qdisc change), or send less",
        _ => {
            "the link carries no more; send less, use a faster link, or let the queue hold more (tc qdisc change, txqueuelen)"
        }
    };
    let text = if drops > 0 { format!("{what}; packets are dropped") } else { what.into() };
    Some(Full { column, for_us: STAYS_US, cause: Cause::LinkFull, text })
}

fn backlog_queue(entry: &Entry) -> Option<Full> {
    let drops = entry.cell(backlog::DROPS).risen();
    (is_at_limit(entry, backlog::PACKETS) || drops > 0).then(|| Full {
        column: backlog::PACKETS,
        // Dropped packets are a fact, however short the time.
        for_us: if drops > 0 { 0 } else { STAYS_US },
        cause: Cause::ProcessorBusy,
        text: format!(
            "this processor does not get to its packets, {drops} were dropped just now; spread them (RPS: queues/rx-*/rps_cpus), or raise net.core.netdev_max_backlog (now {})",
            entry.cell(backlog::LIMIT).number()
        ),
    })
}

fn device_queue(entry: &Entry) -> Option<Full> {
    is_at_limit(entry, device::TX_BYTES).then(|| Full {
        column: device::TX_BYTES,
        for_us: STAYS_US,
        cause: Cause::LinkFull,
        text: "the device holds as much as it may (byte queue limits) and sends no faster; send less, or use a faster link".into(),
    })
}

fn device_ring(entry: &Entry) -> Option<Full> {
    let missed = entry.cell(device::RX_MISSED).risen();
    let (ring, most) = (entry.cell(device::RX_RING), entry.cell(device::RX_RING_MAX));
    let advice = match (ring.value, most.value) {
        (Some(ring), Some(most)) if ring.number() < most.number() => {
            format!("enlarge it (ethtool -G {} rx {}; now {})", entry.object.name, most.number(), ring.number())
        }
        (Some(ring), _) => format!("it is as large as it can be ({}): spread packets over more queues", ring.number()),
        _ => "the driver does not tell its size".into(),
    };
    (missed > 0).then(|| Full {
        column: device::RX_MISSED,
        for_us: 0,
        cause: Cause::RingTooSmall,
        text: format!("{missed} packets came when the ring was full; {advice}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{daemon, link, rank, stream, task};
    use crate::record::{Change, Detail, Object, Record};

    fn book(layer: Layer, details: &[(&str, &str)]) -> Book {
        let mut book = Book::default();
        let details = details.iter().map(|(name, value)| Detail::new(name, *value)).collect();
        book.apply(&Record::Object(Object { id: 1, layer, name: "eth0".into(), pid: Some(7), details }));
        book
    }

    fn set(book: &mut Book, at_us: u64, values: &[(u8, u64)]) {
        let changes = values.iter().map(|(column, number)| Change::exact(*column, *number)).collect();
        book.apply(&Record::Sample { at_us, object: 1, changes });
    }

    /// Gives the findings when these values last for a second.
    fn lasting(book: &mut Book, values: &[(u8, u64)]) -> Vec<Cause> {
        let mut diagnosis = Diagnosis::default();
        let mut found = Vec::new();
        for at_us in (0..=1_200_000).step_by(100_000) {
            set(book, at_us, values);
            found.extend(diagnosis.check(book).into_iter().map(|finding| finding.cause));
        }
        found
    }

    #[test]
    fn a_receive_queue_that_is_flat_at_its_limit_is_told_once() {
        let values = [(socket::RX_BYTES, 60_000), (socket::RX_MEMORY, 130_000), (socket::RX_LIMIT, 131_072)];
        assert_eq!(lasting(&mut book(Layer::Socket, &[]), &values), [Cause::ReceiverDoesNotRead]);
        let mut of_daemon = book(Layer::Socket, &[("program", "pvmd3")]);
        assert_eq!(lasting(&mut of_daemon, &values), [Cause::DaemonBottleneck]);
    }

    #[test]
    fn a_queue_that_is_short_in_between_is_not_at_its_limit() {
        let mut book = book(Layer::Socket, &[]);
        let mut diagnosis = Diagnosis::default();
        for at_us in (0..=2_000_000).step_by(100_000) {
            set(&mut book, at_us, &[(socket::RX_MEMORY, 100), (socket::RX_LIMIT, 1000)]);
            set(&mut book, at_us + 50_000, &[(socket::RX_MEMORY, 1000)]);
            assert_eq!(diagnosis.check(&mut book), []);
        }
    }

    #[test]
    fn a_send_queue_tells_why_it_is_full() {
        let full = |unsent| {
            [(socket::TX_MEMORY, 99), (socket::TX_LIMIT, 100), (socket::TX_BYTES, 90), (socket::UNSENT_BYTES, unsent)]
        };
        assert_eq!(lasting(&mut book(Layer::Socket, &[]), &full(90)), [Cause::ReceiverDoesNotRead]);
        assert_eq!(lasting(&mut book(Layer::Socket, &[]), &full(10)), [Cause::SocketLimit]);
        let mut with_link = book(Layer::Socket, &[]);
        let root = Object { id: 2, layer: Layer::Discipline, name: "eth0 1:".into(), pid: None, details: Vec::new() };
        with_link.apply(&Record::Object(root));
        let changes = vec![Change::exact(discipline::BYTES, 60), Change::exact(discipline::BYTE_LIMIT, 64)];
        with_link.apply(&Record::Sample { at_us: 0, object: 2, changes });
        assert!(lasting(&mut with_link, &full(10)).contains(&Cause::LinkFull));
    }

    #[test]
    fn a_send_queue_is_full_where_poll_tells_of_no_room() {
        let causes = |protocol, bytes| {
            let values = [(socket::TX_MEMORY, bytes), (socket::TX_LIMIT, 1000)];
            lasting(&mut book(Layer::Socket, &[("protocol", protocol)]), &values).len()
        };
        assert_eq!([causes("unix", 249), causes("unix", 250), causes("tcp", 660), causes("tcp", 670)], [0, 1, 0, 1]);
    }

    #[test]
    fn a_full_send_queue_names_the_process_at_the_other_end() {
        let full = [(socket::TX_MEMORY, 99), (socket::TX_LIMIT, 100), (socket::TX_BYTES, 90)];
        let found = |own: &[(&str, &str)], other: &[(&str, &str)]| {
            let mut book = book(Layer::Socket, own);
            let details = other.iter().map(|(name, value)| Detail::new(name, *value)).collect();
            let other = Object { id: 2, layer: Layer::Socket, name: "x".into(), pid: Some(9), details };
            book.apply(&Record::Object(other));
            let causes = lasting(&mut book, &full);
            let entry = book.entry(1).unwrap();
            (causes, no_room(peer(entry, &book)).1)
        };
        let (causes, text) = found(&[("protocol", "unix"), ("remote", "#5")], &[("inode", "5"), ("program", "pvmd")]);
        assert_eq!(causes, [Cause::DaemonBottleneck]);
        assert!(text.starts_with("pvmd (process 9) at the other end"), "{text}");
        let tcp = [("protocol", "tcp"), ("local", "a:1"), ("remote", "b:2")];
        let (causes, text) = found(&tcp, &[("protocol", "tcp"), ("local", "b:2"), ("remote", "a:1")]);
        assert_eq!(causes, [Cause::ReceiverDoesNotRead]);
        assert!(text.starts_with("process 9 at the other end"), "{text}");
        assert!(found(&tcp, &[("local", "b:2"), ("remote", "a:3")]).1.starts_with("the receiver"));
    }

    #[test]
    fn disciplines_and_devices_that_are_full_mean_a_full_link() {
        let values = [(discipline::PACKETS, 990), (discipline::PACKET_LIMIT, 1000)];
        assert_eq!(lasting(&mut book(Layer::Discipline, &[]), &values), [Cause::LinkFull]);
        let values = [(device::TX_BYTES, 3000), (device::TX_LIMIT, 3028)];
        assert_eq!(lasting(&mut book(Layer::Device, &[]), &values), [Cause::LinkFull]);
    }

    #[test]
    fn a_relay_that_is_full_is_named_with_its_cause() {
        let full = [(link::RELAY_BYTES, 250_000), (link::RELAY_LIMIT, 262_144)];
        let values = [full.as_slice(), &[(link::UNSENT_BYTES, 5)]].concat();
        assert_eq!(lasting(&mut book(Layer::Link, &[]), &values), [Cause::RelaySaturated]);
        assert_eq!(lasting(&mut book(Layer::Link, &[]), &full), [Cause::ReceiverDoesNotRead]);
        let full = [(stream::TO_ROOM_BYTES, 250_000), (stream::WINDOW_BYTES, 262_144), (stream::TAKEN_BYTES, 7)];
        let (mut moving, mut diagnosis) = (book(Layer::Stream, &[("node", "n2")]), Diagnosis::default());
        let mut found = Vec::new();
        for at_us in (0..=1_200_000).step_by(100_000) {
            set(&mut moving, at_us, &[full[0], full[1], (stream::TAKEN_BYTES, at_us)]);
            found.extend(diagnosis.check(&mut moving).into_iter().map(|finding| finding.cause));
        }
        assert_eq!(found, [Cause::RelaySaturated]);
        for at_us in (1_300_000..=3_500_000).step_by(100_000) {
            set(&mut moving, at_us, &[full[0]]);
            found.extend(diagnosis.check(&mut moving).into_iter().map(|finding| finding.cause));
        }
        assert_eq!(found, [Cause::RelaySaturated, Cause::ReceiverDoesNotRead]);
        assert_eq!(lasting(&mut book(Layer::Stream, &[]), &[(stream::WAITING_BYTES, 1)]), [Cause::ReceiverDoesNotRead]);
    }

    #[test]
    fn missed_packets_mean_a_small_ring() {
        let mut book = book(Layer::Device, &[]);
        let mut diagnosis = Diagnosis::default();
        set(&mut book, 0, &[(device::RX_MISSED, 5), (device::RX_RING, 256), (device::RX_RING_MAX, 1024)]);
        assert_eq!(diagnosis.check(&mut book), []);
        set(&mut book, 1, &[(device::RX_MISSED, 9)]);
        let found = diagnosis.check(&mut book);
        assert_eq!(found[0].cause, Cause::RingTooSmall);
        assert!(
            found[0].text.starts_with("4 packets") && found[0].text.contains("rx 1024; now 256"),
            "{}",
            found[0].text
        );
    }

    #[test]
    fn messages_that_nobody_receives_are_told() {
        let values = [(task::RX_MESSAGES, 22), (task::RX_BYTES, 46_137_344)];
        assert_eq!(lasting(&mut book(Layer::Task, &[]), &values), [Cause::ReceiverDoesNotRead]);
        assert_eq!(
            lasting(&mut book(Layer::Rank, &[]), &[(rank::UNEXPECTED_MESSAGES, 3)]),
            [Cause::ReceiverDoesNotRead]
        );
        assert_eq!(lasting(&mut book(Layer::Daemon, &[]), &[(daemon::PACKETS, 4)]), [Cause::DaemonBottleneck]);
        assert_eq!(
            lasting(&mut book(Layer::Backlog, &[]), &[(backlog::PACKETS, 999), (backlog::LIMIT, 1000)]),
            [Cause::ProcessorBusy]
        );
    }
}
