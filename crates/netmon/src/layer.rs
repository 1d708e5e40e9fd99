//! Layers of communication, and the columns of the queues of each.

use serde::{Deserialize, Serialize};

/// A layer of communication. Recordings hold the places of these in the enumeration, so new ones
/// come last; [`Layer::ALL`] has the order from the program down to the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// A PVM daemon: packets for another host, or for a task.
    Daemon,
    /// A PVM task: messages that wait to be received or sent.
    Task,
    /// A socket of a program.
    Socket,
    /// A queueing discipline, or a class of one.
    Discipline,
    /// Packets that a processor has received and not handed on yet.
    Backlog,
    /// A network device.
    Device,
    /// A rank of MPI: messages that no receive wants yet, and receives that wait for messages.
    Rank,
    /// A link between home and a node that hosts processes of it.
    Link,
    /// A connection of a process that is away, whose bytes home pumps.
    Stream,
    /// A process that is away: calls that home makes for it.
    Guest,
}

/// The unit of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of content or memory.
    Bytes,
    /// Messages of PVM or MPI.
    Messages,
    /// Packets of the network.
    Packets,
    /// Anything that is counted from the start of the machine or the socket.
    Events,
    /// Microseconds of duration.
    Microseconds,
    /// A plain number.
    Number,
}

/// The kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The length of a queue; `limit` is the column with its limit, if one is known.
    Queue {
        /// Index of the column with the limit.
        limit: Option<u8>,
    },
    /// A counter that only rises.
    Counter,
    /// A setting or another number.
    Number,
}

/// A column of the objects of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name, as files and tables have it.
    pub name: &'static str,
    /// The unit of the values.
    pub unit: Unit,
    /// Whether this is a queue, a counter or a number.
    pub kind: Kind,
}

const fn queue(name: &'static str, unit: Unit, limit: Option<u8>) -> Column {
    Column { name, unit, kind: Kind::Queue { limit } }
}

const fn counter(name: &'static str) -> Column {
    Column { name, unit: Unit::Events, kind: Kind::Counter }
}

const fn number(name: &'static str, unit: Unit) -> Column {
    Column { name, unit, kind: Kind::Number }
}

/// Columns of [`Layer::Daemon`].
pub mod daemon {
    /// Packets that wait for a host or a task (`hd_txq`, `t_txq`).
    pub const PACKETS: u8 = 0;
    /// Estimated round-trip time to a host, microseconds.
    pub const ROUND_TRIP_US: u8 = 1;
    /// Bytes of these packets, of a task.
    pub const BYTES: u8 = 2;
}

/// Columns of [`Layer::Task`].
pub mod task {
    /// Messages in `pvmrxlist`.
    pub const RX_MESSAGES: u8 = 0;
    /// Bytes of these messages.
    pub const RX_BYTES: u8 = 1;
    /// Messages that wait to be sent.
    pub const TX_MESSAGES: u8 = 2;
    /// Bytes that wait to be sent.
    pub const TX_BYTES: u8 = 3;
}

/// Columns of [`Layer::Rank`].
pub mod rank {
    /// Messages that came and that no receive wants.
    pub const UNEXPECTED_MESSAGES: u8 = 0;
    /// Bytes of these messages.
    pub const UNEXPECTED_BYTES: u8 = 1;
    /// Receives for which no message came.
    pub const POSTED_RECEIVES: u8 = 2;
}

/// Columns of [`Layer::Link`].
pub mod link {
    /// Bytes that the node has not acknowledged.
    pub const UNSENT_BYTES: u8 = 0;
    /// Bytes of streams that were sent to the node and that no process has taken.
    pub const RELAY_BYTES: u8 = 1;
    /// Limit of `RELAY_BYTES`.
    pub const RELAY_LIMIT: u8 = 2;
    /// Frames in both directions.
    pub const FRAMES: u8 = 3;
    /// Bytes of these.
    pub const BYTES: u8 = 4;
    /// For how long the node has owed an answer.
    pub const SILENT_MS: u8 = 5;
}

