//! Invariants that must hold in every run.

use serde::Serialize;

use crate::scenario::{Fault, Scenario};
use crate::world::Outcome;

/// The most messages that one node may send per second, on average: pulses, and those that moves
/// need.
const MESSAGES_PER_NODE_S: f64 = 4.0;
/// The most bytes of pulses that one node may send per second, on average.
const BYTES_PER_NODE_S: f64 = 1024.0;
/// The most moves that a process may make: this many ...
const MOVES_FREE: f64 = 6.0;
/// ... and one in this many seconds.
const MOVE_EVERY_S: f64 = 3.0;
/// The greatest share of all moves that may lead straight back ...
const RETURNS_SHARE: f64 = 0.1;
/// ... beyond this number of such moves.
const RETURNS_FREE: u64 = 3;
/// The longest time after a change until no node would send a process away if it knew everything,
/// seconds.
const SETTLED_S: f64 = 20.0;
/// Additional time for a message loss of 1, seconds. Lost requests are only repeated after seconds.
const SETTLED_LOSS_S: f64 = 50.0;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Violation {
    /// A process is on no node, on two nodes, or has died although its node did not.
    #[error("{astray} processes are on no node or on two, and {killed} died although their node did not")]
    Lost {
        /// Number of processes on no node or on two.
        astray: usize,
        /// Number of processes that died although their node did not.
        killed: usize,
    },
    /// A process was moved too often.
    #[error("a process was moved {moves} times in {seconds:.0} s")]
    PingPong {
        /// Number of its moves.
        moves: u32,
        /// Life time of the process, seconds.
        seconds: f64,
    },
    /// Too many moves led straight back.
    #[error("{returns} of {moves} moves lead back to the node just left")]
    Returns {
        /// Number of moves that led back.
        returns: u64,
        /// Number of all moves.
        moves: u64,
    },
    /// The network load exceeds what is allowed whatever the number of nodes.
    #[error("{messages:.2} messages and {bytes:.0} bytes of pulses per second and node")]
    Traffic {
        /// Messages per second and node.
        messages: f64,
        /// Bytes per second and node.
        bytes: f64,
    },
    /// The cluster does not come to rest.
    #[error("a node had a process too many for {seconds} s although nothing had changed")]
    Unsettled {
        /// Duration of the imbalance, seconds.
        seconds: u64,
    },
    /// A node was flooded with arrivals.
    #[error("a node had {beyond} arrivals beyond its cores within three seconds")]
    Flood {
        /// Arrivals beyond the number of cores.
        beyond: i64,
    },
}

/// Lists the invariants that a run breaks.
pub fn check(scenario: &Scenario, outcome: &Outcome) -> Vec<Violation> {
    let mut found = Vec::new();
    let deaths = scenario.faults.iter().any(|f| matches!(f, Fault::Kill { .. }));
    let killed = if deaths { 0 } else { outcome.jobs.iter().filter(|j| j.killed).count() };
    if outcome.astray > 0 || killed > 0 {
        found.push(Violation::Lost { astray: outcome.astray, killed });
    }
    for job in &outcome.jobs {
        let seconds = job.ended_s.unwrap_or(outcome.seconds) - job.begun_s;
        if f64::from(job.moves) > MOVES_FREE + seconds / MOVE_EVERY_S {
            found.push(Violation::PingPong { moves: job.moves, seconds });
            break;
        }
    }
    let (moves, returns) = (outcome.counts.moves, outcome.counts.returns);
    if returns > RETURNS_FREE + (moves as f64 * RETURNS_SHARE) as u64 {
        found.push(Violation::Returns { returns, moves });
    }
    let node_seconds = outcome.nodes as f64 * outcome.seconds.max(10.0);
    let (messages, bytes) =
        (outcome.counts.messages as f64 / node_seconds, outcome.counts.pulse_bytes as f64 / node_seconds);
    if messages > MESSAGES_PER_NODE_S || bytes > BYTES_PER_NODE_S {
        found.push(Violation::Traffic { messages, bytes });
    }
    if outcome.counts.unsettled_s as f64 > SETTLED_S + SETTLED_LOSS_S * scenario.network.loss {
        found.push(Violation::Unsettled { seconds: outcome.counts.unsettled_s });
    }
    if outcome.counts.crowd_max > 2 {
        found.push(Violation::Flood { beyond: outcome.counts.crowd_max });
    }
    found
}
