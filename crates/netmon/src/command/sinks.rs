//! Where the records of a monitoring go: a file, lines on standard output, a table.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use super::{Args, Error, print};
use crate::book::Book;
use crate::file::{self, Block};
use crate::record::Record;
use crate::render::{csv, json, plain, table};

/// Lines of the table on a terminal.
const LINES: usize = 40;

/// The kind of output while netmon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Printed {
    Nothing,
    Table,
    Json,
    Csv,
}

/// All places that records go to.
pub struct Sinks {
    file: Option<Recorder>,
    printed: Printed,
    /// The table is renewed in place.
    is_terminal: bool,
    has_reader: bool,
}

struct Recorder {
    path: PathBuf,
    file: File,
    block: Block,
}

impl Sinks {
    /// Opens what the arguments say.
    pub fn open(args: &Args) -> Result<Sinks, Error> {
        let printed = match (args.json, args.csv) {
            (true, _) => Printed::Json,
            (_, true) => Printed::Csv,
            _ if args.display || args.file.is_none() => Printed::Table,
            _ => Printed::Nothing,
        };
        let file = args.file.as_deref().map(Recorder::create).transpose()?;
        if printed == Printed::Csv {
            print(&format!("{}\n", csv::HEADER));
        }
        let is_terminal = printed == Printed::Table && std::io::stdout().is_terminal();
        Ok(Sinks { file, printed, is_terminal, has_reader: true })
    }

    /// Takes a record, which the book has taken in.
    pub fn take(&mut self, record: &Record, book: &Book) {
        self.record(record);
        match self.printed {
            Printed::Json => self.has_reader &= print(&(json::line(record, book) + "\n")),
            Printed::Csv => {
                let lines = csv::lines(record, book);
                self.has_reader &= lines.is_empty() || print(&lines);
            }
            Printed::Table | Printed::Nothing => {}
        }
        match record {
            Record::Note { text, .. } if !self.is_terminal => eprintln!("tern: netmon: {}", plain(text)),
            Record::Finding(finding) if !self.is_terminal && self.printed != Printed::Json => {
                eprint!("tern: netmon: {}", table::finding(finding, book));
            }
            _ => {}
        }
    }

    /// Writes a record to the file. A file that cannot be written to ends, and nothing else.
    fn record(&mut self, record: &Record) {
        let Some(recorder) = &mut self.file else { return };
        let is_full = recorder.block.len() >= file::BLOCK_BYTES;
        if recorder.block.add(record).is_err() || is_full {
            self.flush();
        }
    }

    /// Writes what was collected to the file.
    pub fn flush(&mut self) {
        let Some(recorder) = self.file.as_mut().filter(|recorder| !recorder.block.is_empty()) else { return };
        let bytes = recorder.block.take();
        if let Err(e) = recorder.file.write_all(&bytes) {
            eprintln!("tern: netmon: cannot write {}: {e}; it ends here", recorder.path.display());
            self.file = None;
        }
    }

    /// Tells whether somebody reads what is printed.
    pub fn has_reader(&self) -> bool {
        self.has_reader
    }

    /// Renews the table on the terminal.
    pub fn show(&mut self, book: &Book) {
        const HOME_AND_CLEAR: &str = "\x1b[H\x1b[J";
        if self.is_terminal {
            let progress = book.summary.map(|summary| table::summary(&summary)).unwrap_or_default();
            let text = format!("{HOME_AND_CLEAR}{}{}{}", progress, table::table(book, LINES), remarks(book));
            self.has_reader &= print(&text);
        }
    }

    /// Prints the end: the table, if it was asked for, and always the summary.
    pub fn end(&mut self, book: &Book) {
        self.flush();
        let summary = book.summary.map(|summary| table::summary(&summary)).unwrap_or_default();
        match self.printed {
            Printed::Table if self.is_terminal => {
                self.show(book);
            }
            Printed::Table => {
                print(&format!("{}{summary}", table::table(book, usize::MAX)));
            }
            Printed::Nothing => {
                print(&summary);
            }
            Printed::Json | Printed::Csv => eprint!("{summary}"),
        }
    }
}

/// Formats findings and notes.
pub fn remarks(book: &Book) -> String {
    let findings = book.findings.iter().map(|finding| table::finding(finding, book));
    let notes = book.notes.iter().map(|note| plain(note) + "\n");
    findings.chain(notes).collect()
}

impl Recorder {
    fn create(path: &Path) -> Result<Recorder, Error> {
        let failed = |source| Error::File { doing: "write", path: path.into(), source };
        let mut file = File::create(path).map_err(failed)?;
        file.write_all(file::MAGIC).map_err(failed)?;
        Ok(Recorder { path: path.into(), file, block: Block::default() })
    }
}
