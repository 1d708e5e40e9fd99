//! Output and input of the nodes' commands.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin};
use std::thread::JoinHandle;

use crate::Error;
use crate::args::Sh;

/// A longer line is shown in parts, bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// So much of standard input is passed on at once, bytes.
const INPUT_BYTES: usize = 64 << 10;

/// The streams of all commands.
pub struct Streams {
    prefix: bool,
    directory: Option<PathBuf>,
    inputs: Vec<ChildStdin>,
    copies: Vec<JoinHandle<()>>,
}

/// Where the lines of a command go.
enum Sink {
    Output { prefix: String },
    Errors { prefix: String },
    File(File),
}

impl Streams {
    /// Makes the directory for what the nodes print, if there is to be one.
    pub fn new(args: &Sh) -> Result<Streams, Error> {
        if let Some(directory) = &args.output_dir {
            let made = std::fs::create_dir_all(directory);
            made.map_err(|source| Error::Local { what: "make the directory for the output", source })?;
        }
        let directory = args.output_dir.clone();
        Ok(Streams { prefix: args.prefix, directory, inputs: Vec::new(), copies: Vec::new() })
    }

    /// Begins to pass on what a node's command prints.
    pub fn take(&mut self, node: &str, child: &mut Child) -> Result<(), Error> {
        let prefix = if self.prefix { format!("{node}: ") } else { String::new() };
        let (output, errors) = match &self.directory {
            Some(directory) => {
                let file = |name: String| {
                    let made = File::create(directory.join(name));
                    made.map_err(|source| Error::Local { what: "make a file for the output", source })
                };
                (Sink::File(file(node.to_owned())?), Sink::File(file(format!("{node}.err"))?))
            }
            None => (Sink::Output { prefix: prefix.clone() }, Sink::Errors { prefix }),
        };
        self.inputs.extend(child.stdin.take());
        if let Some(from) = child.stdout.take() {
            self.copies.push(std::thread::spawn(move || copy(from, output)));
        }
        if let Some(from) = child.stderr.take() {
            self.copies.push(std::thread::spawn(move || copy(from, errors)));
        }
        Ok(())
    }

    /// Begins to pass on standard input. The command does not wait for the end of the input, as
    /// there may be none.
    pub fn feed(&mut self) {
        let mut inputs = std::mem::take(&mut self.inputs);
        if inputs.is_empty() {
            return;
        }
        std::thread::spawn(move || {
            let mut buffer = vec![0; INPUT_BYTES];
            while !inputs.is_empty()
                && let Ok(count @ 1..) = io::stdin().read(&mut buffer)
            {
                // One that reads no more, or has ended, keeps the others from nothing.
                inputs.retain_mut(|input| input.write_all(&buffer[..count]).is_ok());
            }
        });
    }

    /// Says something beside what the commands print.
    pub fn say(&self, line: &str) {
        eprintln!("{line}");
    }

    /// Waits until all that was printed is passed on.
    pub fn end(self) {
        for copy in self.copies {
            let _ = copy.join();
        }
    }
}

/// Copies line by line, so that lines of two nodes do not mix. If nobody reads them any more, the
/// command finds that, too.
fn copy(from: impl Read, mut to: Sink) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if to.put(&line).is_err() => return,
            Ok(_) => {}
        }
    }
}

impl Sink {
    fn put(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Sink::Output { prefix } => put(io::stdout().lock(), prefix, line),
            Sink::Errors { prefix } => put(io::stderr().lock(), prefix, line),
            Sink::File(file) => file.write_all(line),
        }
    }
}

fn put(mut to: impl Write, prefix: &str, line: &[u8]) -> io::Result<()> {
    to.write_all(prefix.as_bytes())?;
    to.write_all(line)?;
    // Behind a last line without an end another node's would begin.
    if !prefix.is_empty() && !line.ends_with(b"\n") {
        to.write_all(b"\n")?;
    }
    to.flush()
}
