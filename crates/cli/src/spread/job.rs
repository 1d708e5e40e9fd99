//! `tern __job`: takes the place of a program that is worth another place. The job asks the
//! coordinator for a place, has a child run the program there, waits for it, and ends as it did.
//!
//! The program is a child of the job, not the job itself, so that it can be begun again if its host
//! is lost. It is moved like any process if its host is wanted back.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use control_protocol::history::Happening;
use control_protocol::tool::{Answer, Request};

use super::words::{self, Command, FromJob, Turn};
use crate::{Begun, Dirs, Ended, Error, Host, args, client, run};

/// The coordinator's answer is waited for so long; without it the program runs here.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// The program that a job stands for.
struct Program {
    path: PathBuf,
    /// Its name, and its arguments.
    argv: Vec<OsString>,
}

/// Runs a job: `words` are the program's file, its name, and its arguments. Gives the exit status.
pub fn job(dirs: &Dirs, words: Vec<OsString>, host: Host) -> u8 {
    let mut words = words.into_iter();
    let (Some(path), argv) = (words.next(), words.collect::<Vec<_>>()) else { return 125 };
    let program = Program { path: path.into(), argv };
    let begun = coordinator().and_then(|socket| {
        words::say(&socket, &FromJob::Begins(program.told()))?;
        turn(&socket).map(|turn| (socket, turn))
    });
    let Ok((socket, mut turn)) = begun else { return program.execute(host, std::env::vars_os().collect()) };
    loop {
        let start = Instant::now();
        let Ok(child) = begin(dirs, &program, &turn, host) else {
            return program.execute(host, std::env::vars_os().collect());
        };
        let (refused, ended) = child.wait();
        let Ok(ended) = ended else { return 125 };
        if let Some(why) = refused {
            let _ = words::say(&socket, &FromJob::Refused { why });
        } else if !ended.success && turn != Turn::Home && was_lost(dirs) {
            eprintln!("tern: {} runs again", program.path.display());
            let _ = words::say(&socket, &FromJob::Again);
            turn = self::turn(&socket).unwrap_or(Turn::Home);
            continue;
        }
        let ran_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        // A coordinator that has ended learns nothing.
        let _ = words::say(&socket, &FromJob::Ended { ran_ms, cpu_ms: ended.cpu_us / 1000 });
        drop(socket);
        return (ended.end)();
    }
}

impl Program {
    /// Gives the news of this program for the coordinator.
    fn told(&self) -> Command {
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        let arguments = self.argv.iter().skip(1).map(text);
        Command::new(self.path.to_string_lossy().into_owned(), interpreter(&self.path), arguments)
    }

    /// Becomes the program, at home. Gives an exit status if that fails.
    fn execute(&self, host: Host, environment: run::Environment) -> u8 {
        (host.restore_inheritance)();
        let (name, rest) =
            self.argv.split_first().map_or((self.path.as_os_str(), &[][..]), |(n, r)| (n.as_os_str(), r));
        let mut command = std::process::Command::new(&self.path);
        let source = command.arg0(name).args(rest).env_clear().envs(environment).exec();
        let e = Error::NotExecutable { program: self.path.display().to_string(), source };
        e.print();
        e.status(true)
    }
}

fn coordinator() -> io::Result<OwnedFd> {
    let path = std::env::var_os(super::SOCKET).ok_or(io::ErrorKind::NotFound)?;
    let socket = packet::connect(Path::new(&path))?;
    packet::set_timeout(&socket, Some(ANSWERED_WITHIN))?;
    Ok(socket)
}

fn turn(socket: &OwnedFd) -> io::Result<Turn> {
    words::read(&packet::receive(socket, words::PACKET_BYTES)?.bytes)
}

/// A child that runs the program.
struct Child {
    job: Box<dyn FnOnce() -> io::Result<Ended>>,
    /// The words to print before the program runs.
    says: io::PipeReader,
}

impl Child {
    /// Waits for its end. Gives the reason if its host did not take it.
    fn wait(mut self) -> (Option<String>, io::Result<Ended>) {
        let mut said = String::new();
        // The other end is closed when the program runs.
        let _ = self.says.read_to_string(&mut said);
        ((!said.is_empty()).then_some(said), (self.job)())
    }
}

