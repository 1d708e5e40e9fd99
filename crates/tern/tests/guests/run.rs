//! Running a guest: its input, its directory, its end.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::IGNORED_IN_THE_BACKGROUND;
use crate::program::{End, Program};

/// Nothing takes that long, on however busy a machine (23 s on an emulated one that has this one
/// for itself).
const DEADLINE: Duration = Duration::from_secs(90);
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
    if program.terminal {
        return crate::terminal::run_on_terminal(command);
    }
    if !program.reads_file {
        return run(command);
    }
    let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let path = scratch.path().join("input");
    std::fs::write(&path, input()).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    run_with(command, file.into())
}

fn input() -> Vec<u8> {
    (0..INPUT_BYTES).map(|i| (i * 31 % 251) as u8).collect()
}

/// Runs a command to its end with the guests' input.
pub fn run(command: &mut Command) -> Outcome {
    run_with(command, Stdio::piped())
}

fn run_with(command: &mut Command, stdin: Stdio) -> Outcome {
    // Whatever this test was started with is not the guest's.
    // SAFETY: system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for signal in IGNORED_IN_THE_BACKGROUND {
                libc::signal(signal, libc::SIG_DFL);
            }
            match libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    let (stdout, stderr) = (Reader::start(child.stdout.take()), Reader::start(child.stderr.take()));
    std::thread::spawn(move || {
        // A guest that does not read all of it is in its right.
        let _ = stdin.map(|mut pipe| pipe.write_all(&input()));
    });
    let end = end(wait(&mut child));
    Outcome { stdout: stdout.text(), stderr: stderr.text(), end }
}

/// Reads to the end of a pipe, but does not insist on it: what hangs may hold the pipe open for
/// ever.
struct Reader {
    ended: Receiver<()>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Reader {
    fn start(pipe: Option<impl Read + Send + 'static>) -> Reader {
        let (done, ended) = channel();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        std::thread::spawn(move || {
            let (mut pipe, mut part) = (pipe?, [0; 4096]);
            while let Ok(got @ 1..) = pipe.read(&mut part) {
                into.lock().unwrap().extend_from_slice(&part[..got]);
            }
            done.send(()).ok()
        });
        Reader { ended, bytes }
    }

    /// What was read when the pipe ended, or when it should have.
    fn text(&self) -> String {
        let _ = self.ended.recv_timeout(Duration::from_secs(5));
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

pub fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            eprintln!("not within {DEADLINE:?}; guests, at home and in rooms:\n{}", standing());
            let _ = child.kill();
            return child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What the kernel says of each thread of all guests on this machine: what one that hangs waits
/// for.
fn standing() -> String {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let numbers = |path: String| {
        let names = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.parse::<i32>().ok()).collect::<Vec<_>>()
    };
    let is_guest = |pid: &i32| read(format!("/proc/{pid}/cmdline")).contains("\0a1\0b c\0");
    let mut text = String::new();
    for pid in numbers("/proc".into()).into_iter().filter(is_guest) {
        for tid in numbers(format!("/proc/{pid}/task")) {
            let of = |file: &str| read(format!("/proc/{pid}/task/{tid}/{file}"));
            let status = of("status");
            let wanted = ["Name", "State", "NSpid", "TracerPid", "SigPnd", "ShdPnd", "SigBlk", "SigCgt"];
            let fields = status.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name)));
            let fields: Vec<String> = fields.map(|line| line.replace('\t', " ")).collect();
            text += &format!("{pid}/{tid}: {}; in {} {}\n", fields.join(", "), of("wchan"), of("syscall").trim());
        }
    }
    text
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