/// Columns of [`Layer::Stream`].
pub mod stream {
    /// Bytes that came at home and that the process has not taken.
    pub const UNREAD_BYTES: u8 = 0;
    /// Those of them that were sent to the process' node.
    pub const TO_ROOM_BYTES: u8 = 1;
    /// Limit of `TO_ROOM_BYTES`.
    pub const WINDOW_BYTES: u8 = 2;
    /// Bytes that the process has taken.
    pub const TAKEN_BYTES: u8 = 3;
    /// Bytes of the process that the socket at home has no room for.
    pub const WAITING_BYTES: u8 = 4;
    /// Bytes of the process in the send queue of the socket at home.
    pub const UNSENT_BYTES: u8 = 5;
    /// Bytes that the process has sent.
    pub const RECEIVED_BYTES: u8 = 6;
}

/// Columns of [`Layer::Guest`].
pub mod guest {
    /// Calls that home makes for the process, or that wait for that.
    pub const CALLS_UNDER_WAY: u8 = 0;
    /// Calls that home has made.
    pub const CALLS: u8 = 1;
    /// Open files at home that stand-ins stand for.
    pub const STANDINS: u8 = 2;
}

/// Columns of [`Layer::Socket`].
pub mod socket {
    /// Bytes that the receiver has not read.
    pub const RX_BYTES: u8 = 0;
    /// Bytes that the peer has not acknowledged (TCP), or memory of unsent messages.
    pub const TX_BYTES: u8 = 1;
    /// Packets in the receive queue.
    pub const RX_PACKETS: u8 = 2;
    /// Packets in the send queue.
    pub const TX_PACKETS: u8 = 3;
    /// Segments that were sent again.
    pub const RETRANSMITS: u8 = 4;
    /// Memory of the receive queue, bytes.
    pub const RX_MEMORY: u8 = 5;
    /// Limit of `RX_MEMORY`.
    pub const RX_LIMIT: u8 = 6;
    /// Memory of the send queue, bytes.
    pub const TX_MEMORY: u8 = 7;
    /// Limit of `TX_MEMORY`.
    pub const TX_LIMIT: u8 = 8;
    /// Packets that the socket dropped.
    pub const DROPS: u8 = 9;
    /// Bytes that were written and not sent yet.
    pub const UNSENT_BYTES: u8 = 10;
    /// Connections that wait to be accepted.
    pub const ACCEPTS: u8 = 11;
    /// Limit of `ACCEPTS`.
    pub const ACCEPT_LIMIT: u8 = 12;
}

/// Columns of [`Layer::Discipline`].
pub mod discipline {
    /// Packets that wait.
    pub const PACKETS: u8 = 0;
    /// Bytes that wait.
    pub const BYTES: u8 = 1;
    /// Limit of `PACKETS`.
    pub const PACKET_LIMIT: u8 = 2;
    /// Limit of `BYTES`.
    pub const BYTE_LIMIT: u8 = 3;
    /// Packets that were dropped.
    pub const DROPS: u8 = 4;
    /// Times at which a packet had to wait for the rate.
    pub const OVERLIMITS: u8 = 5;
    /// Packets that the device did not take.
    pub const REQUEUES: u8 = 6;
    /// Queues of the interface (on the row of its root).
    pub const QUEUES: u8 = 7;
    /// Bytes that were sent.
    pub const SENT_BYTES: u8 = 8;
}

/// Columns of [`Layer::Backlog`].
pub mod backlog {
    /// Packets that wait.
    pub const PACKETS: u8 = 0;
    /// Limit of `PACKETS` (net.core.netdev_max_backlog).
    pub const LIMIT: u8 = 1;
    /// Packets that were dropped because the queue was full.
    pub const DROPS: u8 = 2;
    /// Times at which the time for packets was over before the work was done.
    pub const SQUEEZES: u8 = 3;
    /// Packets that came.
    pub const PROCESSED: u8 = 4;
}

