//! Words by which a test says that this machine lacks what the test needs.
//!
//! Rust's test harness knows no test that finds out at run time that it cannot be run: a test that
//! returns early counts as passed. So a test says that it is left out by [`test()`], which notes
//! its name in the file that [`NOTES`] names. `cargo xtask test` reads the file, and counts these
//! tests as left out. Without that variable the word goes to standard error alone.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::Write as _;

/// The environment variable that names the file of notes.
pub const NOTES: &str = "TERN_LEFT_OUT";

/// How much of a test was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The test checked nothing.
    Whole,
    /// The test checked the rest.
    Part,
}

/// Notes that the running test checks nothing, and why. The caller returns.
pub fn test(reason: impl Display) {
    note(Extent::Whole, &reason.to_string());
}

/// Notes that the running test leaves out a part of what it checks, and why.
pub fn part(reason: impl Display) {
    note(Extent::Part, &reason.to_string());
}

/// The extent, test and reason that one line of the notes holds; `None` for a line that [`test()`]
/// and [`part`] did not write.
pub fn read(line: &str) -> Option<(Extent, &str, &str)> {
    let mut words = line.splitn(3, '\t');
    let extent = match words.next()? {
        "whole" => Extent::Whole,
        "part" => Extent::Part,
        _ => return None,
    };
    Some((extent, words.next()?, words.next()?))
}

fn note(extent: Extent, reason: &str) {
    eprintln!("left out: {reason}");
    let Some(path) = std::env::var_os(NOTES) else { return };
    // The harness names each test's thread after the test.
    let thread = std::thread::current();
    let line = line(extent, thread.name().unwrap_or("a test"), reason);
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("cannot note what is left out: {error}");
    }
}

fn line(extent: Extent, test: &str, reason: &str) -> String {
    let extent = match extent {
        Extent::Whole => "whole",
        Extent::Part => "part",
    };
    format!("{extent}\t{test}\t{}\n", reason.replace('\n', "; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let written = line(Extent::Part, "suite::test", "no gcc\nno cc");
        assert_eq!(read(written.trim_end_matches('\n')), Some((Extent::Part, "suite::test", "no gcc; no cc")));
        assert_eq!(read("something else"), None);
    }
}
