//! What nodes tell each other about themselves.

pub use policy::Availability;
use serde::{Deserialize, Serialize};

/// What does not change while a daemon runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Kernel release, as uname(2).
    pub kernel: String,
    /// Machine, as uname(2).
    pub machine: String,
    /// CPU model, for people.
    pub cpu_model: String,
    /// CPU features that programs may use, as /proc/cpuinfo names them, sorted.
    pub cpu_features: Vec<String>,
    /// Bytes in which programs save all registers (CPUID 0xD); 0: not known.
    pub xsave_bytes: u32,
    /// The number of processors that are online.
    pub cores: u32,
    /// The memory of the machine, bytes.
    pub memory_bytes: u64,
    /// Highest PID plus one that processes can have.
    pub pid_max: u32,
    /// What it lacks to host guests, in words, if something.
    pub cannot_host: Option<String>,
    /// The most rooms it hosts; 0: it accepts no guests.
    pub rooms_max: u32,
    /// Version of tern.
    pub version: String,
}

/// What changes: travels in small datagrams, a window of the newest entries at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Runnable tasks, guests' included, thousandths: a rise shows at once, a fall within seconds.
    pub runnable_milli: u32,
    /// The number of processors that are online.
    pub cores: u32,
    /// Memory that programs could still get, MiB.
    pub available_mib: u32,
    /// Memory in all, MiB.
    pub memory_mib: u32,
    /// Rooms hosted now.
    pub rooms: u32,
    /// The most rooms it hosts.
    pub rooms_max: u32,
    /// CPUs that it may use, less its quota and what a hypervisor takes, thousandths.
    pub capacity_milli: u32,
    /// Speed of one CPU against the reference, thousandths.
    pub speed_milli: u32,
    /// Share of time in which something waited for memory, thousandths.
    pub pressure_milli: u32,
    /// What its processes have missed on average, milliseconds (`policy::Lag`).
    pub lag_ms: i32,
    /// Whether it takes guests, and why not.
    pub availability: Availability,
    /// For how long nobody has been at the machine, seconds; 0 where that does not matter.
    pub unused_s: u32,
}

/// How good a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// As it should be.
    Good,
    /// Works, at a cost.
    Costs,
    /// Does not work.
    Bad,
}

/// One finding of `tern doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at.
    pub subject: String,
    /// How it is.
    pub grade: Grade,
    /// What was found, and what it costs or what to do.
    pub detail: String,
}

impl Finding {
    /// Makes a finding about a subject.
    pub fn new(subject: impl Into<String>, grade: Grade, detail: impl Into<String>) -> Finding {
        Finding { subject: subject.into(), grade, detail: detail.into() }
    }
}