/// Columns of [`Layer::Device`].
pub mod device {
    /// Bytes that the driver has and the device has not sent (byte queue limits).
    pub const TX_BYTES: u8 = 0;
    /// Limit of `TX_BYTES`.
    pub const TX_LIMIT: u8 = 1;
    /// Entries of the ring for packets to send.
    pub const TX_RING: u8 = 2;
    /// Entries of the ring for packets that come.
    pub const RX_RING: u8 = 3;
    /// The most entries that `RX_RING` can have.
    pub const RX_RING_MAX: u8 = 4;
    /// Collisions of all kinds.
    pub const COLLISIONS: u8 = 5;
    /// Frames that were sent after one collision.
    pub const SINGLE_COLLISIONS: u8 = 6;
    /// Frames that were sent after several collisions.
    pub const MULTIPLE_COLLISIONS: u8 = 7;
    /// Frames that waited for the medium.
    pub const DEFERRED: u8 = 8;
    /// Packets that came and were dropped.
    pub const RX_DROPS: u8 = 9;
    /// Packets that were to be sent and were dropped.
    pub const TX_DROPS: u8 = 10;
    /// Packets that came when the ring was full.
    pub const RX_MISSED: u8 = 11;
    /// Bytes that came.
    pub const RX_TOTAL: u8 = 12;
    /// Bytes that were sent.
    pub const TX_TOTAL: u8 = 13;
    /// Megabits per second of the link.
    pub const SPEED: u8 = 14;
    /// Packets that wait in the ring for packets to send.
    pub const TX_PACKETS: u8 = 15;
    /// Packets that wait in the ring for packets that come.
    pub const RX_PACKETS: u8 = 16;
}

const DAEMON: &[Column] = &[
    queue("packets", Unit::Packets, None),
    number("round_trip_us", Unit::Microseconds),
    queue("bytes", Unit::Bytes, None),
];
const TASK: &[Column] = &[
    queue("rx_messages", Unit::Messages, None),
    queue("rx_bytes", Unit::Bytes, None),
    queue("tx_messages", Unit::Messages, None),
    queue("tx_bytes", Unit::Bytes, None),
];
const RANK: &[Column] = &[
    queue("unexpected_messages", Unit::Messages, None),
    queue("unexpected_bytes", Unit::Bytes, None),
    queue("posted_receives", Unit::Number, None),
];
const LINK: &[Column] = &[
    queue("unsent_bytes", Unit::Bytes, None),
    queue("relay_bytes", Unit::Bytes, Some(link::RELAY_LIMIT)),
    number("relay_limit", Unit::Bytes),
    counter("frames"),
    counter("frame_bytes"),
    number("silent_ms", Unit::Number),
];
const STREAM: &[Column] = &[
    queue("unread_bytes", Unit::Bytes, None),
    queue("to_room_bytes", Unit::Bytes, Some(stream::WINDOW_BYTES)),
    number("window_bytes", Unit::Bytes),
    counter("taken_bytes"),
    queue("waiting_bytes", Unit::Bytes, None),
    queue("unsent_bytes", Unit::Bytes, None),
    counter("received_bytes"),
];
const GUEST: &[Column] =
    &[queue("calls_under_way", Unit::Number, None), counter("calls"), number("standins", Unit::Number)];
