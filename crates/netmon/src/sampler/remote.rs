//! A node of the cluster that samples its part (`tern netmon --all`). Its recording comes here bit
//! by bit, and becomes a part of this one: its objects get numbers and names of this recording, and
//! its times are those of this machine's clock.

use std::collections::HashMap;
use std::sync::Arc;

use control_protocol::sampling::{Sampling, SamplingOrder};

use super::fast::Shared;
use crate::cluster::Cluster;
use crate::file::Parts;
use crate::record::{Detail, Finding, Object, Record};
use crate::render::table;

/// A node is asked for more so often, nanoseconds.
const PERIOD_NS: u64 = 300_000_000;
/// So many failures in a row end it.
const FAILURES_MAX: u32 = 10;
/// A sampler that was told to end gives its last words in so many turns at most.
const LAST_TURNS: u32 = 10;
/// Objects of other nodes have numbers from here on, `OBJECTS_MAX` for each node.
pub const FIRST_OBJECT: u32 = 1 << 31;
const OBJECTS_MAX: u32 = 1 << 22;
/// The most nodes that fit.
pub const NODES_MAX: usize = ((u32::MAX - FIRST_OBJECT) / OBJECTS_MAX) as usize;

/// The part of another node.
pub struct Remote {
    shared: Shared,
    cluster: Arc<dyn Cluster>,
    order: SamplingOrder,
    translation: Translation,
    parts: Parts,
    failures: u32,
}

impl Remote {
    /// Makes the part of a node, the `index`-th one. `wall_us` is the time of day at which this
    /// recording began, microseconds since 1970.
    pub fn new(shared: Shared, cluster: Arc<dyn Cluster>, order: SamplingOrder, place: Place) -> Remote {
        Remote { shared, cluster, order, translation: Translation::new(place), parts: Parts::default(), failures: 0 }
    }

    /// Takes what the node records until it, or this recording, ends.
    pub fn run(mut self) {
        let node = self.translation.place.node.clone();
        let begun = self.cluster.sample(&node, Sampling::Begin(self.order.clone()));
        let id = match begun {
            Ok(sampled) => {
                self.translation.skew_us = sampled.skew_us;
                sampled.id
            }
            Err(reason) => return self.note(format!("node {node} does not sample its queues: {reason}")),
        };
        let (mut last_turns, mut goes_on) = (0, true);
        while goes_on && last_turns < LAST_TURNS {
            self.shared.clock.wait_until(self.shared.clock.now_ns() + PERIOD_NS);
            if self.shared.ends() {
                if last_turns == 0 {
                    let _ = self.cluster.sample(&node, Sampling::End { id });
                }
                last_turns += 1;
            }
            goes_on = self.read(id);
        }
    }

    /// Takes what has been recorded. False: no more comes.
    fn read(&mut self, id: u64) -> bool {
        let node = self.translation.place.node.clone();
        let sampled = match self.cluster.sample(&node, Sampling::Read { id }) {
            Ok(sampled) => sampled,
            Err(reason) => {
                self.failures += 1;
                if self.failures == FAILURES_MAX {
                    self.note(format!("node {node} is not sampled any more: {reason}"));
                }
                return self.failures < FAILURES_MAX;
            }
        };
        self.failures = 0;
        let records = match self.parts.add(&sampled.bytes) {
            Ok(records) => records,
            Err(e) => {
                self.note(format!("node {node}: {e}"));
                return false;
            }
        };
        let records: Vec<Record> =
            records.into_iter().filter_map(|record| self.translation.translate(record)).collect();
        if !records.is_empty() && self.shared.sender.send(records).is_err() {
            return false;
        }
        !sampled.is_over
    }

    fn note(&self, text: String) {
        let _ = self.shared.sender.send(vec![Record::Note { at_us: self.shared.clock.now_us(), text }]);
    }
}

/// Where the part of a node belongs in this recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the node.
    pub node: String,
    /// Number of the node among those that are sampled.
    pub index: usize,
    /// When this recording began, microseconds since 1970.
    pub wall_us: u64,
}

