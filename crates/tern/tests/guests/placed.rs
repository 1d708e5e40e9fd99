//! The same guests behind `tern run --on n2`, in a lab.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use lab::{Lab, Options};

use crate::program::{self, Program};
use crate::run::{Outcome, Scratch, arguments, complaint, run, run_guest};

/// An ordinary user of the home, for attacks: what a superuser may do at home is no harm.
const USER: &str = "1234";
/// Memory of a node, and what an attack asks for.
const NODE_BYTES: u64 = 512 << 20;
const ATTACK_MIB: &str = "2048";
const MARKER: &str = "/var/marker";

/// Where a lab's home has its tern, for everybody.
const TERN: &str = "/run/lab/bin/tern";

/// The superuser of a lab's home runs `command`, in `dir`, there or placed on n2.
pub fn at_home(lab: &Lab, dir: &Path, placed: bool, command: Vec<String>) -> Command {
    let mut argv = vec!["env".into(), "-C".into(), dir.to_str().unwrap().to_string(), "GUEST_VALUE=v".into()];
    if placed {
        argv.extend([TERN, "run", "--quiet", "--on", "n2", "--any-cpu", "--"].map(String::from));
    }
    argv.extend(command);
    lab.in_node("n1", argv)
}

/// The lines in which two runs differ first.
pub fn difference(program: &Program, native: &Outcome, placed: &Outcome) -> Option<String> {
    if native == placed {
        return None;
    }
    let pairs = native.stdout.lines().map(Some).chain(std::iter::repeat(None));
    let pairs = pairs.zip(placed.stdout.lines().map(Some).chain(std::iter::repeat(None)));
    let length = native.stdout.lines().count().max(placed.stdout.lines().count());
    let first = pairs.take(length).find(|(a, b)| a != b);
    let shorten = |line: Option<&str>| line.map(|line| line.chars().take(200).collect::<String>());
    let first = first.map(|(a, b)| (shorten(a), shorten(b)));
    let errors =
        if native.stderr == placed.stderr { String::new() } else { format!("; stderr {:?}", placed.stderr.trim()) };
    Some(format!("{}: {:?} -> {:?}; native, placed: {first:?}{errors}", program.name, native.end, placed.end))
}

/// What is known to differ, and why. A guest that does the same must be taken off, unless it is a
/// matter of time.
const DIFFERENT: &[(&str, &str)] = &[];

/// What differs at times.
pub const DIFFERENT_AT_TIMES: &[(&str, &str)] = &[];

/// What the room said last of calls that it refused: why a program that should have gone home for
/// one did not.
fn refusals(lab: &Lab) -> String {
    const LAST: usize = 3;
    let log = lab.exec("n2", ["/bin/tern", "log"]).map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let log = log.unwrap_or_default();
    let refused: Vec<&str> = log.lines().filter(|line| line.contains("refused")).collect();
    refused.iter().rev().take(LAST).map(|line| format!("\n    {line}")).collect()
}

#[test]
fn guests_do_the_same_placed() {
    let programs = program::build("");
    let only = std::env::var("TERN_GUEST").ok();
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("guests").unwrap(), 2)).unwrap();
    let mut complaints = Vec::new();
    for program in programs.iter().filter(|p| only.as_ref().is_none_or(|name| *name == p.name)) {
        let once = |placed: bool| {
            let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
            run_guest(program, &mut at_home(&lab, scratch.path(), placed, arguments(program)))
        };
        let (native, placed) = (once(false), once(true));
        let found = complaint(program, &native).map(|c| format!("native: {c}"));
        let found = found.or_else(|| difference(program, &native, &placed));
        let found = match DIFFERENT.iter().find(|(name, _)| *name == program.name) {
            Some((name, why)) if found.is_none() => Some(format!("{name}: does the same now, though {why}")),
            Some(_) => None,
            None if DIFFERENT_AT_TIMES.iter().any(|(name, _)| *name == program.name) => None,
            None => found,
        };
        // At once, as some wait long for their end.
        let found = found.map(|complaint| complaint + &refusals(&lab));
        found.iter().for_each(|complaint| eprintln!("{complaint}"));
        complaints.extend(found);
    }
    assert!(complaints.is_empty(), "{} of {}\n{}", complaints.len(), programs.len(), complaints.join("\n"));
}

#[test]
fn attacks_get_nowhere() {
    let options = Options { memory_bytes: Some(NODE_BYTES), ..Options::new(Lab::fresh_name("attacks").unwrap(), 2) };
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &options).unwrap();
    std::fs::write(lab.root("n2").unwrap().join(&MARKER[1..]), "marker of n2\n").unwrap();
    let address = lab.state().node("n2").unwrap().address.to_string();
    let home = lab.state().node("n1").unwrap().address.to_string();
    // All addresses of n2's: its loopback, too.
    let listener = lab.in_network("n2", || TcpListener::bind(("0.0.0.0", 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut complaints = Vec::new();
    for attack in program::build("attacks") {
        // In the home's own /tmp: where this project lies, another user may not be let in.
        let inside = format!("/tmp/{}", attack.name);
        let scratch = lab.root("n1").unwrap().join(&inside[1..]);
        std::fs::create_dir(&scratch).unwrap();
        std::fs::copy(&attack.binary, scratch.join("attack")).unwrap();
        std::os::unix::fs::chown(&scratch, Some(1234), Some(1234)).unwrap();
        let given = [
            ("TERN_ATTACK", "placed"),
            ("TERN_MARKER", MARKER),
            ("TERN_ADDRESS", &address),
            ("TERN_PORT", &port),
            ("TERN_MIB", ATTACK_MIB),
        ];
        let mut command: Vec<String> =
            ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "env"].map(Into::into).into();
        command.extend(given.map(|(name, value)| format!("{name}={value}")));
        command.extend([TERN, "run", "--on", "n2", "--", &format!("{inside}/attack")].map(Into::into));
        let outcome = run(&mut at_home(&lab, Path::new(&inside), false, command));
        complaints.extend(judge(&lab, &attack, &outcome));
    }
    listener.set_nonblocking(true).unwrap();
    while let Ok((_, from)) = listener.accept() {
        // A placed program reaches what its home reaches, from there.
        if from.ip().to_string() != home {
            complaints.push(format!("somebody connected to n2 from {from}"));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// The attack was made, nothing of it got through, and both nodes still work.
fn judge(lab: &Lab, attack: &Program, outcome: &Outcome) -> Option<String> {
    let made = outcome.stdout.contains("held off") || (attack.name == "memory" && outcome.stdout.contains("MiB"));
    let through = outcome.stdout.lines().any(|line| line.contains("GOT THROUGH") && !was_made_at_home(line));
    let alive =
        ["n1", "n2"].iter().all(|node| lab.exec(node, [tern_of(node), "nodes"]).is_ok_and(|o| o.status.success()));
    (!made || through || !alive).then(|| {
        let got_through = |line: &&str| line.contains("GOT THROUGH") && !was_made_at_home(line);
        let said: Vec<&str> = outcome.stdout.lines().filter(got_through).collect();
        format!("{}: {:?}, daemons answer: {alive}; {said:?} {}", attack.name, outcome.end, outcome.stderr.trim())
    })
}

/// Such a call brings its program home, and is made there, with the rights that its user has there;
/// so is what the program does after it.
fn was_made_at_home(line: &str) -> bool {
    let calls = ["mq_open", "io_uring_setup", "keyctl", "add_key", "unshare", "PTRACE_TRACEME"];
    calls.iter().any(|call| line.contains(call))
}

fn tern_of(node: &str) -> &'static str {
    if node == "n1" { TERN } else { "/bin/tern" }
}
