//! How a move went, as those who made it saw it.

pub use migration_plan::{Pace, Parts};
use serde::{Deserialize, Serialize};

/// How the memory of a process shall go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// What keeps to the bound.
    Auto,
    /// While it stands still.
    Stop,
    /// While it runs; what it writes meanwhile goes again.
    Pre,
    /// It goes on there at once; its memory follows, what it misses first.
    Post,
    /// From a node: to home's memory first, while it stands still, so that the node is free at
    /// once; from home on as [`How::Post`].
    Flush,
}

/// What a user wants of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveOptions {
    /// How it is done.
    pub how: How,
    /// For how long it may stand still, microseconds: what `auto` and `pre` aim at.
    pub max_freeze_us: u64,
    /// The CPU there may lack what this one has: the program looked for what it uses on a lesser
    /// one.
    pub any_cpu: bool,
    /// From a node to another by way of home, and not straight there.
    pub by_home: bool,
    /// The node may host it even if it has root's rights.
    pub as_root: bool,
    /// How its pages go.
    pub pace: Pace,
    /// Also where memory, descriptors or processes are short.
    pub force: bool,
    /// Not together with others: a process that shares memory stays.
    pub alone: bool,
}

impl Default for MoveOptions {
    fn default() -> MoveOptions {
        MoveOptions {
            how: How::Auto,
            max_freeze_us: 100_000,
            any_cpu: false,
            by_home: false,
            as_root: false,
            pace: Pace::default(),
            force: false,
            alone: false,
        }
    }
}

/// A process on another node whose memory is the same as that of a process which is to move, or
/// nearly. Pages that both have come from there, and not from home. Only time depends on it: home
/// compares the content of each page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sibling {
    /// PID of that process, at home.
    pub pid: i32,
    /// The node that hosts it.
    pub node: String,
}

/// Bytes that go at once as `4k`, `64k`, `1M` ([`Pace::buffer_bytes`]); what is wrong with it, in
/// words.
pub fn parse_buffer(text: &str) -> Result<u64, String> {
    let units = [("k", 10), ("M", 20)];
    let parsed = units.into_iter().find_map(|(unit, shift)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(1 << shift)
    });
    let wrong = || "bytes that go at once from 1k to 1M, as 4k or 256k; from 4k on whole pages of 4k".to_owned();
    let exact = |bytes: &u64| Pace { buffer_bytes: Some(*bytes), ..Pace::default() }.buffer_bytes() == Some(*bytes);
    parsed.filter(exact).ok_or_else(wrong)
}

/// What a move is busy with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Looking at the process, and making place for it.
    #[default]
    Prepares,
    /// Its memory is sent while it runs.
    Ahead,
    /// Its memory is sent while it stands still.
    Still,
    /// It runs there; its memory follows. That it does so cannot be called off.
    Follows,
}

/// How far a move is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Where the process goes.
    pub to: String,
    /// What it is busy with.
    pub stage: Stage,
    /// Bytes that the pages took on the link so far, packed where that is quicker.
    pub sent_bytes: u64,
    /// Bytes of memory that are still to go, at most; of a process that runs, without what it will
    /// have written meanwhile.
    pub left_bytes: u64,
    /// Bytes that the link took in the last second.
    pub bytes_per_s: u64,
    /// Bytes of memory that went in that second.
    pub memory_per_s: u64,
    /// For how long the other node has not answered, milliseconds, if something waits for an
    /// answer.
    pub silent_ms: Option<u64>,
}

impl Progress {
    /// Seconds until all is sent, if it goes on like that.
    pub fn rest_s(&self) -> Option<u64> {
        self.left_bytes.checked_div(self.memory_per_s)
    }
}

/// A part of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// What was done.
    pub name: String,
    /// How long it took, microseconds.
    pub us: u64,
}

/// One way of a move, by home's clock: from home to a node, back, or from node to node; through
/// home this has two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopReport {
    /// Where the process went.
    pub to: String,
    /// How its memory went.
    pub how: String,
    /// From the first look at the process until nothing was left to do, microseconds.
    pub total_us: u64,
    /// From before its threads were stopped until they ran there, microseconds. What one message
    /// takes between the nodes is counted too much (to a node) or too little (home): the other end
    /// says when.
    pub freeze_us: u64,
    /// What of the process takes time whatever its memory; 0 where that was not counted: on the way
    /// to a node, it is.
    pub parts: Parts,
    /// Bytes of pages that were sent.
    pub page_bytes: u64,
    /// Bytes of pages that were not sent, for they were there from an earlier stay.
    pub stocked_bytes: u64,
    /// What these were on the wire, packed where that is quicker, with headers.
    pub wire_bytes: u64,
    /// Of `page_bytes`, while it stood still.
    pub frozen_bytes: u64,
    /// Of `page_bytes`, when it ran at its new place (with pages of zeros).
    pub followed_bytes: u64,
    /// Of those, what it asked for before it came by itself (and what was sent along).
    pub asked_bytes: u64,
    /// On the way from a node to another node: why it went through home, and not straight there.
    pub detour: Option<String>,
    /// Processes that moved together with it, because they share memory.
    pub with: Vec<i32>,
    /// Step by step; those that start with `frozen ` while it stood still.
    pub phases: Vec<Phase>,
}

#[cfg(test)]
mod tests {
    use super::parse_buffer as buffer;

    #[test]
    fn buffers_have_units_and_bounds() {
        assert_eq!(["1k", "3k", "64k", "1M"].map(buffer), [Ok(1024), Ok(3072), Ok(65536), Ok(1 << 20)]);
        for bad in ["5", "0k", "5k", "-1k", "4.5k", "2M", "1025k", "18446744073709551615M", "k", "1K", ""] {
            assert!(buffer(bad).is_err(), "{bad}");
        }
    }
}
