//! Runs all tests, and counts them.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::packages;
use crate::said::{Count, Said};
use crate::select::{Scope, Selection, Targets};
use crate::tool::{self, Executable, Result, cargo, executables, tree};
use crate::watch::{self, Ended};

/// How much is tested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What needs no lab.
    Quick,
    /// Everything but what takes long.
    Normal,
    /// All tests are run.
    Full,
}

impl Extent {
    /// How long a test program may say nothing. The longest test takes two minutes of a quiet
    /// machine, half an hour if it is one of those that take long.
    fn patience(self) -> Duration {
        match self {
            Extent::Quick | Extent::Normal => Duration::from_secs(10 * 60),
            Extent::Full => Duration::from_secs(2 * 60 * 60),
        }
    }
}

/// At most so many tests that failed are run again, alone: where more fail, something is broken.
const AGAIN_MAX: usize = 5;

/// Rounds of the random test of home files in a full run. Other runs have fewer.
const FULL_ROUNDS: &str = "1000";

/// What is run, and how severe the judgement is.
#[derive(Clone)]
pub struct Plan {
    pub selection: Selection,
    pub extent: Extent,
    pub judgement: Judgement,
}

impl Plan {
    /// Reads the words after `cargo xtask test`; `None` if they have no meaning.
    pub fn from_flags(flags: &[&str]) -> Option<Plan> {
        let mut plan = Plan { selection: Selection::All, extent: Extent::Normal, judgement: Judgement::Lenient };
        let mut names = Vec::new();
        for flag in flags {
            match *flag {
                "--quick" => plan.extent = Extent::Quick,
                "--full" => plan.extent = Extent::Full,
                "--strict" => plan.judgement = Judgement::Strict,
                "--changed" => plan.selection = Selection::Changed,
                name if !name.starts_with('-') => names.push(name.to_owned()),
                _ => return None,
            }
        }
        match (names.is_empty(), &plan.selection) {
            (true, _) => {}
            (false, Selection::All) => plan.selection = Selection::Named(names),
            // Either what is named, or what has changed.
            (false, _) => return None,
        }
        Some(plan)
    }
}

/// What a test counts as that fails at first, and passes when it is run again, alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// As passed; the last lines name it.
    Lenient,
    /// The test counts as failed.
    Strict,
}

/// A test that failed.
struct Failure<'a> {
    program: &'a Executable,
    name: String,
}

/// The results of all programs.
#[derive(Default)]
struct Results<'a> {
    total: Count,
    failures: Vec<Failure<'a>>,
    /// How each program that died ended. Its tests were run again.
    died: Vec<String>,
    /// A line for each test that was left out.
    left_out: Vec<String>,
}

/// `cargo xtask test`. The last line says `N passed, N failed`.
pub fn run(plan: Plan) -> Result<()> {
    let extent = plan.extent;
    if !packages::is_root() {
        println!("not root: tests that need namespaces of their own will fail (try sudo -E)");
    }
    is_seen_by_all(tree())?;
    let targets = plan.selection.targets()?;
    packages::provide()?;
    // No other crate's tests run the whole.
    let is_whole = targets.as_ref().is_none_or(|targets| targets.contains_key("tern"));
    let tern = if is_whole { tool::build_release()? } else { PathBuf::from("tern") };
    let programs = build_tests(targets, extent)?;
    let mut results = Results::default();
    for program in &programs {
        results.run(program, extent, &tern);
    }
    remove_leftovers(&tern);
    let by_chance = results.by_chance(extent, &tern);
    results.report(&by_chance, plan.judgement)
}

impl<'a> Results<'a> {
    /// Runs one test program, and adds what came of it.
    fn run(&mut self, program: &'a Executable, extent: Extent, tern: &Path) {
        let start = Instant::now();
        let (mut count, said) = run_program(program, extent, tern);
        self.left_out.extend(Notes::of(program).take(program, &mut count));
        print!("{}", said.shown);
        println!("{:<28} {count} ({:.1} s)", suite(program), start.elapsed().as_secs_f32());
        self.total.add(count);
        self.failures.extend(said.failed.into_iter().map(|name| Failure { program, name }));
        self.died.extend(said.died);
    }

    /// Runs the tests that failed again. Returns a line for each one that passes then, and for each
    /// program that died: a matter of chance is said, but does not hide what all others say.
    fn by_chance(&mut self, extent: Extent, tern: &Path) -> Vec<String> {
        let mut lines = Vec::new();
        // Every failure must have its name.
        if self.total.failed == self.failures.len() as u64 && self.failures.len() <= AGAIN_MAX {
            for failure in self.failures.iter().filter(|failure| passes_alone(failure, extent, tern)) {
                lines.push(format!("{}: {}", suite(failure.program), failure.name));
            }
        }
        self.total.failed -= lines.len() as u64;
        self.total.passed += lines.len() as u64;
        lines.append(&mut self.died);
        lines
    }

    /// Prints the last lines. Fails if a test failed.
    fn report(mut self, by_chance: &[String], judgement: Judgement) -> Result<()> {
        if judgement == Judgement::Strict {
            self.total.failed += by_chance.len() as u64;
        }
        self.left_out.iter().for_each(|line| println!("{line}"));
        if self.total.left_out > 0 {
            println!("{} left out", self.total.left_out);
        }
        for line in by_chance {
            println!("passed only at the second try: {line}");
        }
        println!("{} passed, {} failed", self.total.passed, self.total.failed);
        match self.total.failed {
            0 => Ok(()),
            _ => Err("tests failed".into()),
        }
    }
}

/// The file in which tests note that they are left out (crate `skip`).
struct Notes(PathBuf);

