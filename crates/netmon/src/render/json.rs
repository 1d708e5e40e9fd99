//! Records as JSON, one object a line.

use serde_json::{Map, Value as Json, json};

use crate::book::Book;
use crate::record::{Change, Object, Record, Summary};

/// Gives the line of a record, without its end. `book` has taken the record in.
pub fn line(record: &Record, book: &Book) -> String {
    let json = match record {
        Record::Start(start) => json!({ "type": "start", "start": start }),
        Record::Object(object) => json!({ "type": "object", "object": object }),
        Record::Sample { at_us, object, changes } => match book.entry(*object) {
            Some(entry) => sample(*at_us, &entry.object, changes),
            None => json!({ "type": "sample", "at_us": at_us, "object": object }),
        },
        Record::Gone { at_us, object, reason } => {
            json!({ "type": "gone", "at_us": at_us, "object": object, "reason": reason })
        }
        Record::Note { at_us, text } => json!({ "type": "note", "at_us": at_us, "text": text }),
        Record::Finding(finding) => {
            let entry = book.entry(finding.object);
            let column = entry.and_then(|entry| entry.object.layer.column(finding.column));
            json!({
                "type": "finding",
                "object": finding.object,
                "name": entry.map(|entry| &entry.object.name),
                "queue": column.map(|column| column.name),
                "since_us": finding.since_us,
                "cause": finding.cause,
                "text": finding.text,
            })
        }
        Record::Progress(summary) => totals("progress", summary),
        Record::End(summary) => totals("end", summary),
    };
    json.to_string()
}

fn sample(at_us: u64, object: &Object, changes: &[Change]) -> Json {
    let (mut values, mut estimates) = (Map::new(), Vec::new());
    for change in changes {
        let Some(column) = object.layer.column(change.column) else { continue };
        values.insert(column.name.into(), change.value.map_or(Json::Null, |value| value.number().into()));
        if change.value.is_some_and(|value| value.is_estimate()) {
            estimates.push(column.name);
        }
    }
    let mut sample = json!({
        "type": "sample", "at_us": at_us, "object": object.id, "layer": object.layer, "values": values,
    });
    if !estimates.is_empty() {
        sample["estimates"] = json!(estimates);
    }
    sample
}

fn totals(kind: &str, summary: &Summary) -> Json {
    json!({
        "type": kind,
        "elapsed_us": summary.elapsed_us,
        "cpu_us": summary.cpu_us,
        "lost": summary.lost,
        "fast": summary.fast,
        "fast_overlapped_percent": summary.fast.overlapped_percent(),
        "slow": summary.slow,
        "slow_overlapped_percent": summary.slow.overlapped_percent(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Layer, socket};

    #[test]
    fn a_sample_names_its_columns_and_estimates() {
        let mut book = Book::default();
        let object = Object { id: 2, layer: Layer::Socket, name: "\"x\"".into(), pid: None, details: Vec::new() };
        book.apply(&Record::Object(object));
        let changes = vec![Change::exact(socket::RX_BYTES, 5), Change::estimate(socket::RX_PACKETS, 1)];
        let read: Json = serde_json::from_str(&line(&Record::Sample { at_us: 7, object: 2, changes }, &book)).unwrap();
        assert_eq!(read["values"], json!({ "rx_bytes": 5, "rx_packets": 1 }));
        assert_eq!((&read["estimates"], &read["layer"]), (&json!(["rx_packets"]), &json!("socket")));
    }
}
