//! Runs all tests, and counts them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::packages;
use crate::tool::{self, Executable, Result, cargo, executables, tree};
use crate::watch::{self, Ended};

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

impl Extent {
    /// How long a test program may say nothing. The longest test takes two minutes of a quiet machine, half an hour if it is one of those that take long.
    fn patience(self) -> Duration {
        match self {
            Extent::Quick | Extent::Normal => Duration::from_secs(10 * 60),
            Extent::Full => Duration::from_secs(2 * 60 * 60),
        }
    }
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
    is_seen_by_all(tree())?;
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
        let passed = failures.iter().filter(|failure| passes_alone(failure, extent, &tern)).count() as u64;
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

/// Guests lie in this project's directory, in nodes of labs, and some of them are other users'.
fn is_seen_by_all(tree: &Path) -> Result<()> {
    let elsewhere = "clone it into another directory (below /opt or /srv)";
    if let Some(dir) = private(tree) {
        return Err(format!("this project lies in {dir}, of which each node of a lab has one of its own: {elsewhere}"));
    }
    closed(tree).map_or(Ok(()), |dir| {
        let why = "which other users may not enter, as whom some tests run programs";
        Err(format!("this project lies in {}, {why}: {elsewhere}", dir.display()))
    })
}

/// The directory, of those that nodes have of their own (`lab::root`), in which it lies.
fn private(tree: &Path) -> Option<&'static str> {
    ["/tmp", "/var/tmp", "/home", "/run", "/dev/shm"].into_iter().find(|dir| tree.starts_with(dir))
}

/// The directory on its way that others may not enter.
fn closed(tree: &Path) -> Option<&Path> {
    tree.ancestors().find(|dir| dir.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o001 == 0))
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
fn passes_alone(failure: &Failure<'_>, extent: Extent, tern: &Path) -> bool {
    let mut command = command(failure.program, tern);
    command.args(["--exact", "--include-ignored", &failure.name]);
    let (ended, said) = listen(&mut command, extent);
    let passed = matches!(ended, Ok(Ended::With(status)) if status.success()) && said.total().passed == 1;
    let how =
        if passed { "failed at first and passed when run again, alone: it depends on chance" } else { "failed again" };
    println!("{}: {} {how}", suite(failure.program), failure.name);
    passed
}

/// Runs one test program, shows what failed, and counts; the names of the tests that failed. One that dies counts as a failure without a name.
/// Where some hang, the others are run without them.
fn run_program(program: &Executable, extent: Extent, tern: &Path) -> (Count, Vec<String>) {
    let given: &[&str] = if extent == Extent::Full { &["--include-ignored"] } else { &[] };
    let (ended, said) = listen(command(program, tern).args(given), extent);
    match ended {
        Ok(Ended::Silent) if !said.slow.is_empty() => {
            remove_leftovers(tern);
            let mut command = command(program, tern);
            command.args(given).arg("--exact");
            for name in said.known() {
                command.args(["--skip", name]);
            }
            let (ended, rest) = listen(&mut command, extent);
            let (rest, names) = verdicts(program, ended, rest);
            let begun = said.total();
            let hung = said.slow.len() as u64;
            let count = Count {
                passed: begun.passed + rest.passed,
                failed: begun.failed + hung + rest.failed,
                ignored: rest.ignored,
            };
            (count, [said.failed, said.slow, names].concat())
        }
        ended => verdicts(program, ended, said),
    }
}

/// Runs tests to their end, or until nothing is heard of them any more.
fn listen(command: &mut Command, extent: Extent) -> (Result<Ended>, Said) {
    let mut said = Said::default();
    let ended = command.stdout(Stdio::piped()).spawn().and_then(|mut child| {
        watch::lines(&mut child, extent.patience(), |line| said.hear(line), watch::show_processes)
    });
    (ended.map_err(|error| format!("cannot be run: {error}")), said)
}

/// What is counted of a program that said this and came to that end, and which tests failed.
fn verdicts(program: &Executable, ended: Result<Ended>, said: Said) -> (Count, Vec<String>) {
    let count = said.total();
    let reason = match ended {
        Ok(Ended::With(status)) if status.success() || count.failed > 0 => return (count, said.failed),
        Ok(Ended::With(status)) => format!("ended with {status}"),
        Ok(Ended::Silent) => "killed, as nothing was heard of its tests any more".into(),
        Err(error) => error,
    };
    println!("{}: {reason}", suite(program));
    (Count { failed: count.failed + 1, ..count }, Vec::new())
}

/// What a test program has said so far.
#[derive(Default)]
struct Said {
    /// Its own summary.
    count: Option<Count>,
    /// Names of the tests that are right.
    passed: Vec<String>,
    /// Names of the tests that failed.
    failed: Vec<String>,
    /// Names of the tests that run for long.
    slow: Vec<String>,
}

impl Said {
    /// Counts what a line says; shows what is not good.
    fn hear(&mut self, line: &str) {
        match (verdict(line), name(line)) {
            (Some(passed), Some(name)) => {
                self.slow.retain(|slow| *slow != name);
                if passed { &mut self.passed } else { &mut self.failed }.push(name);
            }
            _ => self.slow.extend(slow(line)),
        }
        if let Some(found) = result(line) {
            self.count = Some(found);
        } else if !(line.is_empty()
            || verdict(line) == Some(true)
            || line.contains("... ignored")
            || line.starts_with("running"))
        {
            println!("    {line}");
        }
    }

    /// The summary, or what the verdicts come to.
    fn total(&self) -> Count {
        let single = Count { passed: self.passed.len() as u64, failed: self.failed.len() as u64, ignored: 0 };
        self.count.unwrap_or(single)
    }

    /// All tests that were begun, as far as is known.
    fn known(&self) -> impl Iterator<Item = &String> {
        [&self.passed, &self.failed, &self.slow].into_iter().flatten()
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

/// Which test a line says to run for long.
fn slow(line: &str) -> Option<String> {
    Some(line.strip_prefix("test ")?.split_once(" has been running for over ")?.0.to_owned())
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
    fn where_guests_cannot_be_seen_is_told() {
        assert_eq!(private(Path::new("/home/somebody/tern")), Some("/home"));
        assert_eq!(private(Path::new("/opt/home/tern")), None);
        let dir = std::env::temp_dir().join(format!("tern-xtask-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let mode = |mode| std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
        let below = dir.join("tern");
        mode(0o755);
        let open = closed(&below).is_none();
        mode(0o700);
        let found = closed(&below) == Some(dir.as_path());
        std::fs::remove_dir(&dir).unwrap();
        assert!(open && found);
    }

    #[test]
    fn results_are_counted() {
        let count = result("test result: FAILED. 7 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out").unwrap();
        assert_eq!((count.passed, count.failed, count.ignored), (7, 2, 1));
        assert_eq!(name("test a::b ... FAILED").as_deref(), Some("a::b"));
        assert!(result("test x ... ok").is_none());
        assert!(result("test result: odd").is_none());
    }

    #[test]
    fn tests_that_hang_are_known() {
        let mut said = Said::default();
        for test in ["a", "b"] {
            said.hear(&format!("test {test} has been running for over 60 seconds"));
        }
        said.hear("test a ... ok");
        assert_eq!((said.slow, said.passed), (vec!["b".to_owned()], vec!["a".to_owned()]));
    }
}
