//! Real programs: each is run natively at home and placed on a node that has nothing, by the same
//! user in equal directories. Standard output, standard error, exit status and the files that it
//! leaves must be the same.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod families;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use cases::{CASES, Case, Input, PANTRY, PERMISSIONS, PREPARE_USERS};
use common::lab_of;
use families::FAMILIES;
use lab::{Lab, Options, Output};

/// Who runs a program: user and group id, further groups.
type User = (u32, &'static [u32]);

const ROOT: User = (0, &[0]);
const USERS: [User; 4] = [ROOT, (1001, &[]), (1002, &[]), (1003, &[2000, 2001])];

/// Longest piece of a difference that is shown, characters.
const SHOWN: usize = 600;

/// How long one run may take, seconds.
const LIMIT_S: &str = "60";

#[derive(Clone, Copy)]
enum Mode {
    Native,
    Placed,
}

/// Everything that one run shows.
#[derive(PartialEq, Eq)]
struct Outcome {
    output: Output,
    files: String,
}

/// A lab with a kitchen: a directory of inputs, and one where programs run.
struct Bench {
    lab: Lab,
    /// Inputs, in n1.
    pantry: &'static str,
    /// Where the programs run, in n1.
    place: PathBuf,
    /// The place is this machine's disk, and to be removed.
    on_disk: bool,
}

impl Bench {
    fn new(options: &Options, on_disk: bool) -> Bench {
        let lab = lab_of(options);
        let place = match on_disk {
            // /tmp of n1 is a tmpfs of its own; this is this machine's disk.
            true => PathBuf::from(format!("/srv/{}", lab.state().options.name)),
            false => PathBuf::from("/tmp/place"),
        };
        let bench = Bench { lab, pantry: "/tmp/pantry", place, on_disk };
        let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/input");
        let pantry = bench.lab.root("n1").unwrap().join("tmp/pantry");
        fs::create_dir(&pantry).unwrap();
        for entry in fs::read_dir(inputs).unwrap().flatten() {
            fs::copy(entry.path(), pantry.join(entry.file_name())).unwrap();
        }
        bench.shell(&format!("cd {} && {{ {PANTRY} }}", bench.pantry));
        bench
    }

    /// Runs a script in n1 as root; it must succeed.
    fn shell(&self, script: &str) -> String {
        let output = self.lab.exec("n1", ["sh", "-c", script]).unwrap();
        assert!(output.status.success(), "{script}\n{}\n{}", output.text(), output.errors());
        output.text()
    }

    fn run(&self, case: &Case, user: User, prepare: &str, mode: Mode) -> Outcome {
        let place = self.place.display();
        let (uid, groups) = user;
        self.shell(&format!(
            "rm -rf {place} && cp -a {} {place} && chown -R {uid}:{uid} {place} && cd {place} && {{ :; {prepare}\n }}",
            self.pantry
        ));
        let mut output = self.start(case, uid, groups, mode);
        if case.own_words {
            assert!(!output.stderr.is_empty(), "{}: nothing was said", case.name);
            output.stderr.clear();
        }
        let files = self.shell(&format!(
            "cd {place} && find . -type d -printf '%p %m %U %G\\n' -o -printf '%p %m %U %G %s %n %l %y\\n' | sort; \
             find . -type f -exec sha256sum {{}} + | sort -k2; getfacl -nR . 2>/dev/null"
        ));
        Outcome { output, files }
    }

    fn start(&self, case: &Case, uid: u32, groups: &[u32], mode: Mode) -> Output {
        let program: Vec<String> = case.command.iter().map(|word| common::resolve(word)).collect();
        // What hangs is a difference, not the end of the test.
        let mut words: Vec<String> = ["timeout", "--foreground", "--signal=KILL", LIMIT_S].map(str::to_owned).into();
        if uid != 0 {
            let list = groups.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let groups = if groups.is_empty() { "--clear-groups".into() } else { format!("--groups={list}") };
            words.extend(["setpriv".into(), format!("--reuid={uid}"), format!("--regid={uid}"), groups, "--".into()]);
        }
        if let Mode::Placed = mode {
            words.extend(["tern", "run", "--quiet", "--on", "n2", "--"].map(str::to_owned));
        }
        words.extend(program);
        let mut input = Vec::new();
        match case.input {
            Input::Nothing => {}
            Input::Pipe(file) => input = fs::read(self.lab.root("n1").unwrap().join("tmp/pantry").join(file)).unwrap(),
            Input::Terminal(text) | Input::Prompted(_, text) => {
                input = text.into();
                let line = words.iter().map(|w| quote(w)).collect::<Vec<_>>().join(" ");
                words = vec!["script".into(), "-qec".into(), format!("exec {line}"), "/dev/null".into()];
            }
        }
        let redirect = if matches!(case.input, Input::Nothing) { "</dev/null" } else { "" };
        let script = format!("cd {} && exec \"$@\" {redirect}", self.place.display());
        let argv = ["sh".into(), "-c".into(), script, "sh".into()].into_iter().chain(words);
        // Not the interpreter of a version manager, which is a script that forks.
        let mut child = self.lab.in_node("n1", argv);
        child.env("PATH", "/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        child.env("HOME", "/tmp").env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh");
        let prompt = if let Input::Prompted(prompt, _) = case.input { prompt } else { "" };
        common::run_answering(child, prompt, &input)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if self.on_disk {
            let _ = fs::remove_dir_all(&self.place);
        }
    }
}

/// A word for a shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Runs all cases in both modes; what differed.
fn compare(bench: &Bench, cases: &[Case], users: &[User], prepare: &str, other: Mode) -> String {
    let mut differences = String::new();
    for case in cases {
        if let Some(missing) = case.needs.iter().find(|program| !common::is_installed(program)) {
            skip::part(format_args!("{}: {missing} is not installed", case.name));
            continue;
        }
        for user in users {
            let expected = bench.run(case, *user, prepare, Mode::Native);
            let seen = bench.run(case, *user, prepare, other);
            if expected != seen {
                writeln!(differences, "== {} (user {})", case.name, user.0).unwrap();
                describe(&mut differences, &expected, &seen);
            }
        }
    }
    differences
}

fn describe(text: &mut String, expected: &Outcome, seen: &Outcome) {
    let mut differ = |what: &str, a: &str, b: &str| {
        if a != b {
            // From the first difference on.
            let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
            let from = a.as_bytes()[..same].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
            let cut = |s: &str| String::from_utf8_lossy(&s.as_bytes()[from..]).chars().take(SHOWN).collect::<String>();
            writeln!(text, "-- {what}, native:\n{}\n-- {what}, here:\n{}", cut(a), cut(b)).unwrap();
        }
    };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    differ("status", &expected.output.status.to_string(), &seen.output.status.to_string());
    differ("stdout", &lossy(&expected.output.stdout), &lossy(&seen.output.stdout));
    differ("stderr", &expected.output.errors(), &seen.output.errors());
    differ("files", &expected.files, &seen.files);
}

fn bare() -> Options {
    Options { daemons: false, ..common::options(1) }
}

/// The table itself: a program that differs from itself says nothing about placing.
#[test]
fn native_runs_are_the_same_twice() {
    let bench = Bench::new(&bare(), false);
    let differences = compare(&bench, CASES, &[ROOT], "", Mode::Native);
    assert!(differences.is_empty(), "{differences}");
    let differences = compare(&bench, PERMISSIONS, &USERS, PREPARE_USERS, Mode::Native);
    assert!(differences.is_empty(), "{differences}");
    // And the comparison sees a difference.
    let random = [Case {
        name: "random",
        needs: &[],
        command: &["head", "-c", "9", "/dev/urandom"],
        input: Input::Nothing,
        own_words: false,
    }];
    assert!(compare(&bench, &random, &[ROOT], "", Mode::Native).contains("stdout"));
}

/// All programs, by root, on a tmpfs.
#[test]
fn placed_on_a_tmpfs() {
    let bench = Bench::new(&common::options(3), false);
    let differences = compare(&bench, CASES, &[ROOT], "", Mode::Placed);
    assert!(differences.is_empty(), "{differences}");
}

/// All programs, by an ordinary user, on a disk.
#[test]
fn placed_on_a_disk_by_a_user() {
    let bench = Bench::new(&Options { foreign: vec!["n2".into()], ..common::options(2) }, true);
    let differences = compare(&bench, CASES, &USERS[1..2], "", Mode::Placed);
    assert!(differences.is_empty(), "{differences}");
}

/// What each of four users may do and may not, by modes, groups and ACLs.
#[test]
fn placed_permissions_of_four_users() {
    let bench = Bench::new(&common::options(2), true);
    let differences = compare(&bench, PERMISSIONS, &USERS, PREPARE_USERS, Mode::Placed);
    assert!(differences.is_empty(), "{differences}");
}

/// Programs that make processes, each with its deputy at home.
#[test]
fn placed_families() {
    let bench = Bench::new(&common::options(2), false);
    let differences = compare(&bench, FAMILIES, &[ROOT], "", Mode::Placed);
    assert!(differences.is_empty(), "{differences}");
}