/// Has a child run the program.
fn begin(dirs: &Dirs, program: &Program, turn: &Turn, host: Host) -> io::Result<Child> {
    let (says, speaks) = io::pipe()?;
    match (host.begin_job)(true)? {
        Begun::Parent(job) => Ok(Child { job, says }),
        Begun::Child => {
            drop(says);
            if let Turn::On(node) = turn {
                let found = run::Found { path: program.path.clone(), environment: own_environment(program, turn) };
                go(dirs, found, &run_on(node, program), host, speaks);
            }
            std::process::exit(program.execute(host, own_environment(program, turn)).into())
        }
    }
}

/// The program behind `tern run --on NODE --movable --quiet`.
fn run_on(node: &str, program: &Program) -> args::Run {
    args::Run {
        local: false,
        on: Some(node.to_owned()),
        movable: true,
        any_cpu: false,
        as_root: false,
        force: false,
        cosched: None,
        strict: false,
        quiet: true,
        command: program.argv.clone(),
    }
}

/// Becomes the deputy of the program on a node; returns if the node does not take it.
fn go(dirs: &Dirs, found: run::Found, run: &args::Run, host: Host, mut speaks: io::PipeWriter) {
    (host.restore_inheritance)();
    match run::place_found(dirs, run, found, host.begins_at_home) {
        Ok((channel, program)) => {
            drop(speaks);
            (host.become_deputy)(channel, &program)
        }
        Err(e) => {
            // The parent may have gone.
            let _ = speaks.write_all(e.to_string().as_bytes());
        }
    }
}

/// Programs that complain if fstat(2) does not call the descriptors of make's tokens a pipe, as it
/// does not on a host.
const WANT_PIPES: [&str; 3] = ["rustc", "rustdoc", "clippy-driver"];
/// Environment variables that tell of these descriptors.
const TELL_OF_TOKENS: [&str; 3] = ["CARGO_MAKEFLAGS", "MAKEFLAGS", "MFLAGS"];

/// The environment without what leads to the coordinator: a program that has a place keeps with it
/// all that it starts.
fn own_environment(program: &Program, turn: &Turn) -> run::Environment {
    let own = std::env::var_os(super::HOOK).unwrap_or_default();
    let wants_pipes = WANT_PIPES.iter().any(|name| program.path.file_name().is_some_and(|file| file == *name));
    let hides_tokens = wants_pipes && *turn != Turn::Home;
    let kept = |(name, value): (OsString, OsString)| {
        let is_ours = [super::SOCKET, super::HOOK, super::TOKENS].iter().any(|ours| name == *ours);
        if is_ours || hides_tokens && TELL_OF_TOKENS.iter().any(|tells| name == *tells) {
            return None;
        }
        if name != super::PRELOAD {
            return Some((name, value));
        }
        let others: Vec<&OsStr> = super::preloads(&value).filter(|library| *library != own).collect();
        (!others.is_empty()).then(|| (name, others.join(OsStr::new(":"))))
    };
    std::env::vars_os().filter_map(kept).collect()
}

/// Tells whether ternd says that the host of a child of this process was lost.
fn was_lost(dirs: &Dirs) -> bool {
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    let Ok(Answer::Why(report)) = client::ask(dirs, &Request::Why { pid, to: None }) else { return false };
    report.history.iter().any(|event| matches!(event.what, Happening::Lost { .. }))
}

/// The file name of a script's interpreter.
pub(super) fn interpreter(path: &Path) -> Option<String> {
    let mut first = [0; 256];
    let bytes = std::fs::File::open(path).and_then(|mut file| file.read(&mut first)).ok()?;
    let line = first[..bytes].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let name = |word: &[u8]| {
        let path = PathBuf::from(OsString::from_vec(word.to_vec()));
        path.file_name().map(|name| name.as_bytes().to_vec())
    };
    let first = name(words.next()?)?;
    let meant = if first == b"env" { words.find(|word| !word.starts_with(b"-")).and_then(name)? } else { first };
    Some(String::from_utf8_lossy(&meant).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            let path = dir.path().join("p");
            std::fs::write(&path, text).unwrap();
            interpreter(&path)
        };
        assert_eq!(of("#!/bin/sh\nx").as_deref(), Some("sh"));
        assert_eq!(of("#! /usr/bin/env -S python3 -u\n").as_deref(), Some("python3"));
        assert_eq!(of("\x7fELF"), None);
        assert_eq!(of("#!\n"), None);
        assert_eq!(interpreter(&dir.path().join("none")), None);
    }
}
