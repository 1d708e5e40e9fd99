//! `tern run`: finds the program, asks for a place, and becomes the program's deputy.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use control_protocol::steward::{Program, RoomKind};
use control_protocol::tool::{Answer, Homecoming, Request};
use rustix::fs::{Access, AtFlags, CWD, MemfdFlags, SealFlags};

use crate::{Dirs, Error, args, client, nodes};

/// The search path of execvp(3) if PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The number of further requests for a place if the room ended meanwhile.
const MORE_TRIES: u32 = 2;

/// The environment of a program, by name.
pub type Environment = Vec<(OsString, OsString)>;

/// A program's file, and the environment that the program is to have.
pub(crate) struct Found {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// All of the environment.
    pub(crate) environment: Environment,
}

/// Finds the program, and asks for a place ([`place_found`]). The program's environment is this
/// process's own one with `added`.
pub(crate) fn place(
    dirs: &Dirs,
    args: &args::Run,
    added: Environment,
    begins_at_home: fn(&Path) -> bool,
) -> Result<(OwnedFd, Program), Error> {
    let Some(name) = args.command.first() else { return Err(Error::NotFound { program: String::new() }) };
    let path = resolve(name, std::env::var_os("PATH").as_deref())?;
    let is_replaced = |(name, _): &(OsString, OsString)| added.iter().any(|(new, _)| new == name);
    let kept = std::env::vars_os().filter(|variable| !is_replaced(variable));
    let environment = kept.chain(added.iter().cloned()).collect();
    place_found(dirs, args, Found { path, environment }, begins_at_home)
}

/// Asks for a place. On success, the socket is the deputy's channel. A program that only home can
/// execute runs here, and this does not return.
pub(crate) fn place_found(
    dirs: &Dirs,
    args: &args::Run,
    found: Found,
    begins_at_home: fn(&Path) -> bool,
) -> Result<(OwnedFd, Program), Error> {
    if begins_at_home(&found.path) && (args.strict || args.local) {
        return Err(Error::OnlyAtHome { program: found.path.display().to_string() });
    }
    if begins_at_home(&found.path) {
        return Err(run_here(&found, args));
    }
    let Found { path, environment } = found;
    let mut argv: Vec<Vec<u8>> = args.command.iter().map(|a| a.as_bytes().to_vec()).collect();
    let path = if is_plain_script(&path) {
        argv.splice(..1, [SHELL.as_bytes().to_vec(), path.into_os_string().into_vec()]);
        PathBuf::from(SHELL)
    } else {
        path
    };
    let program = Program {
        path: path.into_os_string().into_vec(),
        argv,
        envp: environment.iter().map(|(k, v)| [k.as_bytes(), b"=", v.as_bytes()].concat()).collect(),
        blocked: blocked_signals(),
    };
    let sealed = seal(&program).map_err(|source| Error::Local { what: "pass the program on", source })?;
    let args::Run { movable, any_cpu, as_root, force, .. } = *args;
    let on = args.on.as_deref().map(|text| nodes::one(dirs, text)).transpose()?;
    let homecoming = homecoming(args);
    let kind = if args.local { RoomKind::NodeLocal } else { RoomKind::Home };
    let request = Request::Run { on, movable, any_cpu, as_root, force, homecoming, kind };
    let ask = || client::ask_in_turn(dirs, &request, &[sealed.as_fd()]);
    // If a room ends while this process is handed to it, the process ends with it only after the
    // room has said so. The end of the connection without a message is the end of the room.
    let again = |e: &Error| matches!(e, Error::NoAnswer { source } if source.kind() == io::ErrorKind::UnexpectedEof);
    let mut asked = ask();
    for _ in 0..MORE_TRIES {
        if !asked.as_ref().is_err_and(again) {
            break;
        }
        asked = ask();
    }
    let (answer, socket) = asked?;
    match answer {
        Answer::Placing { .. } => Ok((socket, program)),
        Answer::Here => Err(run_as_it_is(&program, environment)),
        _ => Err(client::unexpected()),
    }
}

/// Gives the handling of processes that must go home.
fn homecoming(args: &args::Run) -> Homecoming {
    match (args.strict, args.quiet) {
        (true, _) => Homecoming::Fail,
        (false, true) => Homecoming::Quiet,
        (false, false) => Homecoming::Say,
    }
}

/// Becomes the program, for which home was chosen. Returns an error if that fails.
fn run_as_it_is(program: &Program, environment: Environment) -> Error {
    let words = |words: &[Vec<u8>]| words.iter().cloned().map(OsString::from_vec).collect::<Vec<_>>();
    let (name, rest) = program.argv.split_first().map_or((&program.path, &[][..]), |(name, rest)| (name, rest));
    let path = OsStr::from_bytes(&program.path);
    let mut command = std::process::Command::new(path);
    let source = command.arg0(OsStr::from_bytes(name)).args(words(rest)).env_clear().envs(environment).exec();
    Error::NotExecutable { program: path.to_string_lossy().into_owned(), source }
}

