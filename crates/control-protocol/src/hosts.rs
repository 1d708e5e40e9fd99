//! Hosts on request: what the user's tool asks, and what a home tells of a program's hosts.

pub use policy::{Claim, Granted, Holder, Term};
use serde::{Deserialize, Serialize};

/// The most hosts that a program may want.
pub const WANTED_MAX: u32 = 1024;

/// A question or order about the hosts of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostsOrder {
    /// Which programs hold hosts? Users see their own, root all.
    List,
    /// Get hosts, and keep them until the program ends or gives them back.
    Request {
        /// How many hosts the program wants, those that it holds included.
        wanted: u32,
        /// For how long it wants them.
        term: Term,
        /// PID of the program; the parent of the tool, if absent.
        holder: Option<i32>,
    },
    /// Give hosts back.
    Release {
        /// The names of the nodes; all, if there are none.
        hosts: Vec<String>,
        /// PID of the program; the parent of the tool, if absent.
        holder: Option<i32>,
    },
}

/// The hosts of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldHosts {
    /// PID of the program.
    pub pid: i32,
    /// How many hosts it wants.
    pub wanted: u32,
    /// For how long it wants them.
    pub term: Term,
    /// The names of the hosts that it holds.
    pub hosts: Vec<String>,
    /// Hosts that it lost, and why, the last ones.
    pub lost: Vec<(String, String)>,
}
