//! Printing a recording.

use super::args::Show;
use super::sinks::remarks;
use super::{Error, print, read};
use crate::book::Book;
use crate::render::{csv, json, table};

/// Prints a recording as the arguments say.
pub fn show(args: &Show) -> Result<(), Error> {
    let recording = read(&args.file)?;
    let mut book = Book::default();
    if args.csv {
        print(&format!("{}\n", csv::HEADER));
    }
    for record in &recording.records {
        book.apply(record);
        let lines = match (args.json, args.csv) {
            (true, _) => json::line(record, &book) + "\n",
            (_, true) => csv::lines(record, &book),
            _ => String::new(),
        };
        if !lines.is_empty() && !print(&lines) {
            return Ok(());
        }
    }
    if !args.json && !args.csv {
        let cut = if book.is_complete { "" } else { "the recording was cut off; this is all until then\n" };
        let summary = book.summary.map(|summary| table::summary(&summary)).unwrap_or_default();
        print(&format!("{}{}{summary}{cut}", table::table(&book), remarks(&book)));
    }
    Ok(())
}
