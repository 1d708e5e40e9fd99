//! The present state of all objects, built from records.

use std::collections::BTreeMap;

use crate::layer::{Column, Kind, Layer};
use crate::record::{Change, Finding, Object, Record, Start, Summary, Value};

/// One column of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The value now; `None`: it is not known.
    pub value: Option<Value>,
    /// The largest value.
    pub peak: u64,
    /// The smallest value since [`Book::reset_lows`].
    pub low: u64,
    /// The value at [`Book::reset_lows`].
    pub before: u64,
    /// When the value changed, microseconds from the start.
    pub changed_us: u64,
}

impl Cell {
    /// Gives the value now, 0 if it is not known.
    pub fn number(&self) -> u64 {
        self.value.map_or(0, Value::number)
    }

    /// Gives by how much the value has risen since [`Book::reset_lows`].
    pub fn risen(&self) -> u64 {
        self.number().saturating_sub(self.before)
    }
}

/// An object with its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The object, as it was found.
    pub object: Object,
    cells: Vec<Cell>,
    /// Why it is not there any more.
    pub gone: Option<String>,
}

impl Entry {
    /// Gives a column's cell; one without value for an index that the layer does not have.
    pub fn cell(&self, column: u8) -> Cell {
        self.cells.get(usize::from(column)).copied().unwrap_or_default()
    }

    /// Lists the columns with their indices and cells.
    pub fn columns(&self) -> impl Iterator<Item = Filled<'_>> {
        let columns = self.object.layer.columns().iter().zip(&self.cells);
        columns.enumerate().map(|(index, (column, cell))| Filled { index: index as u8, column, cell: *cell })
    }

    /// Gives the limit of a queue, if it is known and not 0.
    pub fn limit(&self, column: &Column) -> Option<u64> {
        match column.kind {
            Kind::Queue { limit: Some(limit) } => self.cell(limit).value.map(Value::number).filter(|limit| *limit > 0),
            _ => None,
        }
    }
}

/// A column of an object, and its cell.
#[derive(Clone, Copy, Debug)]
pub struct Filled<'a> {
    /// Index of the column.
    pub index: u8,
    /// The column of the layer.
    pub column: &'a Column,
    /// The object's value.
    pub cell: Cell,
}

/// All objects of a recording. Records may come from a file that anybody wrote: samples of unknown
/// objects and columns are not used.
#[derive(Clone, Debug, Default)]
pub struct Book {
    entries: BTreeMap<u32, Entry>,
    /// How the recording began.
    pub start: Option<Start>,
    /// The newest summary, and whether it was the last record.
    pub summary: Option<Summary>,
    /// Whether the recording ended as it should.
    pub is_complete: bool,
    /// A queue that stays full, with its cause.
    pub findings: Vec<Finding>,
    /// A remark for the user.
    pub notes: Vec<String>,
    /// Time of the newest record, microseconds from the start.
    pub now_us: u64,
}

impl Book {
    /// Takes a record in.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Start(start) => self.start = Some(start.clone()),
            Record::Object(object) => self.add(object),
            Record::Sample { at_us, object, changes } => {
                self.now_us = self.now_us.max(*at_us);
                if let Some(entry) = self.entries.get_mut(object) {
                    changes.iter().for_each(|change| change_cell(entry, *change, *at_us));
                }
            }
            Record::Gone { at_us, object, reason } => {
                self.now_us = self.now_us.max(*at_us);
                if let Some(entry) = self.entries.get_mut(object) {
                    entry.gone = Some(reason.clone());
                }
            }
            Record::Note { text, .. } => self.notes.push(text.clone()),
            Record::Finding(finding) => self.findings.push(finding.clone()),
            Record::Progress(summary) => self.summary = Some(*summary),
            Record::End(summary) => {
                self.summary = Some(*summary);
                self.is_complete = true;
            }
        }
    }

    fn add(&mut self, object: &Object) {
        let cells = vec![Cell::default(); object.layer.columns().len()];
        self.entries.insert(object.id, Entry { object: object.clone(), cells, gone: None });
    }

    /// Lists the objects in the order in which they were found.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Lists the objects of a layer that are there.
    pub fn present(&self, layer: Layer) -> impl Iterator<Item = &Entry> {
        self.entries().filter(move |entry| entry.object.layer == layer && entry.gone.is_none())
    }

    /// Gives an object.
    pub fn entry(&self, id: u32) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// Begins the time for which [`Cell::low`] and [`Cell::risen`] count.
    pub fn reset_lows(&mut self) {
        for cell in self.entries.values_mut().flat_map(|entry| &mut entry.cells) {
            (cell.low, cell.before) = (cell.number(), cell.number());
        }
    }

    /// Drops objects that are gone, so that a long recording does not grow.
    pub fn forget_gone(&mut self) {
        self.entries.retain(|_, entry| entry.gone.is_none());
    }
}

fn change_cell(entry: &mut Entry, change: Change, at_us: u64) {
    let Some(cell) = entry.cells.get_mut(usize::from(change.column)) else { return };
    let number = change.value.map_or(0, Value::number);
    if cell.value.is_none() {
        (cell.low, cell.before) = (number, number);
    }
    cell.value = change.value;
    cell.peak = cell.peak.max(number);
    cell.low = cell.low.min(number);
    cell.changed_us = at_us;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::socket;

    fn sample(at_us: u64, object: u32, number: u64) -> Record {
        Record::Sample { at_us, object, changes: vec![Change::exact(socket::RX_BYTES, number)] }
    }

    #[test]
    fn cells_keep_peak_and_low() {
        let mut book = Book::default();
        let object = Object { id: 3, layer: Layer::Socket, name: "s".into(), pid: None, details: Vec::new() };
        book.apply(&Record::Object(object));
        [5, 9, 2, 4].iter().zip(1..).for_each(|(n, at)| book.apply(&sample(at, 3, *n)));
        let cell = book.entry(3).unwrap().cell(socket::RX_BYTES);
        assert_eq!((cell.number(), cell.peak, cell.low, cell.changed_us), (4, 9, 2, 4));
        book.reset_lows();
        book.apply(&sample(9, 3, 7));
        let cell = book.entry(3).unwrap().cell(socket::RX_BYTES);
        assert_eq!((cell.low, cell.risen()), (4, 3));
        assert_eq!(book.entry(3).unwrap().limit(&Layer::Socket.columns()[5]), None);
    }

    #[test]
    fn unknown_objects_and_columns_are_not_used() {
        let mut book = Book::default();
        book.apply(&sample(1, 3, 5));
        book.apply(&Record::Gone { at_us: 1, object: 9, reason: "x".into() });
        let object = Object { id: 3, layer: Layer::Daemon, name: "s".into(), pid: None, details: Vec::new() };
        book.apply(&Record::Object(object));
        book.apply(&Record::Sample { at_us: 2, object: 3, changes: vec![Change::exact(200, 1)] });
        assert_eq!(book.entry(3).unwrap().cell(200), Cell::default());
    }
}