/// Becomes the program, as if the user had started it without `tern run`. Returns an error if that
/// fails.
fn run_here(found: &Found, args: &args::Run) -> Error {
    let path = &found.path;
    let program = path.display().to_string();
    if args.on.is_some() && !args.quiet {
        eprintln!("tern run: {program} runs here: only its home can execute it (set-user-id, unreadable, or 32-bit)");
    }
    let (name, words) = args.command.split_first().map_or((path.as_os_str(), &[][..]), |(name, rest)| (name, rest));
    let mut command = std::process::Command::new(path);
    let source = command.arg0(name).args(words).env_clear().envs(found.environment.iter().cloned()).exec();
    Error::NotExecutable { program, source }
}

/// Gives the signals that this process blocks, as the program would (bit n-1 for signal n).
fn blocked_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The shell with which execvp(3) runs a file that the kernel cannot execute.
const SHELL: &str = "/bin/sh";

/// Tells whether a file is text without an interpreter line, so that execve(2) would fail with
/// ENOEXEC.
fn is_plain_script(path: &Path) -> bool {
    use std::io::Read as _;
    let mut first = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(256).read_to_end(&mut first));
    read.is_ok() && !first.starts_with(b"#!") && !first.starts_with(b"\x7fELF") && !first.contains(&0)
}

/// Puts the program into a sealed memfd, which cannot be changed.
fn seal(program: &Program) -> io::Result<OwnedFd> {
    let bytes = postcard::to_allocvec(program).map_err(io::Error::other)?;
    let memory = rustix::fs::memfd_create("tern-program", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(&bytes)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Finds the program's absolute path as execvp(3) does: a name with a slash is a path; other names
/// are looked up in PATH, and a file that is not executable does not end the search.
pub(crate) fn resolve(name: &OsStr, search: Option<&OsStr>) -> Result<PathBuf, Error> {
    let shown = || name.to_string_lossy().into_owned();
    let not_executable = |source| Error::NotExecutable { program: shown(), source };
    if name.as_bytes().contains(&b'/') {
        return match executable(Path::new(name)) {
            Ok(()) => absolute(Path::new(name)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::NotFound { program: shown() }),
            Err(e) => Err(not_executable(e)),
        };
    }
    let mut forbidden = None;
    let search = search.map_or_else(|| OsString::from(DEFAULT_PATH), OsStr::to_owned);
    for dir in search.as_bytes().split(|b| *b == b':').filter(|_| !name.is_empty()) {
        // An empty entry means the working directory.
        let dir = if dir.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(dir)) };
        match executable(&dir.join(name)) {
            Ok(()) => return absolute(&dir.join(name)),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => forbidden = Some(e),
            Err(_) => {}
        }
    }
    Err(forbidden.map_or_else(|| Error::NotFound { program: shown() }, not_executable))
}

fn executable(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a directory"));
    }
    Ok(rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|source| Error::Local { what: "find the working directory", source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn scripts_without_an_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        for (text, plain) in
            [(&b"echo hi\n"[..], true), (b"#!/bin/sh\n", false), (b"\x7fELF..", false), (b"a\0b", false), (b"", true)]
        {
            let file = dir.path().join("p");
            std::fs::write(&file, text).unwrap();
            assert_eq!(is_plain_script(&file), plain, "{text:?}");
        }
    }

    #[test]
    fn as_execvp() {
        let dir = std::env::temp_dir().join(format!("tern-run-{}", std::process::id()));
        let (a, b) = (dir.join("a"), dir.join("b"));
        for (d, mode) in [(&a, 0o644), (&b, 0o755)] {
            std::fs::create_dir_all(d).unwrap();
            std::fs::write(d.join("p"), "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(d.join("p"), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = |dirs: &[&Path]| std::env::join_paths(dirs).unwrap();
        assert_eq!(resolve("p".as_ref(), Some(&path(&[&a, &b]))).unwrap(), b.join("p"));
        assert!(matches!(resolve("p".as_ref(), Some(&path(&[&a]))), Err(Error::NotExecutable { .. })));
        assert!(matches!(resolve("q".as_ref(), Some(&path(&[&a, &b]))), Err(Error::NotFound { .. })));
        assert!(matches!(resolve("".as_ref(), Some(&path(&[&a]))), Err(Error::NotFound { .. })));
        assert!(matches!(resolve(a.as_os_str(), None), Err(Error::NotExecutable { .. })));
        assert!(matches!(resolve("./nothing".as_ref(), None), Err(Error::NotFound { .. })));
        assert_eq!(resolve("sh".as_ref(), None).unwrap().file_name().unwrap(), "sh");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
