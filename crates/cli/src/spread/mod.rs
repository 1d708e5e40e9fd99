//! `tern make`, `tern spread` and `tern shell`: a command whose programs run on idle hosts.
//!
//! The tool becomes the coordinator of the command. It asks for hosts, as `tern hosts request`
//! does, and follows which it has and how loaded they are. Programs below the command preload a
//! small library (`blobs/exec-hook`), which asks the coordinator about each program when it is
//! executed. A program that is worth a place is executed as a job ([`job`]): it asks for a place,
//! has its child placed there as `tern run` does, and ends as the child did. All other programs are
//! executed as they are. If the coordinator ends, so are all.
//!
//! For make the coordinator is the jobserver, too: it owns the FIFO of tokens, one for each job for
//! which there is a processor ([`tokens`]). Sub-makes, cargo and others that know the protocol take
//! part.

mod coordinator;
mod job;
mod make;
mod state;
mod store;
mod tokens;
mod words;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use policy::spread::Marks;

pub use job::job;

use crate::{Begun, Dirs, Error, Host, args, run};
use state::State;
use tokens::Tokens;

/// Environment variable: path of the coordinator's socket.
const SOCKET: &str = "TERN_SPREAD";
/// Environment variable: path of the library.
const HOOK: &str = "TERN_HOOK";
/// Environment variable: path of the FIFO of tokens.
const TOKENS: &str = "TERN_TOKENS";
/// Environment variable: libraries that the dynamic linker loads first.
const PRELOAD: &str = "LD_PRELOAD";
/// File of patterns that mark programs as local, in the working directory.
const MARKS: &str = ".tern-local";
/// Connections that may wait at the coordinator's socket.
const BACKLOG: i32 = 512;

/// Which programs are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// All below the command.
    All,
    /// Those of jobs in the background of a terminal.
    BackgroundJobs,
}

/// How the command learns of the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    /// Not at all.
    Nothing,
    /// By two descriptors.
    Descriptors,
    /// By the path of the FIFO.
    Path,
}

/// A command that is to be spread.
struct Spread<'a> {
    command: Vec<OsString>,
    offer: Offer,
    what: What,
    options: &'a args::SpreadOptions,
}

/// `tern make`. Gives make's exit status.
pub(crate) fn make(dirs: &Dirs, args: &args::Make, host: Host) -> Result<u8, Error> {
    let flags = std::env::var_os("MAKEFLAGS").unwrap_or_default();
    let offer = make::offer(&args.arguments, &flags);
    let command = [OsString::from("make")].into_iter().chain(args.arguments.iter().cloned()).collect();
    spread_command(dirs, Spread { command, offer, what: What::All, options: &args.options }, host)
}

/// `tern spread`. Gives the command's exit status.
pub(crate) fn spread(dirs: &Dirs, args: &args::Spread, host: Host) -> Result<u8, Error> {
    let flags = std::env::var_os("MAKEFLAGS").unwrap_or_default();
    let offer = make::offer(&[], &flags);
    spread_command(dirs, Spread { command: args.command.clone(), offer, what: What::All, options: &args.options }, host)
}

/// `tern shell`. Gives the shell's exit status.
pub(crate) fn shell(dirs: &Dirs, args: &args::Shell, host: Host) -> Result<u8, Error> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let command = if args.command.is_empty() { vec![shell] } else { args.command.clone() };
    let spread = Spread { command, offer: Offer::Nothing, what: What::BackgroundJobs, options: &args.options };
    spread_command(dirs, spread, host)
}

/// A directory that is removed with all that it holds.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // The rest is small, and lies in a directory for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn spread_command(dirs: &Dirs, spread: Spread<'_>, host: Host) -> Result<u8, Error> {
    let Some(name) = spread.command.first() else { return Err(Error::NotFound { program: String::new() }) };
    let path = run::resolve(name, std::env::var_os("PATH").as_deref())?;
    let local = |what| move |source| Error::Local { what, source };
    let directory = Directory(new_directory().map_err(local("make a directory for the coordinator"))?);
    let caches = store::directory(&directory.0);
    let hook = store::library(&caches).map_err(local("write the library for programs"))?;
    let (socket, listener) = listen(&directory.0).map_err(local("listen for programs"))?;
    let tokens = Tokens::make(directory.0.join("tokens")).map_err(local("make the FIFO of tokens"))?;
    let fifo = tokens.path().to_owned();
    let state = State::new(store::programs(&caches), marks(spread.options)?, tokens);
    let state = Mutex::new(state);
    coordinator::ask_for_hosts(dirs, &state, spread.options.hosts.unwrap_or(u32::MAX))?;
    let slots = coordinator::lock(&state).slots();

    let begun = (host.begin_job)(false).map_err(local("make a process"))?;
    let job = match begun {
        Begun::Child => {
            drop(listener);
            (host.restore_inheritance)();
            let environment = Environment { socket, hook, fifo, run_dir: dirs.run_dir.clone() };
            let source = environment.execute(&path, &spread, slots);
            Error::NotExecutable { program: path.display().to_string(), source }.print();
            std::process::exit(126)
        }
        Begun::Parent(job) => job,
    };
    let state = Arc::new(state);
    let (served, followed, what) = (Arc::clone(&state), Arc::clone(&state), spread.what);
    let follows = dirs.clone();
    begin_thread(move || coordinator::serve(listener, served, what))?;
    begin_thread(move || coordinator::follow(follows, followed))?;
    let ended = job().map_err(local("wait for the command"))?;
    coordinator::give_hosts_back(dirs);
    finish(&caches, &state, spread.options);
    drop(directory);
    Ok((ended.end)())
}

