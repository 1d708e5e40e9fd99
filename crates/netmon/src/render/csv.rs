//! Samples as CSV (RFC 4180): a line for each value that has changed.

use std::fmt::Write as _;

use crate::book::Book;
use crate::record::Record;

/// The first line, without its end.
pub const HEADER: &str = "at_us,layer,object,pid,name,column,value,kind";

/// Gives the lines of a record, each with its end; none for records other than samples.
pub fn lines(record: &Record, book: &Book) -> String {
    let Record::Sample { at_us, object, changes } = record else { return String::new() };
    let Some(entry) = book.entry(*object) else { return String::new() };
    let (layer, name) = (entry.object.layer, quoted(&entry.object.name));
    let pid = entry.object.pid.map_or(String::new(), |pid| pid.to_string());
    let mut lines = String::new();
    for change in changes {
        let Some(column) = layer.column(change.column) else { continue };
        let (value, kind) = match change.value {
            Some(value) if value.is_estimate() => (value.number().to_string(), "estimate"),
            Some(value) => (value.number().to_string(), "value"),
            None => (String::new(), "n/a"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{at_us},{},{object},{pid},{name},{},{value},{kind}", layer.name(), column.name);
    }
    lines
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Layer, socket};
    use crate::record::{Change, Object};

    #[test]
    fn values_have_lines_of_their_own() {
        let mut book = Book::default();
        let object = Object { id: 2, layer: Layer::Socket, name: "a,\"b\"".into(), pid: Some(9), details: Vec::new() };
        book.apply(&Record::Object(object));
        let changes = vec![
            Change::exact(socket::RX_BYTES, 5),
            Change::estimate(socket::RX_PACKETS, 1),
            Change { column: socket::DROPS, value: None },
        ];
        let expected = "7,socket,2,9,\"a,\"\"b\"\"\",rx_bytes,5,value\n\
            7,socket,2,9,\"a,\"\"b\"\"\",rx_packets,1,estimate\n\
            7,socket,2,9,\"a,\"\"b\"\"\",drops,,n/a\n";
        assert_eq!(lines(&Record::Sample { at_us: 7, object: 2, changes }, &book), expected);
    }
}
