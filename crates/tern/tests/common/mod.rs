//! What the tests of the whole have in common.
#![allow(dead_code, clippy::unwrap_used, reason = "each test program uses a part; a test that cannot go on has failed")]

mod nested_epoll;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lab::{Lab, Options, Output};

/// The tern to be tested: `TERN_BINARY` (`cargo xtask test` gives the optimised one), else the one
/// that was built with the test.
pub fn tern() -> PathBuf {
    std::env::var_os("TERN_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_tern").into(), PathBuf::from)
}

/// Generous: this machine may be busy.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// Waits for a condition.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// What a shell or nohup(1) has a command ignore that is started in the background, with all that
/// it starts.
pub const IGNORED_IN_THE_BACKGROUND: [i32; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];

/// Has a command lead a session of its own, whose terminal is its standard input, with no signal
/// ignored, as a login does: who runs the tests in the background may ignore some.
pub fn leads_session(command: &mut Command) {
    // SAFETY: system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for signal in IGNORED_IN_THE_BACKGROUND {
                libc::signal(signal, libc::SIG_DFL);
            }
            let done = libc::setsid() > 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0;
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
}

/// A plain lab of a name of its own.
pub fn options(nodes: u32) -> Options {
    Options::new(Lab::fresh_name("test").unwrap(), nodes)
}

/// A lab that runs the tern to be tested.
pub fn lab_of(options: &Options) -> Lab {
    nested_epoll::watch();
    Lab::up(tern(), options).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a command to its end with this on its standard input.
pub fn run_with_input(command: Command, input: &[u8]) -> Output {
    run_answering(command, "", input)
}

/// The same; the input comes when the `prompt` has been printed.
pub fn run_answering(mut command: Command, prompt: &str, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut pipe, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut stdout = Vec::new();
    let mut part = [0; 4096];
    while !stdout.windows(prompt.len().max(1)).any(|printed| printed == prompt.as_bytes()) && !prompt.is_empty() {
        match from.read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(bytes) => stdout.extend(&part[..bytes]),
        }
    }
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A command need not read all of its input.
            let _ = pipe.write_all(input);
        });
        scope.spawn(|| from.read_to_end(&mut stdout));
        child.wait_with_output().unwrap()
    });
    Output { status: output.status, stdout, stderr: output.stderr }
}

/// `CC1` becomes the path of gcc's compiler proper.
pub fn resolve(word: &str) -> String {
    if word != "CC1" {
        return word.into();
    }
    let output = Command::new("gcc").arg("-print-prog-name=cc1").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// Is there a program of this name on the search path?
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