fn begin_thread(work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let begun = std::thread::Builder::new().spawn(work);
    begun.map(drop).map_err(|source| Error::Local { what: "start a thread", source })
}

/// Keeps what was learnt, and reports.
fn finish(caches: &Path, state: &Mutex<State>, options: &args::SpreadOptions) {
    let state = coordinator::lock(state);
    if let Err(e) = store::keep(caches, &state.programs) {
        eprintln!("tern: what was learnt of programs is forgotten: {e}");
    }
    let Some(path) = &options.report else { return };
    let written = serde_json::to_vec_pretty(&state.report).map_err(io::Error::from);
    if let Err(e) = written.and_then(|bytes| std::fs::write(path, bytes)) {
        eprintln!("tern: cannot write {}: {e}", path.display());
    }
}

/// Gathers the patterns of the command line and of the file in the working directory.
fn marks(options: &args::SpreadOptions) -> Result<Marks, Error> {
    let mut marks = Marks::default();
    options.local.iter().for_each(|pattern| marks.add(pattern));
    let named = options.local_file.as_deref();
    match std::fs::read_to_string(named.unwrap_or(Path::new(MARKS))) {
        Ok(text) => marks.add(&text),
        Err(e) if named.is_none() && e.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(Error::Local { what: "read the file of local programs", source }),
    }
    Ok(marks)
}

fn new_directory() -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let base = std::env::temp_dir();
    let mut tried = 0u32;
    loop {
        let path = base.join(format!("tern-spread-{}-{tried}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tried < 1000 => tried += 1,
            made => return made.map(|()| path),
        }
    }
}

/// Makes the socket, and beside it the link to this program.
fn listen(directory: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    let socket = directory.join("socket");
    let listener = packet::listen(&socket, 0o600, BACKLOG)?;
    let own = std::env::current_exe()?;
    std::os::unix::fs::symlink(own, directory.join(OsStr::from_bytes(abi::spread::TOOL)))?;
    Ok((socket, listener))
}

/// The libraries that a value of LD_PRELOAD names.
fn preloads(value: &OsStr) -> impl Iterator<Item = &OsStr> {
    let parts = value.as_bytes().split(|byte| *byte == b':' || byte.is_ascii_whitespace());
    parts.filter(|part| !part.is_empty()).map(OsStr::from_bytes)
}

/// The variables that the coordinator adds to the command's environment.
struct Environment {
    socket: PathBuf,
    hook: PathBuf,
    fifo: PathBuf,
    run_dir: PathBuf,
}

impl Environment {
    /// Becomes the command. Returns the error if that fails.
    fn execute(&self, path: &Path, spread: &Spread<'_>, slots: u32) -> io::Error {
        let name = spread.command.first().map_or(path.as_os_str(), OsString::as_os_str);
        let mut command = std::process::Command::new(path);
        command.arg0(name).args(make::arguments(&spread.command, slots));
        command.env(SOCKET, &self.socket).env(HOOK, &self.hook).env(TOKENS, &self.fifo);
        command.env(control_protocol::paths::RUN_ENV, &self.run_dir);
        let before = std::env::var_os(PRELOAD).unwrap_or_default();
        let libraries: Vec<&OsStr> = preloads(&before).chain([self.hook.as_os_str()]).collect();
        command.env(PRELOAD, libraries.join(OsStr::new(":")));
        // A program that looks for errors of memory wants to be the first library.
        let asan = std::env::var("ASAN_OPTIONS").map_or(String::new(), |options| options + ":");
        command.env("ASAN_OPTIONS", asan + "verify_asan_link_order=0");
        match make::flags(spread.offer, &self.fifo) {
            Ok(flags) => drop(flags.map(|flags| command.env("MAKEFLAGS", flags))),
            Err(e) => return e,
        }
        command.exec()
    }
}
