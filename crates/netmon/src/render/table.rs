//! The table of queues, what is wrong, and the summary.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::plain;
use super::view::{Sort, View};
use crate::book::{Book, Entry, Filled};
use crate::layer::{Kind, Layer};
use crate::record::{Finding, Summary, Value};

/// One line of the table.
struct Row {
    layer: Layer,
    /// How full the queue is, percent; 0 without limit.
    percent: u64,
    now: u64,
    peak: u64,
    has_limit: bool,
    cells: [String; 6],
}

/// Counters that tell of work and not of trouble.
const PLAIN_COUNTERS: [&str; 9] = [
    "processed",
    "rx_total",
    "tx_total",
    "sent_bytes",
    "frames",
    "frame_bytes",
    "taken_bytes",
    "received_bytes",
    "calls",
];
const HEADINGS: [&str; 6] = ["object", "queue", "now", "peak", "limit", "fill"];

/// Gives the table of all queues that hold or held something, the counters of trouble that are not
/// 0, and for the rest how many there are.
pub fn table(book: &Book) -> String {
    let (rows, idle) = rows(book);
    aligned(&rows) + &rest(0, idle)
}

/// The room that a terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Lines of the table.
    pub lines: usize,
    /// Characters of a line.
    pub columns: usize,
}

/// Gives the table as a view shows it, with a bar for each queue: `#` for its share of the limit,
/// `=` for that of its own peak if it has none.
pub fn live(book: &Book, view: &View, room: Room) -> String {
    let (mut rows, idle) = rows(book);
    let wanted = view.filter.to_lowercase();
    rows.retain(|row| {
        let text = format!("{} {} {}", row.layer.name(), row.cells[0], row.cells[1]);
        text.to_lowercase().contains(&wanted)
    });
    match view.sort {
        Sort::Layer => {}
        Sort::Fill => rows.sort_by_key(|row| Reverse((row.percent, row.now))),
        Sort::Now => rows.sort_by_key(|row| Reverse((row.now, row.percent))),
        Sort::Peak => rows.sort_by_key(|row| Reverse((row.peak, row.now))),
    }
    let left_out = rows.len().saturating_sub(room.lines);
    match view.sort {
        Sort::Layer => keep_fullest(&mut rows, room.lines),
        _ => rows.truncate(room.lines),
    }
    rows.iter_mut().for_each(|row| row.cells[5] = format!("{:>5} {}", row.cells[5], bar(row)));
    let text = aligned(&rows) + &rest(left_out, idle);
    text.lines().map(|line| line.chars().take(room.columns).collect::<String>() + "\n").collect()
}

fn rows(book: &Book) -> (Vec<Row>, u32) {
    let (mut rows, mut idle) = (Vec::new(), 0);
    for layer in Layer::ALL {
        for entry in book.entries().filter(|entry| entry.object.layer == layer) {
            let own: Vec<Row> = entry.columns().filter_map(|filled| row(entry, filled)).collect();
            idle += u32::from(own.is_empty());
            rows.extend(own);
        }
    }
    (rows, idle)
}

fn rest(left_out: usize, idle: u32) -> String {
    let mut text = String::new();
    if left_out > 0 {
        let _ = writeln!(text, "... and {left_out} more lines");
    }
    if idle > 0 {
        let _ = writeln!(text, "{idle} more objects are empty");
    }
    text
}

fn bar(row: &Row) -> String {
    const WIDTH: u64 = 12;
    let (whole, mark) = if row.has_limit { (100, "#") } else { (row.peak.max(1), "=") };
    let part = if row.has_limit { row.percent } else { row.now };
    let full = (u128::from(part.min(whole)) * u128::from(WIDTH)).div_ceil(u128::from(whole)) as usize;
    format!("{}{}", mark.repeat(full), ".".repeat(WIDTH as usize - full))
}

/// Keeps the fullest of too many rows, in their order.
fn keep_fullest(rows: &mut Vec<Row>, count: usize) {
    if rows.len() <= count {
        return;
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|index| Reverse(rows[*index].percent));
    order.truncate(count);
    let mut index = 0;
    rows.retain(|_| {
        index += 1;
        order.contains(&(index - 1))
    });
}

fn row(entry: &Entry, filled: Filled<'_>) -> Option<Row> {
    let Filled { column, cell, .. } = filled;
    let value = cell.value?;
    let is_trouble = matches!(column.kind, Kind::Counter) && !PLAIN_COUNTERS.contains(&column.name);
    let is_shown = cell.peak > 0 && (is_trouble || matches!(column.kind, Kind::Queue { .. }));
    if !is_shown {
        return None;
    }
    let limit = entry.limit(column);
    let percent = limit.map(|limit| cell.number().saturating_mul(100) / limit);
    let gone = if entry.gone.is_some() { " (gone)" } else { "" };
    Some(Row {
        layer: entry.object.layer,
        percent: percent.unwrap_or(0),
        now: cell.number(),
        peak: cell.peak,
        has_limit: limit.is_some(),
        cells: [
            plain(&format!("{}{gone}", entry.object.name)),
            column.name.into(),
            shown(value),
            cell.peak.to_string(),
            limit.map_or("-".into(), |limit| limit.to_string()),
            percent.map(|percent| format!("{percent} %")).unwrap_or_default(),
        ],
    })
}

