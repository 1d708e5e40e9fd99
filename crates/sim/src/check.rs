//! What must hold in every run.

use serde::Serialize;

use crate::scenario::{Fault, Scenario};
use crate::world::Outcome;

/// Messages that one node may send a second, on average: pulses, and what moving takes.
const MESSAGES_PER_NODE_S: f64 = 4.0;
/// Bytes of pulses that one node may send a second, on average.
const BYTES_PER_NODE_S: f64 = 1024.0;
/// Moves that a process may make: so many, and one in so many seconds.
const MOVES_FREE: f64 = 6.0;
const MOVE_EVERY_S: f64 = 3.0;
/// Of all moves, the share that may lead straight back, and how many are not counted.
const RETURNS_SHARE: f64 = 0.1;
const RETURNS_FREE: u64 = 3;
/// Longest time after a change until a node that knew everything would send nobody away, seconds.
const SETTLED_S: f64 = 20.0;
/// Where messages are lost, questions are asked again after seconds: so much more for a share of 1.
const SETTLED_LOSS_S: f64 = 50.0;

/// What does not hold.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Violation {
    /// A process is nowhere, in two places, or has died though no node did.
    #[error("{astray} processes are in no place or in two, and {killed} died though no node did")]
    Lost {
        /// In no place, or in two.
        astray: usize,
        /// Dead without a death.
        killed: usize,
    },
    /// A process was moved too often.
    #[error("a process was moved {moves} times in {seconds:.0} s")]
    PingPong {
        /// How often.
        moves: u32,
        /// Its life.
        seconds: f64,
    },
    /// Too many moves lead back at once.
    #[error("{returns} of {moves} moves lead back to the node just left")]
    Returns {
        /// These.
        returns: u64,
        /// Of these.
        moves: u64,
    },
    /// The network is loaded beyond what does not depend on the number of nodes.
    #[error("{messages:.2} messages and {bytes:.0} bytes of pulses a second and node")]
    Traffic {
        /// A second and node.
        messages: f64,
        /// A second and node.
        bytes: f64,
    },
    /// The cluster does not come to rest.
    #[error("a node had a process too many for {seconds} s though nothing had changed")]
    Unsettled {
        /// For so long.
        seconds: u64,
    },
    /// A node was flooded.
    #[error("a node had {beyond} arrivals beyond its cores within three seconds")]
    Flood {
        /// Beyond the cores.
        beyond: i64,
    },
}

/// The violations of a run.
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