impl Notes {
    /// The file of one program.
    fn of(program: &Executable) -> Notes {
        Notes(program.path.with_extension("left-out"))
    }

    /// Takes what the tests of `program` have noted, corrects `count`, and returns a line for each
    /// note.
    fn take(&self, program: &Executable, count: &mut Count) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let _ = std::fs::remove_file(&self.0);
        let notes: Vec<_> = text.lines().filter_map(skip::read).collect();
        let whole: BTreeSet<&str> = notes.iter().filter(|n| n.0 == skip::Extent::Whole).map(|n| n.1).collect();
        let whole = (whole.len() as u64).min(count.passed);
        count.passed -= whole;
        count.left_out += whole;
        let line = |(extent, test, reason): &(skip::Extent, &str, &str)| {
            let extent = if *extent == skip::Extent::Part { ", in part" } else { "" };
            format!("left out{extent}: {}: {test}: {reason}", suite(program))
        };
        notes.iter().map(line).collect()
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

/// Builds the test programs of a run.
fn build_tests(targets: Option<Targets>, extent: Extent) -> Result<Vec<Executable>> {
    let Some(targets) = targets else { return build(&["--workspace"], &Scope::Crate, extent) };
    let mut programs = Vec::new();
    for (package, scope) in &targets {
        programs.extend(build(&["--package", package], scope, extent)?);
    }
    Ok(programs)
}

fn build(packages: &[&str], scope: &Scope, extent: Extent) -> Result<Vec<Executable>> {
    let mut command = cargo();
    command.args(["test", "--no-run"]).args(packages);
    // Named faults are a feature of the whole alone.
    if packages.iter().any(|word| ["--workspace", "tern"].contains(word)) {
        command.args(["--features", "tern/faults"]);
    }
    command.args(["--message-format", "json-render-diagnostics"]);
    match scope {
        Scope::Programs(names) => {
            command.args(names.iter().flat_map(|name| ["--test", name]));
        }
        Scope::Crate if extent == Extent::Quick => {
            command.args(["--lib", "--bins"]);
        }
        Scope::Crate => {}
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
    let notes = Notes::of(program);
    let _ = std::fs::remove_file(&notes.0);
    command.env(skip::NOTES, notes.0);
    command
}

/// Runs a test that failed once more, by itself.
fn passes_alone(failure: &Failure<'_>, extent: Extent, tern: &Path) -> bool {
    let mut command = command(failure.program, tern);
    command.args(["--exact", "--include-ignored", &failure.name]);
    let (ended, said) = listen(&mut command, extent);
    print!("{}", said.shown);
    let passed = matches!(ended, Ok(Ended::With(status)) if status.success()) && said.total().passed == 1;
    let how =
        if passed { "failed at first and passed when run again, alone: it depends on chance" } else { "failed again" };
    println!("{}: {} {how}", suite(failure.program), failure.name);
    passed
}

/// Runs one test program, and gives what it said and what counts of that. Where some tests hang, or
/// the program dies, the tests without a verdict are run by a second program.
fn run_program(program: &Executable, extent: Extent, tern: &Path) -> (Count, Said) {
    let given: &[&str] = if extent == Extent::Full { &["--include-ignored"] } else { &[] };
    let (ended, mut said) = listen(command(program, tern).args(given), extent);
    let died = match &ended {
        Ok(Ended::Silent) if !said.slow.is_empty() => None,
        Ok(Ended::With(status)) => match status.signal() {
            Some(signal) => Some(format!("{} died by signal {signal}", suite(program))),
            None => return verdicts(program, ended, said),
        },
        _ => return verdicts(program, ended, said),
    };
    remove_leftovers(tern);
    let mut command = command(program, tern);
    command.args(given).arg("--exact");
    // A slow test has no verdict when its program dies: the test may be another one's victim.
    let hung = if died.is_none() { std::mem::take(&mut said.slow) } else { Vec::new() };
    for name in said.passed.iter().chain(&said.failed).chain(&hung) {
        command.args(["--skip", name]);
    }
    let (ended, rest) = listen(&mut command, extent);
    let (rest, others) = verdicts(program, ended, rest);
    let begun = said.total();
    let count = Count {
        passed: begun.passed + rest.passed,
        failed: begun.failed + hung.len() as u64 + rest.failed,
        left_out: rest.left_out,
    };
    said.failed.extend(hung.into_iter().chain(others.failed));
    said.shown.push_str(&others.shown);
    if let Some(died) = &died {
        said.show(&format!("{died}: the tests without a verdict were run again"));
    }
    said.died = died;
    (count, said)
}

/// Runs tests to their end, or until nothing is heard of them any more.
fn listen(command: &mut Command, extent: Extent) -> (Result<Ended>, Said) {
    let mut said = Said::default();
    if extent == Extent::Full {
        command.env("HOMEFS_ROUNDS", FULL_ROUNDS);
    }
    let ended = command.stdout(Stdio::piped()).spawn().and_then(|mut child| {
        watch::lines(&mut child, extent.patience(), |line| said.hear(line), watch::show_processes)
    });
    (ended.map_err(|error| format!("cannot be run: {error}")), said)
}

/// Counts the tests of a program by its output and its end.
fn verdicts(program: &Executable, ended: Result<Ended>, mut said: Said) -> (Count, Said) {
    let count = said.total();
    let reason = match ended {
        Ok(Ended::With(status)) if status.success() || count.failed > 0 => return (count, said),
        Ok(Ended::With(status)) => format!("ended with {status}"),
        Ok(Ended::Silent) => "killed, as nothing was heard of its tests any more".into(),
        Err(error) => error,
    };
    said.show(&format!("{}: {reason}", suite(program)));
    said.failed.clear();
    (Count { failed: count.failed + 1, ..count }, said)
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
}