/// Makes records of a node records of this recording. They are another machine's: any number and
/// name may come.
struct Translation {
    place: Place,
    /// By how much the node's clock is ahead, microseconds.
    skew_us: i64,
    /// The difference that is added to the node's times, microseconds.
    offset_us: i64,
    objects: HashMap<u32, u32>,
}

impl Translation {
    fn new(place: Place) -> Translation {
        Translation { place, skew_us: 0, offset_us: 0, objects: HashMap::new() }
    }

    fn translate(&mut self, record: Record) -> Option<Record> {
        let node = &self.place.node;
        match record {
            Record::Start(start) => {
                let (theirs, ours) = (start.wall_us as i64, self.place.wall_us as i64);
                self.offset_us = theirs.wrapping_sub(self.skew_us).wrapping_sub(ours);
                None
            }
            Record::Object(Object { id, layer, name, pid, mut details }) => {
                let id = self.number(id)?;
                details.push(Detail::new("sampled_on", &self.place.node));
                Some(Record::Object(Object { id, layer, name: format!("{}: {name}", self.place.node), pid, details }))
            }
            Record::Sample { at_us, object, changes } => {
                Some(Record::Sample { at_us: self.time(at_us), object: *self.objects.get(&object)?, changes })
            }
            Record::Gone { at_us, object, reason } => {
                Some(Record::Gone { at_us: self.time(at_us), object: *self.objects.get(&object)?, reason })
            }
            Record::Note { at_us, text } => {
                Some(Record::Note { at_us: self.time(at_us), text: format!("{node}: {text}") })
            }
            Record::Finding(finding) => {
                let object = *self.objects.get(&finding.object)?;
                Some(Record::Finding(Finding { object, since_us: self.time(finding.since_us), ..finding }))
            }
            Record::End(summary) => {
                let text = format!("{node}: {}", table::summary(&summary).trim_end().replace('\n', "; "));
                Some(Record::Note { at_us: self.time(summary.elapsed_us), text })
            }
            Record::Progress(_) => None,
        }
    }

    fn time(&self, at_us: u64) -> u64 {
        let at_us = i64::try_from(at_us).unwrap_or(i64::MAX).saturating_add(self.offset_us);
        u64::try_from(at_us).unwrap_or(0)
    }

    /// Gives the number of an object in this recording; `None`: the node has too many.
    fn number(&mut self, id: u32) -> Option<u32> {
        let next = self.objects.len() as u32;
        if let Some(known) = self.objects.get(&id) {
            return Some(*known);
        }
        let number = FIRST_OBJECT + self.place.index as u32 * OBJECTS_MAX + next;
        (next < OBJECTS_MAX).then(|| *self.objects.entry(id).or_insert(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Layer, socket};
    use crate::record::{Change, Start};

    #[test]
    fn records_of_a_node_get_numbers_names_and_times_of_this_recording() {
        let place = Place { node: "n2".into(), index: 1, wall_us: 1_000_000 };
        let mut translation = Translation { skew_us: 300_000, ..Translation::new(place) };
        // The node's clock is 0.3 s ahead, and it began 0.5 s after us.
        let start = Start { wall_us: 1_800_000, period_ns: 1, slow_period_ns: 1, time_ms: 1, interfaces: Vec::new() };
        assert_eq!(translation.translate(Record::Start(start)), None);
        let object = Object { id: 7, layer: Layer::Socket, name: "tcp".into(), pid: Some(5), details: Vec::new() };
        let Some(Record::Object(object)) = translation.translate(Record::Object(object)) else { panic!("no object") };
        assert_eq!((object.id, object.name.as_str()), (FIRST_OBJECT + OBJECTS_MAX, "n2: tcp"));
        let sample =
            |at_us, object| Record::Sample { at_us, object, changes: vec![Change::exact(socket::RX_BYTES, 1)] };
        assert_eq!(translation.translate(sample(10, 7)), Some(sample(500_010, object.id)));
        assert_eq!(translation.translate(sample(10, 8)), None);
        translation.offset_us = -100;
        assert_eq!(translation.translate(sample(10, 7)), Some(sample(0, object.id)));
        assert!(translation.translate(sample(u64::MAX, 7)).is_some());
    }
}
