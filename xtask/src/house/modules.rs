//! Names of modules that say nothing: everyday participles, and riddles.

use std::path::Path;

use super::{Breach, Rule, Source};

/// Names that the field has a standard term for.
const NAMES: [&str; 23] = [
    "beyond",
    "cargo",
    "ceded",
    "coming",
    "dense",
    "going",
    "heir",
    "lanes",
    "leftovers",
    "looks",
    "odd",
    "owed",
    "pass",
    "possessions",
    "shown",
    "standing",
    "stocked",
    "strange",
    "talk",
    "together",
    "told",
    "took",
    "witness",
];

/// Checks the name of a file's module.
pub fn check_name(source: &Source, breaches: &mut Vec<Breach>) {
    let path = Path::new(&source.file);
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { return };
    if source.syntax.is_some() && path.components().any(|part| part.as_os_str() == "src") && NAMES.contains(&stem) {
        let says = format!("the name {stem} does not say what the module does");
        breaches.push(Breach { rule: Rule::ModuleName, file: source.file.clone(), line: 1, says });
    }
}
