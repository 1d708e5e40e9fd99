//! The records of a recording.

use serde::{Deserialize, Serialize};

use crate::layer::Layer;
use crate::pace::Pace;

/// A number, and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// The kernel or the program says so.
    Exact(u64),
    /// Computed from other numbers.
    Estimate(u64),
}

impl Value {
    /// Gives the number.
    pub fn number(self) -> u64 {
        match self {
            Value::Exact(number) | Value::Estimate(number) => number,
        }
    }

    /// Tells whether the number is an estimate.
    pub fn is_estimate(self) -> bool {
        matches!(self, Value::Estimate(_))
    }
}

/// A column's new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Index of the column in its layer.
    pub column: u8,
    /// The value; `None`: it is not known any more.
    pub value: Option<Value>,
}

impl Change {
    /// A value that the kernel or the program says.
    pub fn exact(column: u8, number: u64) -> Change {
        Change { column, value: Some(Value::Exact(number)) }
    }

    /// A value that is computed from others.
    pub fn estimate(column: u8, number: u64) -> Change {
        Change { column, value: Some(Value::Estimate(number)) }
    }
}

/// Something that has queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Number of the object in its recording.
    pub id: u32,
    /// The layer that the object is of.
    pub layer: Layer,
    /// The name, as tables show it.
    pub name: String,
    /// The process that has the object.
    pub pid: Option<i32>,
    /// More about it, as names and values.
    pub details: Vec<Detail>,
}

impl Object {
    /// Gives a detail by its name.
    pub fn detail(&self, name: &str) -> Option<&str> {
        self.details.iter().find(|detail| detail.name == name).map(|detail| detail.value.as_str())
    }
}

/// A named property of an object, such as `local` with an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// The name of the property.
    pub name: String,
    /// Value of the property.
    pub value: String,
}

impl Detail {
    /// Makes a detail.
    pub fn new(name: &str, value: impl Into<String>) -> Detail {
        Detail { name: name.into(), value: value.into() }
    }
}

/// How a recording began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Time of day, microseconds since 1970.
    pub wall_us: u64,
    /// Period of the fast sampler, nanoseconds.
    pub period_ns: u64,
    /// Period of the slow sampler, nanoseconds.
    pub slow_period_ns: u64,
    /// How long it was to go on, milliseconds.
    pub time_ms: u64,
    /// Names of the interfaces.
    pub interfaces: Vec<String>,
}

/// A queue that stays at its limit, and what can be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The object with the queue.
    pub object: u32,
    /// Index of the queue's column.
    pub column: u8,
    /// Since when, microseconds from the start.
    pub since_us: u64,
    /// Why it is full.
    pub cause: Cause,
    /// Cause and advice in words.
    pub text: String,
}

/// Why a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The receiver does not read.
    ReceiverDoesNotRead,
    /// The receiver reads, and less than comes.
    ReceiverIsSlow,
    /// The socket's own limit holds the sender.
    SocketLimit,
    /// The link carries no more.
    LinkFull,
    /// The device's ring is too small.
    RingTooSmall,
    /// The processor does not get to its packets.
    ProcessorBusy,
    /// The PVM daemon does not pass messages on fast enough.
    DaemonBottleneck,
    /// The relay of a moved process' streams carries no more.
    RelaySaturated,
}

/// How a recording ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The fast sampler.
    pub fast: Pace,
    /// The slow sampler.
    pub slow: Pace,
    /// CPU time of all of it, microseconds.
    pub cpu_us: u64,
    /// How long it went on, microseconds.
    pub elapsed_us: u64,
    /// Changes that were lost because they came faster than they were written.
    pub lost: u64,
}

/// One record. Times are microseconds from the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The first record.
    Start(Start),
    /// An object was found.
    Object(Object),
    /// Values have changed. Those that are not named are as before.
    Sample {
        /// When they were read.
        at_us: u64,
        /// Number of the object.
        object: u32,
        /// The new values.
        changes: Vec<Change>,
    },
    /// An object is not there any more, or cannot be looked at.
    Gone {
        /// When that was seen.
        at_us: u64,
        /// Number of the object.
        object: u32,
        /// Why, in words.
        reason: String,
    },
    /// Something that the user should know.
    Note {
        /// When that was seen.
        at_us: u64,
        /// The news in words.
        text: String,
    },
    /// A queue stays at its limit.
    Finding(Finding),
    /// How it goes; the last one of a recording that was cut off counts as its end.
    Progress(Summary),
    /// The last record.
    End(Summary),
}
