//! Messages between simulated daemons.

use policy::{Ask, NodeView, Refusal};

/// Readings in one pulse, as the daemon sends them.
pub(crate) const PULSE_READINGS: usize = 24;

/// A message between daemons.
#[derive(Debug)]
pub(crate) enum Message {
    /// The newest readings, each with its age in milliseconds.
    Pulse(Vec<(u64, u64, NodeView)>),
    /// A request to let a process come.
    Ask { number: u64, ask: Ask },
    /// The answer to a request, with the present view of the node that was asked.
    Answer { number: u64, result: Result<(), Refusal>, view: NodeView },
}
