//! The rules of the house that clippy does not know: lengths, parameters, words, widths, names and
//! import circles.
//!
//! Code that is older than a rule may break it: `house.txt` notes how often each file does. A file
//! may break a rule less often than noted, never more often; `cargo xtask check --tighten` lowers
//! the notes to what is left.

mod circles;
mod functions;
mod modules;
mod notes;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tool::{Result, tree};
use notes::Notes;

/// Directories of sources, and files of Markdown beside them.
const PLACES: [&str; 6] = ["crates", "xtask", "blobs", "fuzz", "docs", "."];

/// One rule, as `house.txt` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    FunctionLength,
    Parameters,
    TupleParameter,
    BooleanPair,
    DocWords,
    Width,
    ModuleName,
    ImportCircle,
}

impl Rule {
    const ALL: [Rule; 8] = [
        Rule::FunctionLength,
        Rule::Parameters,
        Rule::TupleParameter,
        Rule::BooleanPair,
        Rule::DocWords,
        Rule::Width,
        Rule::ModuleName,
        Rule::ImportCircle,
    ];

    fn name(self) -> &'static str {
        match self {
            Rule::FunctionLength => "function-length",
            Rule::Parameters => "parameters",
            Rule::TupleParameter => "tuple-parameter",
            Rule::BooleanPair => "boolean-pair",
            Rule::DocWords => "doc-words",
            Rule::Width => "width",
            Rule::ModuleName => "module-name",
            Rule::ImportCircle => "import-circle",
        }
    }
}

/// One place that breaks a rule.
#[derive(Debug)]
struct Breach {
    rule: Rule,
    /// The file, from the root of the tree.
    file: String,
    line: usize,
    says: String,
}

/// A source file.
struct Source {
    /// Its path from the root of the tree.
    file: String,
    text: String,
    /// What it parses to; `None` for what is not Rust.
    syntax: Option<syn::File>,
}

/// Checks all rules; an error names each place in a file that breaks a rule more often than noted.
pub fn check() -> Result<()> {
    let breaches = find_breaches()?;
    let noted = Notes::read()?;
    let counts = count(&breaches);
    let worse: Vec<String> = counts
        .iter()
        .filter(|((rule, file), count)| **count > noted.allowed(rule.name(), file))
        .map(|((rule, file), count)| {
            let allowed = noted.allowed(rule.name(), file);
            let places = breaches.iter().filter(|breach| breach.rule == *rule && breach.file == *file);
            let places: Vec<String> = places.map(|b| format!("\n    {file}:{}: {}", b.line, b.says)).collect();
            format!("\n  {}: {file} has {count} ({allowed} are noted){}", rule.name(), places.concat())
        })
        .collect();
    match worse.is_empty() {
        true => Ok(()),
        false => Err(worse.concat()),
    }
}

/// Prints every place that breaks a rule, noted or not.
pub fn list() -> Result<()> {
    for Breach { rule, file, line, says } in find_breaches()? {
        println!("{}: {file}:{line}: {says}", rule.name());
    }
    Ok(())
}

/// How notes are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tighten {
    /// Notes fall, and none rises.
    Lower,
    /// Everything is noted as it is: for a rule that is new.
    Anew,
}

/// Writes the notes of what is left, and prints how much that is of each rule.
pub fn tighten(how: Tighten) -> Result<()> {
    let counts = count(&find_breaches()?);
    let counts = counts.into_iter().map(|((rule, file), count)| ((rule.name().to_owned(), file), count)).collect();
    let notes = Notes::read()?;
    let notes = if how == Tighten::Anew { Notes::of(counts) } else { notes.lowered(&counts) };
    for rule in Rule::ALL {
        println!("{:<16} {}", rule.name(), notes.total(rule.name()));
    }
    notes.write()
}

fn count(breaches: &[Breach]) -> BTreeMap<(Rule, String), usize> {
    let mut counts = BTreeMap::new();
    for breach in breaches {
        *counts.entry((breach.rule, breach.file.clone())).or_insert(0) += 1;
    }
    counts
}

fn find_breaches() -> Result<Vec<Breach>> {
    let sources = read_sources()?;
    let mut breaches = Vec::new();
    for source in &sources {
        text::check(source, &mut breaches);
        functions::check(source, &mut breaches);
        modules::check_name(source, &mut breaches);
    }
    circles::check(&sources, &mut breaches);
    Ok(breaches)
}

fn read_sources() -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    for place in PLACES {
        find(&tree().join(place), place == ".", &mut paths);
    }
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Source> {
    let file = path.strip_prefix(tree()).unwrap_or(path).display().to_string();
    let file = file.strip_prefix("./").unwrap_or(&file).to_owned();
    let text = fs::read_to_string(path).map_err(|e| format!("cannot read {file}: {e}"))?;
    let is_rust = file.ends_with(".rs");
    let syntax = is_rust.then(|| syn::parse_file(&text)).transpose().map_err(|e| format!("{file}: {e}"))?;
    Ok(Source { file, text, syntax })
}

/// Adds sources and Markdown below `directory`; of the root, Markdown alone.
fn find(directory: &Path, only_here: bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let ends = |ending: &str| path.extension().is_some_and(|e| e == ending);
        if path.is_dir() {
            if !only_here && !path.ends_with("target") {
                find(&path, false, found);
            }
        } else if ends("md") || (ends("rs") && !only_here) {
            found.push(path);
        }
    }
}
