//! Which tests a run has: all, those that are named, or those that a change reaches.
//!
//! A change reaches the crates whose files it touches, and all that depend on them. A test program
//! of the whole (`crates/tern/tests`) whose own files alone are touched is reached alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::tool::{self, Result, cargo, tree};

/// The crate whose test programs test the whole.
const WHOLE: &str = "tern";

/// What a run was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All tests are run.
    All,
    /// These crates (`policy`), test programs of the whole (`moving`), or test programs of a crate
    /// (`os/filters`).
    Named(Vec<String>),
    /// What differs from the branch `main`, committed or not, and all that this reaches.
    Changed,
}

/// Test programs of one crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them, and its unit tests.
    Crate,
    /// Only these programs.
    Programs(BTreeSet<String>),
}

/// Test programs by crate.
pub type Targets = BTreeMap<String, Scope>;

impl Selection {
    /// The test programs of a run; `None` for all.
    ///
    /// # Errors
    /// A name that nothing has, with the names that there are; git or cargo cannot be asked.
    pub fn targets(&self) -> Result<Option<Targets>> {
        match self {
            Selection::All => Ok(None),
            Selection::Named(names) => named(names, &Workspace::read()?).map(Some),
            Selection::Changed => Ok(reached(&changed_files()?, &Workspace::read()?)),
        }
    }
}

/// Crates, what they depend on, and their test programs.
#[derive(Default)]
struct Workspace {
    dependencies: BTreeMap<String, BTreeSet<String>>,
    programs: BTreeMap<String, BTreeSet<String>>,
}

impl Workspace {
    fn read() -> Result<Workspace> {
        let text = tool::output(cargo().args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
        let metadata: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| format!("cannot read what cargo metadata says: {e}"))?;
        let mut workspace = Workspace::default();
        let strings = |value: &serde_json::Value, key: &str| -> BTreeSet<String> {
            let all = value.as_array().into_iter().flatten();
            all.filter_map(|entry| entry[key].as_str().map(str::to_owned)).collect()
        };
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let name = package["name"].as_str().unwrap_or_default().to_owned();
            let targets = package["targets"].as_array().into_iter().flatten();
            let tests: serde_json::Value = targets.filter(|target| target["kind"][0] == "test").cloned().collect();
            workspace.programs.insert(name.clone(), strings(&tests, "name"));
            workspace.dependencies.insert(name, strings(&package["dependencies"], "name"));
        }
        Ok(workspace)
    }

    /// Adds all crates that depend on the one named, directly or not, and the crate itself.
    fn add_dependents(&self, name: &str, targets: &mut Targets) {
        if targets.insert(name.to_owned(), Scope::Crate) == Some(Scope::Crate) {
            return;
        }
        for (other, dependencies) in &self.dependencies {
            if dependencies.contains(name) {
                self.add_dependents(other, targets);
            }
        }
    }
}

fn named(names: &[String], workspace: &Workspace) -> Result<Targets> {
    let mut targets = Targets::new();
    for name in names {
        let (package, program) = match name.split_once('/') {
            Some((package, program)) => (package, Some(program)),
            None if workspace.programs.contains_key(name) => (name.as_str(), None),
            None => (WHOLE, Some(name.as_str())),
        };
        let programs = workspace.programs.get(package);
        match (programs, program) {
            (Some(_), None) => drop(targets.insert(package.to_owned(), Scope::Crate)),
            (Some(programs), Some(program)) if programs.contains(program) => {
                add_program(&mut targets, package, program)
            }
            _ => return Err(format!("nothing is named {name}; {}", all_names(workspace))),
        }
    }
    Ok(targets)
}

fn all_names(workspace: &Workspace) -> String {
    let list = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<_>>().join(" ");
    let programs = workspace.programs.get(WHOLE).map(|programs| list(&mut programs.iter())).unwrap_or_default();
    format!("test programs of the whole: {programs}; crates: {}", list(&mut workspace.programs.keys()))
}

fn add_program(targets: &mut Targets, package: &str, program: &str) {
    let scope = targets.entry(package.to_owned()).or_insert_with(|| Scope::Programs(BTreeSet::new()));
    if let Scope::Programs(programs) = scope {
        programs.insert(program.to_owned());
    }
}