/// Shows a value; estimates have a `~`.
fn shown(value: Value) -> String {
    format!("{}{}", if value.is_estimate() { "~" } else { "" }, value.number())
}

fn aligned(rows: &[Row]) -> String {
    let width = |index: usize| {
        let cells = rows.iter().map(|row| row.cells[index].chars().count());
        cells.max().unwrap_or(0).max(HEADINGS[index].len())
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = line("layer", &HEADINGS.map(String::from), &widths);
    rows.iter().for_each(|row| text += &line(row.layer.name(), &row.cells, &widths));
    text
}

fn line(layer: &str, cells: &[String; 6], widths: &[usize; 6]) -> String {
    let mut text = format!("{layer:<10}");
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let _ = if index < 2 { write!(text, "  {cell:<width$}") } else { write!(text, "  {cell:>width$}") };
    }
    format!("{}\n", text.trim_end())
}

/// Gives the line of a finding.
pub fn finding(finding: &Finding, book: &Book) -> String {
    let entry = book.entry(finding.object);
    let name = entry.map_or("an object that is gone".into(), |entry| entry.object.name.clone());
    let column =
        entry.and_then(|entry| entry.object.layer.column(finding.column)).map_or("queue", |column| column.name);
    let since_s = finding.since_us as f64 / 1e6;
    plain(&format!("{name}: {column} stays full since {since_s:.1} s: {}", finding.text)) + "\n"
}

/// Gives the summary: netmon's own time, and how well the periods were kept.
pub fn summary(summary: &Summary) -> String {
    let elapsed_s = summary.elapsed_us as f64 / 1e6;
    let cpu_s = summary.cpu_us as f64 / 1e6;
    let share = if summary.elapsed_us == 0 { 0.0 } else { cpu_s * 100.0 / elapsed_s };
    let mut text = format!("own CPU time {cpu_s:.3} s in {elapsed_s:.3} s ({share:.1} % of one processor)\n");
    for (name, pace) in [("fast (sockets)", summary.fast), ("slow (the rest)", summary.slow)] {
        if pace.samples > 0 {
            let _ = writeln!(
                text,
                "{name}: {} samples, {:.2} % overlapped the period, {} periods missed, longest extra time {:.1} us, mean time {:.1} us",
                pace.samples,
                pace.overlapped_percent(),
                pace.missed,
                pace.extra_max_ns as f64 / 1e3,
                pace.work_mean_us()
            );
        }
    }
    if summary.lost > 0 {
        let _ = writeln!(text, "{} samples were lost, because they came faster than they were written", summary.lost);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::socket;
    use crate::record::{Change, Object, Record};

    #[test]
    fn a_short_table_has_the_fullest_queues() {
        let mut book = Book::default();
        for id in 0..9 {
            let name = format!("tcp {id}");
            book.apply(&Record::Object(Object { id, layer: Layer::Socket, name, pid: None, details: Vec::new() }));
            let changes = vec![
                Change::exact(socket::RX_MEMORY, (id == 7).into()),
                Change::exact(socket::RX_LIMIT, 1),
                Change::exact(socket::TX_BYTES, 5),
            ];
            book.apply(&Record::Sample { at_us: 1, object: id, changes });
        }
        let room = Room { lines: 2, columns: 200 };
        let text = live(&book, &View::default(), room);
        assert!(text.contains("tcp 7   rx_memory") && text.contains("and 8 more lines"), "{text}");
        assert!(text.contains("100 % ############") && text.contains("============"), "{text}");
        let view = View { filter: "TCP 3".into(), sort: Sort::Fill, ..View::default() };
        let text = live(&book, &view, Room { lines: 9, columns: 20 });
        assert_eq!(text.lines().filter(|line| line.contains("tcp 3")).count(), 1, "{text}");
        assert!(text.lines().all(|line| line.len() <= 20) && !text.contains("tcp 4"), "{text}");
        let view = View { sort: Sort::Fill, ..View::default() };
        let text = live(&book, &view, room);
        assert!(text.lines().nth(1).unwrap().contains("tcp 7"), "{text}");
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        let mut book = Book::default();
        let name = "\u{1b}[2Jx".to_owned();
        book.apply(&Record::Object(Object { id: 1, layer: Layer::Socket, name, pid: None, details: Vec::new() }));
        book.apply(&Record::Sample { at_us: 1, object: 1, changes: vec![Change::exact(socket::RX_BYTES, 1)] });
        assert!(table(&book).contains("?[2Jx"));
    }

    #[test]
    fn queues_that_hold_something_have_a_line() {
        let mut book = Book::default();
        for id in [1, 2] {
            let name = format!("tcp {id}");
            let object = Object { id, layer: Layer::Socket, name, pid: None, details: Vec::new() };
            book.apply(&Record::Object(object));
        }
        let changes = vec![
            Change::exact(socket::RX_MEMORY, 50),
            Change::exact(socket::RX_LIMIT, 100),
            Change::estimate(socket::RX_PACKETS, 3),
        ];
        book.apply(&Record::Sample { at_us: 1, object: 1, changes });
        let text = table(&book);
        assert!(text.contains("socket      tcp 1   rx_memory    50    50    100  50 %"), "{text}");
        assert!(text.contains("rx_packets   ~3"), "{text}");
        assert!(text.ends_with("1 more objects are empty\n"), "{text}");
    }
}
