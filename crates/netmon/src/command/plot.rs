//! Drawing the queues of a recording.

use std::collections::BTreeMap;
use std::fs;

use super::args::Plot;
use super::{Error, print, read};
use crate::book::Book;
use crate::layer::{Column, Kind, Unit};
use crate::record::{Object, Record, Value};
use crate::render::svg::{self, Curve, Point};

/// A queue of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Queue {
    object: u32,
    column: u8,
}

/// Draws each queue into a file of its own, and prints their names.
pub fn plot(args: &Plot) -> Result<(), Error> {
    let recording = read(&args.file)?;
    let mut book = Book::default();
    let mut points: BTreeMap<Queue, Vec<Point>> = BTreeMap::new();
    for record in &recording.records {
        book.apply(record);
        if let Record::Sample { at_us, object, changes } = record {
            for change in changes {
                let number = change.value.map_or(0, Value::number);
                let queue = Queue { object: *object, column: change.column };
                points.entry(queue).or_default().push(Point { at_us: *at_us, number });
            }
        }
    }
    fs::create_dir_all(&args.into).map_err(|source| Error::File { doing: "make", path: args.into.clone(), source })?;
    let end_us = book.summary.map_or(book.now_us, |summary| summary.elapsed_us);
    let mut drawn = 0;
    for (queue, points) in points {
        let Some(entry) = book.entry(queue.object) else { continue };
        let Some(column) = entry.object.layer.column(queue.column) else { continue };
        let is_empty = points.iter().all(|point| point.number == 0);
        if !matches!(column.kind, Kind::Queue { .. }) || (is_empty && !args.all) {
            continue;
        }
        let curve = Curve {
            title: title(&entry.object, column),
            unit: unit(column).into(),
            points,
            limit: entry.limit(column),
            end_us,
        };
        let path = args.into.join(format!("{}-{}-{}.svg", entry.object.layer.name(), queue.object, column.name));
        fs::write(&path, svg::draw(&curve)).map_err(|source| Error::File {
            doing: "write",
            path: path.clone(),
            source,
        })?;
        print(&format!("{}: {}\n", path.display(), crate::render::plain(&curve.title)));
        drawn += 1;
    }
    if drawn == 0 {
        print("no queue ever held anything; --all draws empty ones, too\n");
    }
    Ok(())
}

fn title(object: &Object, column: &Column) -> String {
    format!("{}: {}: {}", object.layer.name(), object.name, column.name)
}

fn unit(column: &Column) -> &'static str {
    match column.unit {
        Unit::Bytes => "bytes",
        Unit::Messages => "messages",
        Unit::Packets => "packets",
        _ => column.name,
    }
}
