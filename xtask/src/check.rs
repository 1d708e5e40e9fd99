//! Everything that can be said about the tree without running it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::house;
use crate::tool::{self, Result, cargo, tree};

/// The longest that a source file may be.
const MOST_LINES: usize = 600;

type Check = (&'static str, fn() -> Result<()>);

/// Runs all checks, and says which failed.
pub fn run_all() -> Vec<&'static str> {
    let checks: [Check; 7] = [
        ("formatting", || tool::run(cargo().args(["fmt", "--all", "--check"]))),
        ("lints", || {
            tool::run(cargo().args([
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--features",
                "tern/faults",
                "--",
                "-D",
                "warnings",
            ]))
        }),
        ("layers", || tool::run(cargo().args(["test", "--quiet", "--package", "xtask"]))),
        ("file lengths", file_lengths),
        ("rules of the house", house::check),
        ("documentation", || {
            tool::run(cargo().args(["doc", "--quiet", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings"))
        }),
        ("dependencies", dependencies),
    ];
    let mut failed = Vec::new();
    for (name, check) in checks {
        match check() {
            Ok(()) => println!("ok      {name}"),
            Err(reason) => {
                println!("FAILED  {name}: {reason}");
                failed.push(name);
            }
        }
    }
    failed
}

/// `cargo xtask check`.
pub fn run() -> Result<()> {
    match run_all() {
        failed if failed.is_empty() => Ok(()),
        failed => Err(format!("failed: {}", failed.join(", "))),
    }
}

/// Licences, advisories and sources of all dependencies.
fn dependencies() -> Result<()> {
    let installed = cargo().args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        println!(
            "        cargo-deny is not installed (cargo install cargo-deny): licences and advisories are NOT checked"
        );
        return Ok(());
    }
    tool::run(cargo().args(["deny", "--log-level", "error", "check"]))
}

fn file_lengths() -> Result<()> {
    let mut sources = Vec::new();
    for top in ["crates", "xtask", "blobs", "guests"] {
        find_sources(&tree().join(top), &mut sources);
    }
    let long: Vec<String> = sources
        .iter()
        .filter_map(|path| {
            let lines = fs::read_to_string(path).ok()?.lines().count();
            let name = path.strip_prefix(tree()).unwrap_or(path).display();
            (lines > MOST_LINES).then(|| format!("{name} has {lines} lines"))
        })
        .collect();
    match long.is_empty() {
        true => Ok(()),
        false => Err(format!("more than {MOST_LINES} lines: {}", long.join(", "))),
    }
}

fn find_sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            find_sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs" || e == "c" || e == "h") {
            found.push(path);
        }
    }
}