const SOCKET: &[Column] = &[
    queue("rx_bytes", Unit::Bytes, None),
    queue("tx_bytes", Unit::Bytes, None),
    queue("rx_packets", Unit::Packets, None),
    queue("tx_packets", Unit::Packets, None),
    counter("retransmits"),
    queue("rx_memory", Unit::Bytes, Some(socket::RX_LIMIT)),
    number("rx_limit", Unit::Bytes),
    queue("tx_memory", Unit::Bytes, Some(socket::TX_LIMIT)),
    number("tx_limit", Unit::Bytes),
    counter("drops"),
    queue("unsent_bytes", Unit::Bytes, None),
    queue("accepts", Unit::Number, Some(socket::ACCEPT_LIMIT)),
    number("accept_limit", Unit::Number),
];
const DISCIPLINE: &[Column] = &[
    queue("packets", Unit::Packets, Some(discipline::PACKET_LIMIT)),
    queue("bytes", Unit::Bytes, Some(discipline::BYTE_LIMIT)),
    number("packet_limit", Unit::Packets),
    number("byte_limit", Unit::Bytes),
    counter("drops"),
    counter("overlimits"),
    counter("requeues"),
    number("queues", Unit::Number),
    counter("sent_bytes"),
];
const BACKLOG: &[Column] = &[
    queue("packets", Unit::Packets, Some(backlog::LIMIT)),
    number("limit", Unit::Packets),
    counter("drops"),
    counter("squeezes"),
    counter("processed"),
];
const DEVICE: &[Column] = &[
    queue("tx_bytes", Unit::Bytes, Some(device::TX_LIMIT)),
    number("tx_limit", Unit::Bytes),
    number("tx_ring", Unit::Packets),
    number("rx_ring", Unit::Packets),
    number("rx_ring_max", Unit::Packets),
    counter("collisions"),
    counter("single_collisions"),
    counter("multiple_collisions"),
    counter("deferred"),
    counter("rx_drops"),
    counter("tx_drops"),
    counter("rx_missed"),
    counter("rx_total"),
    counter("tx_total"),
    number("speed_mbit", Unit::Number),
    queue("tx_packets", Unit::Packets, Some(device::TX_RING)),
    queue("rx_packets", Unit::Packets, Some(device::RX_RING)),
];

impl Layer {
    /// All layers, from the program down to the wire.
    pub const ALL: [Layer; 10] = [
        Layer::Guest,
        Layer::Daemon,
        Layer::Task,
        Layer::Rank,
        Layer::Stream,
        Layer::Link,
        Layer::Socket,
        Layer::Discipline,
        Layer::Backlog,
        Layer::Device,
    ];

    /// Gives the name of the layer.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Daemon => "daemon",
            Layer::Task => "task",
            Layer::Rank => "rank",
            Layer::Link => "link",
            Layer::Stream => "stream",
            Layer::Guest => "guest",
            Layer::Socket => "socket",
            Layer::Discipline => "discipline",
            Layer::Backlog => "backlog",
            Layer::Device => "device",
        }
    }

    /// Gives the columns of the layer's objects.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Layer::Daemon => DAEMON,
            Layer::Task => TASK,
            Layer::Rank => RANK,
            Layer::Link => LINK,
            Layer::Stream => STREAM,
            Layer::Guest => GUEST,
            Layer::Socket => SOCKET,
            Layer::Discipline => DISCIPLINE,
            Layer::Backlog => BACKLOG,
            Layer::Device => DEVICE,
        }
    }

    /// Gives a column by its index, which may come from a file.
    pub fn column(self, index: u8) -> Option<&'static Column> {
        self.columns().get(usize::from(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_name_their_columns() {
        let named = |layer: Layer, index: u8| layer.column(index).unwrap().name;
        assert_eq!(named(Layer::Daemon, daemon::ROUND_TRIP_US), "round_trip_us");
        assert_eq!(named(Layer::Task, task::TX_BYTES), "tx_bytes");
        assert_eq!(named(Layer::Link, link::SILENT_MS), "silent_ms");
        assert_eq!(named(Layer::Stream, stream::RECEIVED_BYTES), "received_bytes");
        assert_eq!(named(Layer::Guest, guest::STANDINS), "standins");
        assert_eq!(named(Layer::Rank, rank::POSTED_RECEIVES), "posted_receives");
        assert_eq!(named(Layer::Socket, socket::ACCEPT_LIMIT), "accept_limit");
        assert_eq!(named(Layer::Socket, socket::DROPS), "drops");
        assert_eq!(named(Layer::Discipline, discipline::SENT_BYTES), "sent_bytes");
        assert_eq!(named(Layer::Backlog, backlog::PROCESSED), "processed");
        assert_eq!(named(Layer::Device, device::RX_PACKETS), "rx_packets");
    }

    #[test]
    fn limits_are_columns_of_the_same_unit() {
        for layer in Layer::ALL {
            for column in layer.columns() {
                if let Kind::Queue { limit: Some(limit) } = column.kind {
                    assert_eq!(layer.column(limit).unwrap().unit, column.unit, "{}", column.name);
                }
            }
        }
    }
}
