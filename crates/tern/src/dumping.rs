//! `tern dump` and `tern undump`: whole processes to any descriptor and back, without a daemon.

use clap::Args as Arguments;
use dump::{After, DumpFailed, DumpWish, Undump, UndumpWish};
use os::follow::{self, Ended};
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

/// The text after the help of `tern dump`.
pub const DUMP_HELP: &str = "\
The process stands still while it is read, and goes on. Programs, libraries and other mapped files go by
name (`--list` says which), pages of zeros not at all. Descriptors 0 to 2 become those of `tern undump`; other open files
go by name and position; sockets, and pipes to other processes, are refused by their names unless --ignore-files.
Example: tern dump 4711 | ssh host tern undump";
/// The text after the help of `tern undump`.
pub const UNDUMP_HELP: &str = "\
The program has its old PID and thread ids: in this PID namespace if they are free and the caller may choose them, else in
one of its own. The program has the rights of its caller, and standard input, output and errors of `tern undump`. From a
pipe it reads the bytes behind the dump. Signals are passed on. Exit status: the program's; a fatal signal ends this command the same
way. 125: tern itself failed, with a message on standard error.
Example: tern undump < FILE";

/// The arguments of `tern dump`
#[derive(Clone, Debug, Arguments)]
pub struct Dump {
    /// The PID of the process
    #[arg(required_unless_present = "list")]
    pid: Option<i32>,
    /// Leave out open files that cannot be dumped: their descriptors are closed afterwards
    #[arg(long)]
    ignore_files: bool,
    /// Dump files that the process has locked, without the locks
    #[arg(long)]
    ignore_locks: bool,
    /// Put the pages of the program, libraries and other privately mapped files into the dump, so
    /// that it does not need these files
    #[arg(long)]
    whole: bool,
    /// Stop the process (SIGSTOP) when it is dumped
    #[arg(long, conflicts_with = "kill")]
    stop: bool,
    /// End the process (SIGKILL) when it is dumped
    #[arg(long)]
    kill: bool,
    /// Read a dump from standard input, and list what it holds and which files it needs, and
    /// whether these are here
    #[arg(long, conflicts_with_all = ["pid", "ignore_files", "ignore_locks", "whole", "stop", "kill"])]
    list: bool,
    /// With --list: print JSON
    #[arg(long, requires = "list")]
    json: bool,
    /// End with the number of an error, in silence (libtern)
    #[arg(long, hide = true)]
    errno: bool,
}

/// The arguments of `tern undump`
#[derive(Clone, Debug, Arguments)]
pub struct UndumpArgs {
    /// The dump; the default is standard input
    file: Option<PathBuf>,
    /// Leave descriptors closed whose files are not there
    #[arg(long)]
    close_missing: bool,
    /// Use mapped files whose build id, or size and time, is another than at the dump
    #[arg(long)]
    any_files: bool,
    /// Allow a CPU that lacks features of the dumping machine's, for a program that does not use
    /// them
    #[arg(long)]
    any_cpu: bool,
    /// The descriptor of the dump (libtern)
    #[arg(long, hide = true, value_name = "FD", conflicts_with = "file")]
    from: Option<i32>,
    /// Tell this descriptor what has become of the dump (libtern)
    #[arg(long, hide = true, value_name = "FD")]
    report: Option<i32>,
    /// Be in the place of this child, which is an undumper (libtern)
    #[arg(long, hide = true, value_name = "PID", conflicts_with_all = ["file", "from", "report"])]
    follow: Option<i32>,
}

/// Runs `tern dump`; the exit status.
pub fn dump(args: &Dump) -> u8 {
    match try_dump(args) {
        Ok(()) => 0,
        Err(Failure { errno, .. }) if args.errno => u8::try_from(errno).unwrap_or(libc::EIO as u8),
        Err(Failure { why, .. }) => {
            eprintln!("tern: {why}");
            1
        }
    }
}

/// A failure, in words for people and as a number of errno(3) for programs.
struct Failure {
    why: String,
    errno: i32,
}

impl Failure {
    fn of(doing: &str, e: &DumpFailed) -> Failure {
        Failure { why: format!("{doing}{e}"), errno: e.errno() }
    }

    fn io(doing: &str, e: &io::Error) -> Failure {
        Failure { why: format!("{doing}: {e}"), errno: e.raw_os_error().unwrap_or(libc::EIO) }
    }

