//! The network between simulated daemons, and what they do with messages.

use policy::Cause;

use crate::event::Event;
use crate::message::Message;
use crate::world::World;

/// The largest encoding of a reading by the daemon, bytes (crates/control-protocol/tests/sizes.rs).
const READING_BYTES: u64 = 39;
/// An estimate of the overhead of a datagram, bytes: the sender with its name and address, the
/// digest, the seal, and the headers of UDP and IP.
const DATAGRAM_BYTES: u64 = 120;

impl World {
    pub(crate) fn send(&mut self, from: usize, to: usize, message: Message) {
        self.counts.messages += 1;
        if let Message::Pulse(readings) = &message {
            self.counts.pulse_bytes += DATAGRAM_BYTES + READING_BYTES * readings.len() as u64;
        }
        let network = &self.scenario.network;
        if network.loss > 0.0 && self.draw.unit() < network.loss {
            return;
        }
        let delay_ms = network.delay_ms + network.jitter_ms * self.draw.unit();
        let at_us = self.now_us + (delay_ms * 1e3) as u64 + 1;
        self.queue.add(at_us, Event::Message { from, to, message: Box::new(message) });
    }

    pub(crate) fn receive(&mut self, from: usize, to: usize, message: Message) {
        if !self.nodes[to].alive || !self.reaches(from, to) {
            return;
        }
        let now_ms = self.now_ms(to);
        match message {
            Message::Pulse(readings) => {
                let node = &mut self.nodes[to];
                node.partners.heard(from as u64);
                for (id, age_ms, view) in readings {
                    if id != to as u64 {
                        node.window.note(id, age_ms, view, now_ms);
                    }
                }
            }
            Message::Ask { number, ask } => {
                let (own, _) = self.view(to);
                let cause = ask.cause;
                let node = &mut self.nodes[to];
                let result = node.mover.admit(now_ms, own, &ask, crate::moves::PROMISE_MS);
                let view = node.mover.with_promises(now_ms, own);
                match result {
                    // The asker's newest view is the one in the request, less the process that it
                    // sends.
                    Ok(()) => drop(node.window.note(from as u64, 0, ask.without(), now_ms)),
                    Err(_) => self.counts.refused += 1,
                }
                self.send(to, from, Message::Answer { number, result, view });
                // A process that comes in exchange sends another one away. That one need not wait
                // for it.
                if result.is_ok() && cause == Cause::Exchange {
                    self.consider(to);
                }
            }
            Message::Answer { number, result, view } => self.answered(to, number, result, view),
        }
    }

    /// Tells whether the network connects these two nodes.
    pub(crate) fn reaches(&self, from: usize, to: usize) -> bool {
        self.cuts.iter().all(|below| (from < *below) == (to < *below))
    }
}
