//! The queue of events, in order of time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::message::Message;

/// An event of the simulation.
#[derive(Debug)]
pub(crate) enum Event {
    /// A node's daemon does its periodic work, once a second.
    Tick { node: usize },
    /// A message arrives.
    Message { from: usize, to: usize, message: Box<Message> },
    /// A process ends on this node, unless something has changed since the event was planned.
    Finish { node: usize, version: u64 },
    /// A process begins.
    Start { process: usize },
    /// A process arrives on the node that was chosen for its start.
    Placed { process: usize, node: usize },
    /// A moving process arrives on its new node.
    Arrive { process: usize, to: usize },
    /// A background process starts to run or to pause.
    Toggle { process: usize },
    /// A fault begins or ends.
    Fault { index: usize, begins: bool },
    /// A dead node becomes known to be dead.
    Forget { node: usize },
    /// The target has not answered in time.
    GiveUp { node: usize, ask: u64 },
    /// The counts are sampled.
    Sample,
}

struct Due {
    at_us: u64,
    number: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    /// Orders the earliest event as the greatest; of equal times, the event that was added first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_us, other.number).cmp(&(self.at_us, self.number))
    }
}

/// The queue of planned events.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Due>,
    number: u64,
}

impl Queue {
    pub fn add(&mut self, at_us: u64, event: Event) {
        self.number += 1;
        self.heap.push(Due { at_us, number: self.number, event });
    }

    pub fn next(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|due| (due.at_us, due.event))
    }
}
