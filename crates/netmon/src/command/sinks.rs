//! Where the records of a monitoring go: a file, lines on standard output, a table.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use os::terminal::Keys;

use super::{Args, Error, print};
use crate::book::Book;
use crate::file::{self, Block};
use crate::record::Record;
use crate::render::prometheus::Spreads;
use crate::render::table::Room;
use crate::render::view::View;
use crate::render::{csv, json, plain, table};

/// The name of the standard output as a file.
const OUTPUT: &str = "-";
/// The room on a terminal that does not say its size.
const ROOM: Room = Room { lines: 40, columns: 200 };

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
    exposition: Option<Exposition>,
    printed: Printed,
    /// The table is renewed in place.
    is_terminal: bool,
    /// The keys of the terminal, if the table is on one.
    keys: Option<Keys>,
    view: View,
    /// The state that a frozen table shows.
    frozen: Option<Book>,
    has_reader: bool,
    /// The recording goes to the standard output.
    is_on_output: bool,
}

/// The file for Prometheus is renewed so often, microseconds.
const EXPOSE_US: u64 = 15_000_000;

struct Recorder {
    path: PathBuf,
    file: File,
    block: Block,
    /// The bytes of the file, and the most of them.
    written: u64,
    limit: u64,
    /// Time of the newest record, microseconds.
    at_us: u64,
}

/// A file for the textfile collector of Prometheus' node exporter.
struct Exposition {
    path: PathBuf,
    spreads: Spreads,
    due_us: u64,
}

impl Exposition {
    fn new(path: PathBuf) -> Exposition {
        Exposition { path, spreads: Spreads::default(), due_us: 0 }
    }

    /// Replaces the file as a whole: the collector may read it at any moment.
    fn write(&mut self, book: &Book) -> std::io::Result<()> {
        let mut draft = self.path.clone().into_os_string();
        draft.push(".draft");
        std::fs::write(&draft, self.spreads.text(book))?;
        std::fs::rename(&draft, &self.path)
    }
}

impl Sinks {
    /// Opens what the arguments say.
    pub fn open(args: &Args) -> Result<Sinks, Error> {
        let printed = match (args.json, args.csv) {
            (true, _) => Printed::Json,
            (_, true) => Printed::Csv,
            _ if args.display || (args.file.is_none() && args.prometheus.is_none()) => Printed::Table,
            _ => Printed::Nothing,
        };
        let recorder = |path: &Path| Recorder::create(path, args.max_size << 20);
        let file = args.file.as_deref().map(recorder).transpose()?;
        let is_on_output = args.file.as_deref() == Some(Path::new(OUTPUT));
        let exposition = args.prometheus.clone().map(Exposition::new);
        if printed == Printed::Csv {
            print(&format!("{}\n", csv::HEADER));
        }
        let is_terminal = printed == Printed::Table && std::io::stdout().is_terminal();
        let keys = is_terminal.then(Keys::take).and_then(Result::ok);
        let view = View::default();
        Ok(Sinks { file, exposition, printed, is_terminal, keys, view, frozen: None, has_reader: true, is_on_output })
    }

    /// Takes a record, which the book has taken in.
    pub fn take(&mut self, record: &Record, book: &Book) {
        self.record(record);
        self.exposition.iter_mut().for_each(|exposition| exposition.spreads.take(record));
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
        if let Record::Sample { at_us, .. } = record {
            recorder.at_us = recorder.at_us.max(*at_us);
        }
        let is_full = recorder.block.len() >= file::BLOCK_BYTES;
        if recorder.block.add(record).is_err() || is_full {
            self.flush();
        }
    }

    /// Writes what was collected to the file.
    pub fn flush(&mut self) {
        let Some(recorder) = self.file.as_mut().filter(|recorder| !recorder.block.is_empty()) else { return };
        let written = recorder.write();
        match written {
            Ok(()) if recorder.written < recorder.limit => return,
            Ok(()) => {
                let text = format!("the recording has {} MiB and ends here (--max-size)", recorder.limit >> 20);
                let _ = recorder.block.add(&Record::Note { at_us: recorder.at_us, text: text.clone() });
                let _ = recorder.write();
                eprintln!("tern: netmon: {}: {text}", recorder.path.display());
            }
            Err(e) => eprintln!("tern: netmon: cannot write {}: {e}; it ends here", recorder.path.display()),
        }
        self.file = None;
        // Nobody reads the output any more.
        self.has_reader &= !self.is_on_output;
    }

