//! The console of a virtual machine.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// The most bytes of a console that are shown after the machine has ended.
const LAST_WORDS_BYTES: i64 = 1 << 10;

/// Gives the end of a machine's console on one line.
pub fn last_words(console: &Path) -> String {
    let read = || {
        let mut file = File::open(console).ok()?;
        let _ = file.seek(SeekFrom::End(-LAST_WORDS_BYTES));
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).replace('\r', "");
        let lines: Vec<&str> = text.lines().rev().filter(|l| !l.trim().is_empty()).take(3).collect();
        Some(lines.into_iter().rev().collect::<Vec<_>>().join("; "))
    };
    read().filter(|words| !words.is_empty()).unwrap_or_else(|| "nothing".into())
}
