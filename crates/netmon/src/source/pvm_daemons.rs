//! PVM daemons: the packets that wait in them for other hosts and for tasks.
//!
//! An unmodified daemon writes these to its log when it is asked to (`tickle` of PVM's console,
//! pvm_tickle(3)). netmon keeps a console of the daemon's user open for that, and reads the log.
//! The daemon stops writing to its log at a length of its own: then nothing new comes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::error::{Error, Result};
use super::processes::{open_file, program};
use crate::parse::pvm_log::{LogReader, Waiting};

/// At most so much of a log is read at once.
const PART_BYTES: u64 = 1 << 20;
/// A console that is told to end gets so long.
const ENDS_WITHIN: Duration = Duration::from_millis(500);

/// A daemon that is asked.
#[derive(Debug)]
pub struct Daemon {
    /// PID of the daemon.
    pub pid: i32,
    began: u64,
    log: File,
    reader: LogReader,
    console: Child,
}

/// Where Debian has PVM, unless PVM_ROOT says otherwise.
const ROOT: &str = "/usr/lib/pvm3";
/// The settings that say where the daemon's socket is.
const SETTINGS: [&str; 2] = ["PVM_TMP", "PVM_VMID"];

/// Tells whether a process is a PVM daemon, by the file that it executes: the process itself can
/// take any name.
pub fn is_daemon(pid: i32) -> bool {
    let file = fs::read_link(format!("/proc/{pid}/exe"));
    let name = file.ok().and_then(|file| file.file_name().map(|name| name.to_string_lossy().into_owned()));
    name.or_else(|| program(pid)).is_some_and(|name| name == "pvmd" || name == "pvmd3")
}

impl Daemon {
    /// Opens the daemon's log, and a console.
    pub fn open(pid: i32) -> Result<Daemon> {
        let began = os::process::began(pid)?;
        let mut log = log(pid)?;
        // What was written before is not read.
        log.seek(SeekFrom::End(0)).map_err(|e| Error::new("read the log of a PVM daemon", e))?;
        let console = console(pid)?;
        Ok(Daemon { pid, began, log, reader: LogReader::default(), console })
    }

    /// Asks for both tables. The daemon writes them to its log in its own time.
    pub fn ask(&mut self) -> Result<()> {
        let failed = |e| Error::new(format!("ask PVM daemon {}", self.pid), e);
        if os::process::began(self.pid).ok() != Some(self.began) {
            return Err(failed(std::io::ErrorKind::NotFound.into()));
        }
        let asked = match &mut self.console.stdin {
            Some(input) => input.write_all(b"tickle 1\ntickle 2\n"),
            None => Ok(()),
        };
        asked.map_err(failed)
    }

    /// Reads what the daemon has written since the last time. Tables come complete.
    pub fn told(&mut self) -> Result<Vec<Waiting>> {
        let mut bytes = Vec::new();
        let failed = |e| Error::new(format!("read the log of PVM daemon {}", self.pid), e);
        (&mut self.log).take(PART_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        let mut rows = self.reader.add(&String::from_utf8_lossy(&bytes));
        if bytes.is_empty() {
            // The daemon writes a table at once: nothing more means that it is complete.
            rows.append(&mut self.reader.finish());
        }
        Ok(rows)
    }

    /// Gives the process of netmon's own console, which is a task of the daemon, too.
    pub fn console_pid(&self) -> i32 {
        self.console.id() as i32
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A console that reads its end leaves PVM and ends.
        drop(self.console.stdin.take());
        let start = Instant::now();
        while start.elapsed() < ENDS_WITHIN {
            if !matches!(self.console.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.console.kill();
        let _ = self.console.wait();
    }
}

/// Opens the log that the daemon has open. What is no file, anybody may have named so.
fn log(pid: i32) -> Result<File> {
    let directory = format!("/proc/{pid}/fd");
    let failed = |e| Error::new(format!("find the log of PVM daemon {pid}"), e);
    for entry in fs::read_dir(&directory).map_err(failed)?.flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        if target.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pvml.")) {
            return open_file(&entry.path()).map_err(failed);
        }
    }
    Err(failed(std::io::ErrorKind::NotFound.into()))
}

/// Starts a console of the daemon's user, for the daemon's socket.
///
/// netmon may be root, and the process anybody's: nothing is executed that the process names, and
/// the console has the process's rights. A process with rights of several users is not trusted.
fn console(pid: i32) -> Result<Child> {
    let failed = |e| Error::new(format!("start a console for PVM daemon {pid}"), e);
    let status = os::process::status(pid)?;
    let (user, group) = (status.uid[0], status.gid[0]);
    if status.uid.iter().any(|uid| *uid != user) || status.gid.iter().any(|gid| *gid != group) {
        return Err(failed(std::io::ErrorKind::PermissionDenied.into()));
    }
    let environment = fs::read(format!("/proc/{pid}/environ")).map_err(failed)?;
    let setting = |name: &str| {
        let words = environment.split(|byte| *byte == 0);
        let value = words.filter_map(|word| word.strip_prefix(name.as_bytes())?.strip_prefix(b"=")).next();
        value.map(|value| OsStr::from_bytes(value).to_owned())
    };
    let root = std::env::var_os("PVM_ROOT").map_or_else(|| PathBuf::from(ROOT), PathBuf::from);
    let mut command = Command::new(root.join("lib/pvm"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("PVM_ROOT", &root).env("PVM_ALLOW_ROOT", "1");
    command.envs(SETTINGS.iter().filter_map(|name| Some((name, setting(name)?))));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/").process_group(0);
    if user != rustix::process::geteuid().as_raw() {
        command.uid(user).gid(group);
    }
    command.spawn().map_err(failed)
}
