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
The process stands still until all of the dump is written, and goes on. Programs, libraries and other mapped files go by
name (`--list` says which), pages of zeros not at all. Descriptors 0 to 2 become those of `tern undump`; other open files
go by name and position; sockets, and pipes to other processes, are refused by their names unless --ignore-files.
Example: tern dump 4711 | ssh host tern undump";
/// The text after the help of `tern undump`.
pub const UNDUMP_HELP: &str = "\
The program has its old PID and thread ids: in this PID namespace if they are free and the caller may choose them, else in
one of its own. It has the rights of its caller, and standard input, output and errors of `tern undump`; what follows the
dump in a pipe is its input. Signals are passed on. Exit status: the program's; a fatal signal ends this command the same
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
}

/// Runs `tern dump`; the exit status.
pub fn dump(args: &Dump) -> u8 {
    match try_dump(args) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("tern: {why}");
            1
        }
    }
}

fn try_dump(args: &Dump) -> Result<(), String> {
    if args.list {
        return list(args.json);
    }
    let pid = args.pid.unwrap_or_default();
    let failed = |e: DumpFailed| format!("process {pid}: {e}");
    let to = io::stdout().as_fd().try_clone_to_owned().map_err(|e| format!("standard output: {e}"))?;
    if File::from(to.try_clone().map_err(|e| e.to_string())?).is_terminal() {
        return Err("a dump is not for a terminal: send it to a file or through a pipe".into());
    }
    let wish = DumpWish { ignore_files: args.ignore_files, ignore_locks: args.ignore_locks, whole: args.whole };
    let after = match (args.stop, args.kill) {
        (true, _) => After::Stop,
        (_, true) => After::Kill,
        _ => After::Continue,
    };
    os::interrupted::watch();
    let dumped = dump::dump(pid, wish, after, Interruptible(to)).map_err(failed)?;
    for left_out in &dumped.left_out {
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

fn list(json: bool) -> Result<(), String> {
    let listing = dump::list(io::stdin().lock()).map_err(|e| e.to_string())?;
    if json {
        println!("{}", serde_json::to_string_pretty(&listing.json()).map_err(|e| e.to_string())?);
    } else {
        print!("{}", listing.shown());
    }
    Ok(())
}

/// Status of a failure that is tern's own.
const FAILED: u8 = 125;

/// Runs `tern undump`; the exit status, if it is not a signal's.
pub fn undump(args: &UndumpArgs) -> u8 {
    match try_undump(args) {
        Ok(ended) => follow::end_like(ended),
        Err(why) => {
            eprintln!("tern: {why}");
            FAILED
        }
    }
}

fn try_undump(args: &UndumpArgs) -> Result<Ended, String> {
    let from = match &args.file {
        Some(file) => File::open(file).map_err(|e| format!("opening {}: {e}", file.display()))?,
        None => {
            let input = io::stdin();
            if input.is_terminal() {
                return Err("a dump does not come from a terminal: name its file, or send it through a pipe".into());
            }
            File::from(input.as_fd().try_clone_to_owned().map_err(|e| format!("standard input: {e}"))?)
        }
    };
    let wish = UndumpWish { close_missing: args.close_missing, any_files: args.any_files, any_cpu: args.any_cpu };
    let standing = Undump::begin(from, wish).and_then(Undump::stand_up).map_err(|e| e.to_string())?;
    follow::hold_signals();
    let running = standing.run().map_err(|e| e.to_string())?;
    follow::follow(running.pid).map_err(|e| e.to_string())
}