    /// Writes the file for Prometheus, if it is time or this is the `end`.
    pub fn expose(&mut self, book: &Book, end: bool) {
        let Some(exposition) = self.exposition.as_mut().filter(|e| end || book.now_us >= e.due_us) else { return };
        exposition.due_us = book.now_us + EXPOSE_US;
        if let Err(e) = exposition.write(book) {
            eprintln!("tern: netmon: cannot write {}: {e}", exposition.path.display());
        }
    }

    /// Tells whether somebody reads what is printed, and has not pressed the key that ends it.
    pub fn has_reader(&self) -> bool {
        self.has_reader && !self.view.wants_end
    }

    /// Obeys the keys that were pressed on the terminal.
    pub fn obey_keys(&mut self, book: &Book) {
        let pressed = self.keys.as_ref().map(Keys::pressed).unwrap_or_default();
        let changes = pressed.into_iter().filter(|key| self.view.press(*key)).count();
        if changes > 0 {
            self.frozen = self.view.is_frozen.then(|| self.frozen.take().unwrap_or_else(|| book.clone()));
            let frozen = self.frozen.take();
            self.draw(frozen.as_ref().unwrap_or(book));
            self.frozen = frozen;
        }
    }

    /// Renews the table on the terminal.
    pub fn show(&mut self, book: &Book) {
        if self.is_terminal && !self.view.is_frozen {
            self.draw(book);
        }
    }

    fn draw(&mut self, book: &Book) {
        const HOME_AND_CLEAR: &str = "\x1b[H\x1b[J";
        let head = book.summary.map(|summary| table::summary(&summary)).unwrap_or_default();
        let head = head + if self.keys.is_some() { self.view.help() } else { String::new() }.as_str();
        let remarks = remarks(book);
        let size = os::terminal::size().map(|size| Room { lines: size.lines, columns: size.columns });
        let room = size.unwrap_or(ROOM);
        // The newest remarks, in a third of the lines at most; two lines say what is left out.
        let remarks: Vec<&str> = remarks.lines().collect();
        let remarks = &remarks[remarks.len().saturating_sub(room.lines / 3)..];
        let taken = head.lines().count() + remarks.len() + 4;
        let lines = room.lines.saturating_sub(taken).max(3);
        let table = table::live(book, &self.view, Room { lines, ..room });
        self.has_reader &= print(&format!("{HOME_AND_CLEAR}{head}{table}{}", remarks.join("\n")));
    }

    /// Prints the end: the table, if it was asked for, and always the summary.
    pub fn end(&mut self, book: &Book) {
        self.flush();
        self.expose(book, true);
        let summary = book.summary.map(|summary| table::summary(&summary)).unwrap_or_default();
        match self.printed {
            Printed::Table if self.is_terminal => {
                self.draw(book);
                print("\n");
            }
            Printed::Table => {
                print(&format!("{}{summary}", table::table(book)));
            }
            Printed::Nothing if self.is_on_output => eprint!("{summary}"),
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
    fn create(path: &Path, limit: u64) -> Result<Recorder, Error> {
        let failed = |source| Error::File { doing: "write", path: path.into(), source };
        let mut file = match path {
            path if path == Path::new(OUTPUT) => {
                File::from(std::io::stdout().as_fd().try_clone_to_owned().map_err(failed)?)
            }
            path => File::create(path).map_err(failed)?,
        };
        file.write_all(file::MAGIC).map_err(failed)?;
        let written = file::MAGIC.len() as u64;
        Ok(Recorder { path: path.into(), file, block: Block::default(), written, limit, at_us: 0 })
    }

    /// Appends the block.
    fn write(&mut self) -> std::io::Result<()> {
        let bytes = self.block.take();
        self.written += bytes.len() as u64;
        self.file.write_all(&bytes)
    }
}
