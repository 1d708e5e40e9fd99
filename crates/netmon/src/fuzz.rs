//! A recording that anybody wrote, for a fuzz target and a test: it is read, drawn and printed.

use crate::book::Book;
use crate::diagnosis::Diagnosis;
use crate::file::{self, Block};
use crate::layer::Kind;
use crate::record::Record;
use crate::render::prometheus::Spreads;
use crate::render::svg::{self, Curve, Point};
use crate::render::table::Room;
use crate::render::view::{Sort, View};
use crate::render::{csv, json, table};

/// More records than this are not looked at.
const RECORDS_MAX: usize = 2000;

/// Reads the input as a recording, and as the content of a block whose hash is right; then prints
/// all that is in it in every way.
pub fn recording(input: &[u8]) {
    let whole = [file::MAGIC.as_slice(), input].concat();
    if let Ok(recording) = file::read(&whole) {
        print_all(&recording.records);
    }
    let whole = [file::MAGIC.as_slice(), &Block::of(input.to_vec()).take()].concat();
    if let Ok(recording) = file::read(&whole) {
        print_all(&recording.records);
    }
}

fn print_all(records: &[Record]) {
    let (mut book, mut spreads, mut diagnosis) = (Book::default(), Spreads::default(), Diagnosis::default());
    for record in records.iter().take(RECORDS_MAX) {
        book.apply(record);
        spreads.take(record);
        let _ = (json::line(record, &book), csv::lines(record, &book));
    }
    let _ = diagnosis.check(&mut book);
    let room = Room { lines: 5, columns: 40 };
    let _ = table::live(&book, &View { sort: Sort::Fill, ..View::default() }, room);
    let text = table::table(&book) + &spreads.text(&book);
    assert!(!text.contains('\u{1b}'), "names steer the terminal");
    for entry in book.entries() {
        for filled in entry.columns().filter(|filled| matches!(filled.column.kind, Kind::Queue { .. })) {
            let points = vec![Point { at_us: filled.cell.changed_us, number: filled.cell.peak }];
            let limit = entry.limit(filled.column);
            svg::draw(&Curve { title: entry.object.name.clone(), points, limit, ..Curve::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_recording_is_printed_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            recording(&bytes);
        }

        /// Sound records with wild numbers, damaged in one place.
        #[test]
        fn a_damaged_recording_is_printed_without_harm(numbers in proptest::collection::vec(any::<u64>(), 1..40), at in 0usize..2000, byte in any::<u8>()) {
            use crate::layer::Layer;
            use crate::record::{Change, Object};
            let mut content = Vec::new();
            for (id, layer) in (0..).zip(Layer::ALL) {
                let object = Object { id, layer, name: "\u{1b}[2J".into(), pid: Some(-1), details: Vec::new() };
                content.extend(postcard::to_allocvec(&Record::Object(object)).unwrap());
            }
            for number in &numbers {
                let changes = vec![Change::exact(*number as u8 % 18, *number), Change::estimate(2, number / 3)];
                let sample = Record::Sample { at_us: *number, object: *number as u32 % 11, changes };
                content.extend(postcard::to_allocvec(&sample).unwrap());
            }
            recording(&content);
            let place = at % content.len();
            content[place] = byte;
            recording(&content);
        }
    }
}