/// What a changed file has to do with.
#[derive(Debug, PartialEq, Eq)]
enum Change<'a> {
    Everything,
    Nothing,
    Crates(Vec<&'a str>),
    Program(&'a str),
}

fn change<'a>(file: &'a str, workspace: &Workspace) -> Change<'a> {
    let parts: Vec<&str> = file.split('/').collect();
    match parts[..] {
        ["Cargo.toml" | "Cargo.lock" | "rust-toolchain.toml"] | [".cargo", ..] => Change::Everything,
        ["crates", WHOLE, "tests", first, ..] => {
            let name = first.trim_end_matches(".rs");
            let is_program = workspace.programs.get(WHOLE).is_some_and(|programs| programs.contains(name));
            if is_program { Change::Program(name) } else { Change::Crates(vec![WHOLE]) }
        }
        ["crates", name, ..] => Change::Crates(vec![name]),
        ["xtask", ..] => Change::Crates(vec!["xtask"]),
        ["blobs", "cosched-hook", ..] => Change::Crates(vec!["coscheduler"]),
        ["blobs", "exec-hook", ..] => Change::Crates(vec!["cli"]),
        ["blobs", ..] => Change::Crates(vec!["home"]),
        ["guests", "attacks", ..] => Change::Program("hostile"),
        ["guests", ..] => Change::Program("guests"),
        ["scenarios" | "dist", ..] => Change::Crates(vec![WHOLE]),
        // Pages are compared with the sources.
        ["docs", ..] => Change::Crates(vec!["xtask", "systable"]),
        [page] if page.ends_with(".md") => Change::Crates(vec!["xtask"]),
        _ => Change::Nothing,
    }
}

/// The test programs that a change of these files reaches; `None` for all.
fn reached(files: &[String], workspace: &Workspace) -> Option<Targets> {
    let mut targets = Targets::new();
    for file in files {
        match change(file, workspace) {
            Change::Everything => return None,
            Change::Nothing => {}
            Change::Crates(names) => names.iter().for_each(|name| workspace.add_dependents(name, &mut targets)),
            Change::Program(name) => add_program(&mut targets, WHOLE, name),
        }
    }
    Some(targets)
}

/// Files that differ from where this branch left `main`, and those that git does not know yet.
fn changed_files() -> Result<Vec<String>> {
    let git = |words: &[&str]| tool::output(Command::new("git").current_dir(tree()).args(words));
    let base = git(&["merge-base", "HEAD", "main"]).unwrap_or_else(|_| "HEAD".into());
    let differing = git(&["diff", "--name-only", base.trim()])?;
    let unknown = git(&["ls-files", "--others", "--exclude-standard"])?;
    let is_here = |file: &&str| !file.is_empty() && !Path::new(file).starts_with("target");
    Ok(differing.lines().chain(unknown.lines()).filter(is_here).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn workspace() -> Workspace {
        let crates = [
            ("policy", set(&[]), set(&["rules"])),
            ("node", set(&["policy"]), set(&[])),
            ("tern", set(&["node"]), set(&["moving", "guests", "hostile"])),
            ("xtask", set(&[]), set(&["layers"])),
            ("systable", set(&[]), set(&["page"])),
        ];
        let mut workspace = Workspace::default();
        for (name, dependencies, programs) in crates {
            workspace.dependencies.insert(name.into(), dependencies);
            workspace.programs.insert(name.into(), programs);
        }
        workspace
    }

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_are_crates_or_test_programs() {
        let targets = named(&strings(&["policy", "moving", "xtask/layers", "hostile"]), &workspace()).unwrap();
        let expected = [
            ("policy", Scope::Crate),
            ("tern", Scope::Programs(set(&["hostile", "moving"]))),
            ("xtask", Scope::Programs(set(&["layers"]))),
        ];
        assert_eq!(targets, expected.map(|(name, scope)| (name.to_owned(), scope)).into());
        let unknown = named(&strings(&["movng"]), &workspace()).unwrap_err();
        assert!(unknown.contains("movng") && unknown.contains("moving") && unknown.contains("policy"), "{unknown}");
    }

    #[test]
    fn a_change_reaches_what_depends_on_it() {
        let of = |files: &[&str]| reached(&strings(files), &workspace());
        let names = |targets: Option<Targets>| targets.unwrap().into_keys().collect::<Vec<_>>();
        assert_eq!(names(of(&["crates/policy/src/lib.rs"])), ["node", "policy", "tern"]);
        assert_eq!(names(of(&["docs/STATE.md", "LICENSE"])), ["systable", "xtask"]);
        assert_eq!(of(&["Cargo.lock", "README.md"]), None);
        assert_eq!(of(&["LICENSE"]), Some(Targets::new()));
        let suites = of(&["crates/tern/tests/moving/kinds.rs", "guests/chown.c"]).unwrap();
        assert_eq!(suites["tern"], Scope::Programs(set(&["guests", "moving"])));
        // What the test programs have in common, and the crate itself, reach all of them.
        assert_eq!(of(&["crates/tern/tests/common/mod.rs", "guests/chown.c"]).unwrap()["tern"], Scope::Crate);
        assert_eq!(of(&["guests/chown.c", "crates/node/src/lib.rs"]).unwrap()["tern"], Scope::Crate);
    }
}