    fn usage(why: &str) -> Failure {
        Failure { why: why.to_owned(), errno: libc::EINVAL }
    }
}

fn try_dump(args: &Dump) -> Result<(), Failure> {
    if args.list {
        return list(args.json);
    }
    let pid = args.pid.unwrap_or_default();
    let to = io::stdout();
    if to.is_terminal() {
        return Err(Failure::usage("a dump is not for a terminal: send it to a file or through a pipe"));
    }
    let to = to.as_fd().try_clone_to_owned().map_err(|e| Failure::io("standard output", &e))?;
    let wish = DumpWish { ignore_files: args.ignore_files, ignore_locks: args.ignore_locks, whole: args.whole };
    let after = match (args.stop, args.kill) {
        (true, _) => After::Stop,
        (_, true) => After::Kill,
        _ => After::Continue,
    };
    os::interrupted::watch();
    let dumped = dump::dump(pid, wish, after, Interruptible(to));
    let dumped = dumped.map_err(|e| Failure::of(&format!("process {pid}: "), &e))?;
    for left_out in dumped.left_out.iter().filter(|_| !args.errno) {
        eprintln!("tern: not in the dump of process {pid}: {left_out}");
    }
    Ok(())
}

/// A descriptor to which writing fails after a signal that is to end the caller.
struct Interruptible(OwnedFd);

impl Write for Interruptible {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(signal) = os::interrupted::came() {
            return Err(io::Error::other(format!("interrupted by signal {signal}")));
        }
        // The standard library calls again after EINTR.
        Ok(rustix::io::write(&self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let listing = dump::list(io::stdin().lock()).map_err(|e| Failure::of("", &e))?;
    let text = match json {
        true => format!("{:#}\n", listing.json()),
        false => listing.shown(),
    };
    io::stdout().write_all(text.as_bytes()).map_err(|e| Failure::io("standard output", &e))
}

/// Status of a failure that is tern's own.
const FAILED: u8 = 125;

/// Runs `tern undump`; the exit status, if it is not a signal's.
pub fn undump(args: &UndumpArgs) -> u8 {
    follow::keep_ends_of_children();
    let ended = match args.follow {
        Some(child) => {
            follow::hold_signals();
            follow::follow(child).map_err(|e| Failure::of("", &e.into()))
        }
        None => try_undump(args),
    };
    match ended {
        Ok(ended) => follow::end_like(ended),
        Err(Failure { why, .. }) if args.report.is_none() => {
            eprintln!("tern: {why}");
            FAILED
        }
        Err(Failure { errno, .. }) => {
            report(args, errno);
            FAILED
        }
    }
}

/// Tells the library what has become of the dump: 0, or the number of an error.
fn report(args: &UndumpArgs, errno: i32) {
    if let Some(to) = args.report {
        // A library that has gone misses nothing.
        let _ = os::fds::write_and_close(to, &errno.to_ne_bytes());
    }
}

fn try_undump(args: &UndumpArgs) -> Result<Ended, Failure> {
    let wish = UndumpWish { close_missing: args.close_missing, any_files: args.any_files, any_cpu: args.any_cpu };
    let standing = Undump::begin(stream(args)?, wish).and_then(Undump::stand_up);
    let standing = standing.map_err(|e| Failure::of("", &e))?;
    follow::hold_signals();
    report(args, 0);
    // The namespace of the program ends after this process at the earliest.
    let running = standing.run().map_err(|e| Failure::of("", &e))?;
    follow::follow(running.pid).map_err(|e| Failure::of("", &e.into()))
}

/// Opens the stream of a dump.
fn stream(args: &UndumpArgs) -> Result<File, Failure> {
    if let Some(file) = &args.file {
        return File::open(file).map_err(|e| Failure::io(&format!("opening {}", file.display()), &e));
    }
    if let Some(from) = args.from {
        let taken = os::fds::take_inherited(from);
        return taken.map(File::from).map_err(|e| Failure::of("", &e.into()));
    }
    let input = io::stdin();
    if input.is_terminal() {
        return Err(Failure::usage("a dump does not come from a terminal: name its file, or send it through a pipe"));
    }
    let input = input.as_fd().try_clone_to_owned().map_err(|e| Failure::io("standard input", &e))?;
    Ok(File::from(input))
}
