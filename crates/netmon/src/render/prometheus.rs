//! The text exposition format of Prometheus: the value now, and the maximum and quantiles since the
//! text was written last.
//!
//! A quantile is one of time: for this share of the time a queue had at most that length. The
//! figure is too large by an eighth at most.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use super::plain;
use crate::book::{Book, Entry};
use crate::classes::{class, upper};
use crate::layer::{Kind, Layer};
use crate::record::{Record, Value};

/// The quantiles that are written.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// For how long queues had which lengths, since the last text.
#[derive(Debug, Default)]
pub struct Spreads {
    since_us: u64,
    queues: HashMap<Queue, Spread>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Queue {
    object: u32,
    column: u8,
}

#[derive(Debug)]
struct Spread {
    value: u64,
    since_us: u64,
    most: u64,
    /// Time by class of length, microseconds.
    times: BTreeMap<u64, u64>,
}

impl Spread {
    fn begin(value: u64, since_us: u64) -> Spread {
        Spread { value, since_us, most: value, times: BTreeMap::new() }
    }

    /// Counts the time until now.
    fn advance(&mut self, now_us: u64) {
        *self.times.entry(class(self.value)).or_default() += now_us.saturating_sub(self.since_us);
        self.since_us = self.since_us.max(now_us);
    }

    fn quantile(&self, share: f64) -> u64 {
        let all: u64 = self.times.values().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = self.times.iter().find(|(_, time)| {
            seen += **time;
            seen >= wanted
        });
        found.map_or(self.value, |(class, _)| upper(*class)).min(self.most)
    }
}

impl Spreads {
    /// Takes a record in.
    pub fn take(&mut self, record: &Record) {
        match record {
            Record::Sample { at_us, object, changes } => {
                for change in changes {
                    let queue = Queue { object: *object, column: change.column };
                    let value = change.value.map_or(0, Value::number);
                    let spread = self.queues.entry(queue).or_insert_with(|| Spread::begin(value, *at_us));
                    spread.advance(*at_us);
                    spread.value = value;
                    spread.most = spread.most.max(value);
                }
            }
            Record::Gone { object, .. } => self.queues.retain(|queue, _| queue.object != *object),
            _ => {}
        }
    }

    /// Gives the text, and begins the next time.
    pub fn text(&mut self, book: &Book) -> String {
        let now_us = book.now_us;
        self.queues.values_mut().for_each(|spread| spread.advance(now_us));
        let mut text = String::new();
        let _ = writeln!(text, "# HELP tern_netmon_window_seconds Time that maxima and quantiles are of.");
        let _ = writeln!(text, "# TYPE tern_netmon_window_seconds gauge");
        let _ = writeln!(text, "tern_netmon_window_seconds {}", now_us.saturating_sub(self.since_us) as f64 / 1e6);
        for layer in Layer::ALL {
            self.add_layer(layer, book, &mut text);
        }
        self.add_findings(book, &mut text);
        self.since_us = now_us;
        for spread in self.queues.values_mut() {
            *spread = Spread::begin(spread.value, now_us);
        }
        text
    }

    fn add_layer(&self, layer: Layer, book: &Book, text: &mut String) {
        for (index, column) in layer.columns().iter().enumerate() {
            let index = index as u8;
            let known = |entry: &&Entry| entry.cell(index).value.is_some();
            let entries: Vec<&Entry> = book.present(layer).filter(known).collect();
            if entries.is_empty() {
                continue;
            }
            let name = format!("tern_netmon_{}_{}", layer.name(), column.name);
            let (name, kind) = match column.kind {
                Kind::Counter => (name + "_total", "counter"),
                Kind::Queue { .. } | Kind::Number => (name, "gauge"),
            };
            let _ = writeln!(text, "# TYPE {name} {kind}");
            for entry in &entries {
                let _ = writeln!(text, "{name}{{{}}} {}", labels(entry), entry.cell(index).number());
            }
            if !matches!(column.kind, Kind::Queue { .. }) {
                continue;
            }
            let spread = |entry: &Entry| self.queues.get(&Queue { object: entry.object.id, column: index });
            let _ = writeln!(text, "# TYPE {name}_max gauge");
            for (entry, spread) in entries.iter().filter_map(|entry| Some((entry, spread(entry)?))) {
                let _ = writeln!(text, "{name}_max{{{}}} {}", labels(entry), spread.most);
            }
            let _ = writeln!(text, "# TYPE {name}_quantile gauge");
            for (entry, spread) in entries.iter().filter_map(|entry| Some((entry, spread(entry)?))) {
                for share in QUANTILES {
                    let value = spread.quantile(share);
                    let _ = writeln!(text, "{name}_quantile{{{},quantile=\"{share}\"}} {value}", labels(entry));
                }
            }
        }
    }

    /// Counts the findings of this recording by their cause.
    fn add_findings(&self, book: &Book, text: &mut String) {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for finding in &book.findings {
            let cause = serde_json::to_value(finding.cause).ok();
            let cause = cause.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
            *counts.entry(cause).or_default() += 1;
        }
        let _ = writeln!(text, "# HELP tern_netmon_findings_total Queues that stayed at their limit.");
        let _ = writeln!(text, "# TYPE tern_netmon_findings_total counter");
        for (cause, count) in counts {
            let _ = writeln!(text, "tern_netmon_findings_total{{cause=\"{}\"}} {count}", escaped(&cause));
        }
    }
}

/// The labels of an object. Objects of one name have different numbers.
fn labels(entry: &Entry) -> String {
    let object = &entry.object;
    let pid = object.pid.map(|pid| format!(",pid=\"{pid}\"")).unwrap_or_default();
    format!("object=\"{}\",id=\"{}\"{pid}", escaped(&plain(&object.name)), object.id)
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::socket;
    use crate::record::{Change, Object};

    #[test]
    fn quantiles_are_of_the_time_since_the_last_text() {
        let mut book = Book::default();
        let mut spreads = Spreads::default();
        let take = |record: Record, book: &mut Book, spreads: &mut Spreads| {
            book.apply(&record);
            spreads.take(&record);
        };
        let sample = |at_us, number| Record::Sample {
            at_us,
            object: 2,
            changes: vec![Change::exact(socket::RX_BYTES, number), Change::exact(socket::DROPS, 3)],
        };
        let object = Object { id: 2, layer: Layer::Socket, name: "a \"b\"".into(), pid: Some(9), details: Vec::new() };
        take(Record::Object(object), &mut book, &mut spreads);
        take(sample(0, 4), &mut book, &mut spreads);
        take(sample(950_000, 60_000), &mut book, &mut spreads);
        take(sample(1_000_000, 2), &mut book, &mut spreads);
        let text = spreads.text(&book);
        let labels = r#"{object="a \"b\"",id="2",pid="9""#;
        let has = |line: &str| text.contains(&line.replace('{', labels));
        assert!(has("tern_netmon_socket_rx_bytes{} 2\n"), "{text}");
        assert!(has("tern_netmon_socket_rx_bytes_max{} 60000\n") && has("tern_netmon_socket_drops_total{} 3\n"));
        assert!(
            has("rx_bytes_quantile{,quantile=\"0.9\"} 4\n") && has("quantile{,quantile=\"0.99\"} 60000\n"),
            "{text}"
        );
        book.now_us = 2_000_000;
        assert!(spreads.text(&book).contains("_max{object=\"a \\\"b\\\"\",id=\"2\",pid=\"9\"} 2\n"));
    }
}
