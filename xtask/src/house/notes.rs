//! `house.txt`: how often each file may break each rule.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::tool::{Result, tree};

const HEAD: &str = "# How often files break rules of the house that are younger than they: RULE FILE COUNT.\n\
                    # `cargo xtask check` lets no count grow; `cargo xtask check --tighten` lowers them.\n";

/// A rule's name and a file.
pub type Key = (String, String);

/// What is noted.
pub struct Notes(BTreeMap<Key, usize>);

impl Notes {
    pub fn of(counts: BTreeMap<Key, usize>) -> Notes {
        Notes(counts)
    }

    /// Reads the file; without one, nothing is noted.
    pub fn read() -> Result<Notes> {
        match fs::read_to_string(path()) {
            Ok(text) => parse(&text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Notes(BTreeMap::new())),
            Err(e) => Err(format!("cannot read {}: {e}", path().display())),
        }
    }

    pub fn write(&self) -> Result<()> {
        let line = |((rule, file), count): (&Key, &usize)| format!("{rule} {file} {count}\n");
        let text = self.0.iter().map(line).collect::<String>();
        fs::write(path(), format!("{HEAD}{text}")).map_err(|e| format!("cannot write {}: {e}", path().display()))
    }

    /// How often `file` may break `rule`.
    pub fn allowed(&self, rule: &str, file: &str) -> usize {
        self.0.get(&(rule.to_owned(), file.to_owned())).copied().unwrap_or(0)
    }

    /// How often all files together may break `rule`.
    pub fn total(&self, rule: &str) -> usize {
        self.0.iter().filter(|((noted, _), _)| noted == rule).map(|(_, count)| count).sum()
    }

    /// These notes, none above `counts`.
    pub fn lowered(self, counts: &BTreeMap<Key, usize>) -> Notes {
        let lower = |(key, noted): (Key, usize)| {
            let left = noted.min(counts.get(&key).copied().unwrap_or(0));
            (left > 0).then_some((key, left))
        };
        Notes(self.0.into_iter().filter_map(lower).collect())
    }
}

fn path() -> PathBuf {
    tree().join("xtask/house.txt")
}

fn parse(text: &str) -> Result<Notes> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let key = (words.next()?.to_owned(), words.next()?.to_owned());
        Some((key, words.next()?.parse().ok()?))
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let read = |text: &str| line(text).ok_or_else(|| format!("house.txt: cannot read the line {text:?}"));
    Ok(Notes(lines.map(read).collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_fall_and_never_rise() {
        let notes = parse("# head\nwidth a.rs 3\nwidth b.rs 1\n").unwrap();
        let key = |file: &str| ("width".to_owned(), file.to_owned());
        let notes = notes.lowered(&[(key("a.rs"), 2), (key("c.rs"), 5)].into_iter().collect());
        assert_eq!((notes.allowed("width", "a.rs"), notes.allowed("width", "b.rs")), (2, 0));
        assert_eq!((notes.allowed("width", "c.rs"), notes.total("width")), (0, 2));
        assert!(parse("width").is_err());
    }
}
