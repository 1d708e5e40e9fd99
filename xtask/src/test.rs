//! Runs all tests, and counts them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::packages;
use crate::tool::{self, Executable, Result, cargo, executables, tree};

/// How much is tested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What needs no lab.
    Quick,
    /// Everything but what takes long.
    Normal,
    /// Everything.
    Full,
}

/// Tests that have been run.
#[derive(Clone, Copy, Default)]
struct Count {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// At most so many tests that failed are run again, alone: where more fail, something is broken.
const AGAIN_MAX: usize = 5;

/// A test that failed.
struct Failure<'a> {
    program: &'a Executable,
    name: String,
}

/// `cargo xtask test`. The last line says `N passed, N failed`.
pub fn run(extent: Extent) -> Result<()> {
    if !packages::is_root() {
        println!("not root: tests that need namespaces of their own will fail (try sudo -E)");
    }
    packages::provide()?;
    let tern = tool::build_release()?;
    let programs = build_tests(extent)?;
    let mut total = Count::default();
    let mut failures = Vec::new();
    for program in &programs {
        let start = Instant::now();
        let (count, names) = run_program(program, extent, &tern);
        failures.extend(names.into_iter().map(|name| Failure { program, name }));
        total.passed += count.passed;
        total.failed += count.failed;
        total.ignored += count.ignored;
        let ignored = if count.ignored > 0 { format!(", {} left out", count.ignored) } else { String::new() };
        let seconds = start.elapsed().as_secs_f32();
        println!(
            "{:<28} {:>4} passed, {} failed{ignored} ({seconds:.1} s)",
            suite(program),
            count.passed,
            count.failed
        );
    }
    remove_leftovers(&tern);
    // Every failure has its name. One that is a matter of chance is still said, but does not hide what all others say.
    if total.failed == failures.len() as u64 && failures.len() <= AGAIN_MAX {
        let passed = failures.iter().filter(|failure| passes_alone(failure, &tern)).count() as u64;
        total.passed += passed;
        total.failed -= passed;
    }
    if total.ignored > 0 {
        println!("{} left out", total.ignored);
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    match total.failed {
        0 => Ok(()),
        _ => Err("tests failed".into()),
    }
}

fn build_tests(extent: Extent) -> Result<Vec<Executable>> {
    let mut command = cargo();
    command.args([
        "test",
        "--no-run",
        "--workspace",
        "--features",
        "tern/faults",
        "--message-format",
        "json-render-diagnostics",
    ]);
    if extent == Extent::Quick {
        command.args(["--lib", "--bins"]);
    }
    let built = command.stderr(Stdio::inherit()).output().map_err(|e| format!("cannot run cargo test: {e}"))?;
    match built.status.success() {
        true => Ok(executables(&built.stdout).into_iter().filter(|e| e.test).collect()),
        false => Err("the tests do not build\n0 passed, 1 failed".into()),
    }
}

fn suite(program: &Executable) -> String {
    let package = program.package.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match program.kind.as_str() {
        "test" => format!("{package}/{}", program.name),
        _ => package,
    }
}

/// The test program, in its package's directory. The tests of the whole use the optimised binary.
fn command(program: &Executable, tern: &Path) -> Command {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.package).env("CARGO_MANIFEST_DIR", &program.package).env("TERN_BINARY", tern);
    command
}

/// Runs a test that failed once more, by itself.
fn passes_alone(failure: &Failure<'_>, tern: &Path) -> bool {
    let mut command = command(failure.program, tern);
    let passed = command.args(["--exact", "--include-ignored", &failure.name]).status().is_ok_and(|s| s.success());
    let how =
        if passed { "failed at first and passed when run again, alone: it depends on chance" } else { "failed again" };
    println!("{}: {} {how}", suite(failure.program), failure.name);
    passed
}

/// Runs one test program, shows what failed, and counts; the names of the tests that failed. One that dies counts as a failure without a name.
fn run_program(program: &Executable, extent: Extent, tern: &Path) -> (Count, Vec<String>) {
    let mut command = command(program, tern);
    if extent == Extent::Full {
        command.arg("--include-ignored");
    }
    let died = |reason: String| {
        println!("{}: {reason}", suite(program));
        (Count { failed: 1, ..Count::default() }, Vec::new())
    };
    let mut names = Vec::new();
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return died(format!("cannot be run: {error}")),
    };
    let mut count = None;
    let mut single = Count::default();
    let lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
    for line in lines.map_while(std::result::Result::ok) {
        match verdict(&line) {
            Some(true) => single.passed += 1,
            Some(false) => {
                single.failed += 1;
                names.extend(name(&line));
            }
            None => {}
        }
        if let Some(found) = result(&line) {
            count = Some(found);
        } else if !(line.is_empty()
            || verdict(&line) == Some(true)
            || line.contains("... ignored")
            || line.starts_with("running"))
        {
            println!("    {line}");
        }
    }
    let count = count.unwrap_or(single);
    match child.wait() {
        Ok(status) if status.success() || count.failed > 0 => (count, names),
        Ok(status) => {
            println!("{}: ended with {status}", suite(program));
            (Count { failed: 1, ..count }, Vec::new())
        }
        Err(error) => died(format!("cannot be waited for: {error}")),
    }
}

/// Whether a line says that one test is right or wrong: programs with a runner of their own have no summary.
fn verdict(line: &str) -> Option<bool> {
    let (_, after) = line.strip_prefix("test ")?.split_once(" ... ")?;
    match after.split(' ').next()? {
        "ok" => Some(true),
        "FAILED" => Some(false),
        _ => None,
    }
}

/// Of which test a line gives the verdict.
fn name(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.split_once(" ... ")?.0;
    Some(name.trim_end_matches(" - should panic").to_owned())
}

/// Numbers in `test result: ok. 7 passed; 0 failed; 1 ignored; ...`.
fn result(line: &str) -> Option<Count> {
    let numbers = line.strip_prefix("test result: ")?;
    let number = |what: &str| {
        let before = numbers.split(&format!(" {what}")).next()?;
        before.rsplit(' ').next()?.parse().ok()
    };
    Some(Count { passed: number("passed")?, failed: number("failed")?, ignored: number("ignored")? })
}

/// Ends labs whose test program has died: their names are KIND-PID-NUMBER.
fn remove_leftovers(tern: &Path) {
    for entry in std::fs::read_dir("/run/tern-lab").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.rsplit('-').nth(1).and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            println!("lab {name} was left behind");
            let _ = tool::run(Command::new(tern).current_dir(tree()).args(["lab", "--name", &name, "down"]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let count = result("test result: FAILED. 7 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out").unwrap();
        assert_eq!((count.passed, count.failed, count.ignored), (7, 2, 1));
        assert_eq!(name("test a::b ... FAILED").as_deref(), Some("a::b"));
        assert!(result("test x ... ok").is_none());
        assert!(result("test result: odd").is_none());
    }
}
