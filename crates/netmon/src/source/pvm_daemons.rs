//! PVM daemons: the packets that wait in them for other hosts and for tasks.
//!
//! An unmodified daemon writes these to its log when it is asked to (`tickle` of PVM's console,
//! pvm_tickle(3)). netmon keeps a console of the daemon's user open for that, and reads the log.
//! The daemon stops writing to its log at a length of its own, PVMDLOGMAX: it is asked so rarely
//! that this lasts, and not at all when little is left.

use std::ffi::{OsStr, OsString};
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
/// Daemons are asked so often at most. A little less than a second, as somebody looks each second.
const PERIOD: Duration = Duration::from_millis(900);
/// The length of a log without PVMDLOGMAX (src/pvmlog.c of PVM).
const LOG_BYTES: u64 = 1_000_000;
/// An answer takes at least so much.
const ANSWER_BYTES: u64 = 1000;
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
    budget: Budget,
}

/// How much the daemon may still write.
#[derive(Debug)]
struct Budget {
    /// The length at which the daemon stops writing, bytes.
    limit_bytes: u64,
    /// Length of the log when the daemon was asked last.
    before_bytes: u64,
    asked: Option<Instant>,
    /// When the monitoring ends.
    ends: Instant,
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
    /// Opens the daemon's log, and a console, for this time.
    pub fn open(pid: i32, time: Duration) -> Result<Daemon> {
        let began = os::process::began(pid)?;
        let mut log = log(pid)?;
        // netmon does not read older lines.
        let length = log.seek(SeekFrom::End(0)).map_err(|e| Error::new("read the log of a PVM daemon", e))?;
        let budget = Budget {
            limit_bytes: setting(pid, "PVMDLOGMAX").and_then(|value| value.to_str()?.parse().ok()).unwrap_or(LOG_BYTES),
            before_bytes: length,
            asked: None,
            ends: Instant::now() + time,
        };
        let console = console(pid)?;
        Ok(Daemon { pid, began, log, reader: LogReader::default(), console, budget })
    }

    /// Asks for both tables, if it is time. The daemon writes them to its log when it gets to that.
    ///
    /// # Errors
    /// The daemon has ended, or its log has no room for a further answer.
    pub fn ask_if_due(&mut self) -> Result<()> {
        let failed = |e| Error::new(format!("ask PVM daemon {}", self.pid), e);
        if os::process::began(self.pid).ok() != Some(self.began) {
            return Err(failed(std::io::ErrorKind::NotFound.into()));
        }
        let length = self.log.metadata().map_err(failed)?.len();
        match self.budget.next(length, Instant::now()) {
            Next::Ask => {}
            Next::Wait => return Ok(()),
            Next::NoRoom => {
                let text = format!("its log has reached {length} bytes, and it stops writing soon (PVMDLOGMAX)");
                return Err(failed(std::io::Error::other(text)));
            }
        }
        // The last one only says that the tables are complete.
        let asked = match &mut self.console.stdin {
            Some(input) => input.write_all(b"tickle 1\ntickle 2\ntickle 5\n"),
            None => Ok(()),
        };
        asked.map_err(failed)
    }

    /// Reads what the daemon has written since the last time: tables that are complete.
    pub fn told(&mut self) -> Result<Vec<Waiting>> {
        let mut bytes = Vec::new();
        let failed = |e| Error::new(format!("read the log of PVM daemon {}", self.pid), e);
        (&mut self.log).take(PART_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        Ok(self.reader.add(&String::from_utf8_lossy(&bytes)))
    }

    /// Gives the process of netmon's own console, which is a task of the daemon, too.
    pub fn console_pid(&self) -> i32 {
        self.console.id() as i32
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Ask,
    Wait,
    NoRoom,
}

impl Budget {
    /// Tells whether to ask when the log has this length. Answers as long as the last one must fit
    /// into the rest of the log until the end.
    fn next(&mut self, length: u64, now: Instant) -> Next {
        let answer_bytes = length.saturating_sub(self.before_bytes).max(ANSWER_BYTES);
        let rest_bytes = self.limit_bytes.saturating_sub(length);
        if rest_bytes < 2 * answer_bytes {
            return Next::NoRoom;
        }
        let left = self.ends.saturating_duration_since(now);
        let period = left.mul_f64(answer_bytes as f64 / rest_bytes as f64).max(PERIOD);
        if self.asked.is_some_and(|asked| now.saturating_duration_since(asked) < period) {
            return Next::Wait;
        }
        (self.asked, self.before_bytes) = (Some(now), length);
        Next::Ask
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

/// Opens the log that the daemon has open. Refuses all but a regular file: anybody may have made
/// another kind under this name.
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

/// Starts a console of the daemon's user, for the daemon's socket. If the daemon ends just now, the
/// console starts another one, as each console does.
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
    let root = std::env::var_os("PVM_ROOT").map_or_else(|| PathBuf::from(ROOT), PathBuf::from);
    let mut command = Command::new(root.join("lib/pvm"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("PVM_ROOT", &root).env("PVM_ALLOW_ROOT", "1");
    command.envs(SETTINGS.iter().filter_map(|name| Some((name, setting(pid, name)?))));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/").process_group(0);
    if user != rustix::process::geteuid().as_raw() {
        command.uid(user).gid(group);
    }
    command.spawn().map_err(failed)
}

/// Reads a variable of the process's environment.
fn setting(pid: i32, name: &str) -> Option<OsString> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut words = environment.split(|byte| *byte == 0);
    let value = words.find_map(|word| word.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    value.map(|value| OsStr::from_bytes(value).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_lasts_until_the_end() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut budget = Budget { limit_bytes: 1_000_000, before_bytes: 0, asked: None, ends: at(100) };
        assert_eq!(budget.next(0, at(0)), Next::Ask);
        // An answer of 100 KB: nine more fit into 100 s.
        assert_eq!(budget.next(100_000, at(1)), Next::Wait);
        assert_eq!(budget.next(100_000, at(9)), Next::Wait);
        assert_eq!(budget.next(100_000, at(12)), Next::Ask);
        assert_eq!(budget.next(850_000, at(99)), Next::NoRoom);
        let mut small = Budget { limit_bytes: 1_000_000, before_bytes: 0, asked: None, ends: at(100) };
        assert_eq!((small.next(0, at(0)), small.next(2000, at(1))), (Next::Ask, Next::Ask));
    }
}
