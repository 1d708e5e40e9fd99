//! Records that samplers send. Unchanged values are left out.

use std::collections::HashMap;
use std::sync::mpsc::SyncSender;

use super::clock::Clock;
use crate::layer::Layer;
use crate::record::{Change, Detail, Object, Record, Value};

/// An object that was just found.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Layer of the object.
    pub layer: Layer,
    /// Name of the object.
    pub name: String,
    /// PID of its process.
    pub pid: Option<i32>,
    /// More about it.
    pub details: Vec<Detail>,
}

/// Collects records and sends them.
#[derive(Debug)]
pub struct Output {
    sender: SyncSender<Vec<Record>>,
    clock: Clock,
    pending: Vec<Record>,
    known: HashMap<u32, Vec<Option<Value>>>,
    next: u32,
}

impl Output {
    /// Makes an output without objects.
    pub fn new(sender: SyncSender<Vec<Record>>, clock: Clock) -> Output {
        Output::beginning_at(0, sender, clock)
    }

    /// Makes an output whose objects have numbers from `first` on.
    pub fn beginning_at(first: u32, sender: SyncSender<Vec<Record>>, clock: Clock) -> Output {
        Output { sender, clock, pending: Vec::new(), known: HashMap::new(), next: first }
    }

    /// Adds an object, and gives its number.
    pub fn object(&mut self, draft: Draft) -> u32 {
        let id = self.next;
        self.next += 1;
        self.known.insert(id, vec![None; draft.layer.columns().len()]);
        let Draft { layer, name, pid, details } = draft;
        self.pending.push(Record::Object(Object { id, layer, name, pid, details }));
        id
    }

    /// Adds those values of an object that have changed.
    pub fn sample(&mut self, object: u32, mut changes: Vec<Change>) {
        let Some(known) = self.known.get_mut(&object) else { return };
        changes.retain(|change| {
            known.get_mut(usize::from(change.column)).is_some_and(|before| {
                let differs = *before != change.value;
                *before = change.value;
                differs
            })
        });
        if !changes.is_empty() {
            self.pending.push(Record::Sample { at_us: self.clock.now_us(), object, changes });
        }
    }

    /// Ends an object.
    pub fn gone(&mut self, object: u32, reason: impl Into<String>) {
        if self.known.remove(&object).is_some() {
            self.pending.push(Record::Gone { at_us: self.clock.now_us(), object, reason: reason.into() });
        }
    }

    /// Adds something that the user should know.
    pub fn note(&mut self, text: impl Into<String>) {
        self.pending.push(Record::Note { at_us: self.clock.now_us(), text: text.into() });
    }

    /// Sends what was added. False: nobody listens any more.
    pub fn send(&mut self) -> bool {
        self.pending.is_empty() || self.sender.send(std::mem::take(&mut self.pending)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::backlog;

    #[test]
    fn unchanged_values_are_left_out() {
        let (sender, receiver) = std::sync::mpsc::sync_channel(9);
        let mut output = Output::new(sender, Clock::start());
        let id = output.object(Draft { layer: Layer::Backlog, name: "x".into(), pid: None, details: Vec::new() });
        for number in [5, 5, 6] {
            output.sample(id, vec![Change::exact(backlog::PACKETS, number), Change::exact(backlog::LIMIT, 1000)]);
        }
        output.gone(id, "over");
        output.gone(id, "over");
        output.sample(id, vec![Change::exact(backlog::PACKETS, 9)]);
        assert!(output.send());
        let records = receiver.recv().unwrap();
        let counts: Vec<usize> = records
            .iter()
            .map(|record| if let Record::Sample { changes, .. } = record { changes.len() } else { 0 })
            .collect();
        assert_eq!(counts, [0, 2, 1, 0]);
    }
}
