//! Running a guest: its input, its directory, its end.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::program::{End, Program};

/// Nothing takes that long, on however busy a machine.
const DEADLINE: Duration = Duration::from_secs(120);
/// Bytes on standard input.
const INPUT_BYTES: usize = 123_456;

/// A directory that is removed with its content.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty directory below `parent`.
    pub fn below(parent: &Path) -> Scratch {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("guest-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(name);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// What a guest did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub stdout: String,
    pub stderr: String,
    pub end: End,
}

/// The guest itself, with the arguments that all get.
pub fn arguments(program: &Program) -> Vec<String> {
    vec![program.binary.to_str().unwrap().into(), "a1".into(), "b c".into()]
}

/// Runs a guest by this command, on a terminal if it wants one.
pub fn run_guest(program: &Program, command: &mut Command) -> Outcome {
    if program.terminal { crate::terminal::run_on_terminal(command) } else { run(command) }
}

/// Runs a command to its end with the guests' input.
pub fn run(command: &mut Command) -> Outcome {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout, mut stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (status, out, err) = std::thread::scope(|scope| {
        scope.spawn(move || {
            let input: Vec<u8> = (0..INPUT_BYTES).map(|i| (i * 31 % 251) as u8).collect();
            // A guest that does not read all of it is in its right.
            let _ = stdin.as_mut().map(|pipe| pipe.write_all(&input));
        });
        let out = scope.spawn(move || text(stdout.as_mut()));
        let err = scope.spawn(move || text(stderr.as_mut()));
        let status = wait(&mut child);
        (status, out.join().unwrap(), err.join().unwrap())
    });
    Outcome { stdout: out, stderr: err, end: end(status) }
}

fn text(pipe: Option<&mut impl Read>) -> String {
    let mut bytes = Vec::new();
    let _ = pipe.map(|pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            return child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn end(status: ExitStatus) -> End {
    status.code().map_or_else(|| End::Signal(status.signal().unwrap_or(0)), End::Exit)
}

/// The guest's own words say that it found what it should, and it ended as its source says.
pub fn complaint(program: &Program, outcome: &Outcome) -> Option<String> {
    let good =
        outcome.stdout.lines().any(|line| line.trim_end_matches('\r') == "EXIT-SUCCESS") && outcome.end == program.end;
    (!good).then(|| {
        let lines: Vec<&str> = outcome.stdout.lines().collect();
        let last = lines[lines.len().saturating_sub(4)..].join(" | ");
        let last: String = last.chars().take(600).collect();
        format!("{}: {:?} instead of {:?}: {last} {}", program.name, outcome.end, program.end, outcome.stderr.trim())
    })
}
