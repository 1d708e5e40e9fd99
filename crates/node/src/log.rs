//! The log: one file for the daemon and the roles that it starts (`log/tern.log` in the run
//! directory), bounded.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::locks::lock;

/// Name of the file.
pub(crate) const FILE: &str = "tern.log";
/// Beyond this size it is moved aside (to `tern.log.old`) and begun anew, bytes.
const FILE_BYTES: u64 = 8 << 20;
/// The most read from its end, bytes.
const TAIL_BYTES: u64 = 1 << 20;

/// Where the daemon's own lines go: to its standard error, and to the file.
#[derive(Clone)]
pub struct Log {
    file: Arc<Mutex<File>>,
}

impl Log {
    /// Opens the log in this run directory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn open(run_dir: &Path) -> io::Result<Log> {
        use std::os::unix::fs::DirBuilderExt as _;
        let dir = control_protocol::paths::log_dir(run_dir);
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(&dir)?;
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(dir.join(FILE))?;
        Ok(Log { file: Arc::new(Mutex::new(file)) })
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Standard error may be closed; the file is what counts.
        let _ = io::stderr().write_all(bytes);
        lock(&self.file).write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The last lines.
pub(crate) fn tail(run_dir: &Path, lines: usize) -> io::Result<Vec<String>> {
    tail_of(run_dir, FILE, lines)
}

/// The last lines of a file beside it.
pub(crate) fn tail_of(run_dir: &Path, file: &str, lines: usize) -> io::Result<Vec<String>> {
    let mut file = File::open(control_protocol::paths::log_dir(run_dir).join(file))?;
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(2 * TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().skip(usize::from(start > 0)).collect();
    Ok(all[all.len().saturating_sub(lines)..].iter().map(|l| (*l).to_owned()).collect())
}

/// Appends a line to a file beside it, which is moved aside and begun anew where it becomes large.
pub(crate) fn append(run_dir: &Path, file: &str, line: &str) -> io::Result<()> {
    let path = control_protocol::paths::log_dir(run_dir).join(file);
    let open = || OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    let mut file = open()?;
    if file.metadata()?.len() > FILE_BYTES {
        std::fs::rename(&path, path.with_extension("jsonl.old"))?;
        file = open()?;
    }
    file.write_all(format!("{line}\n").as_bytes())
}

/// Keeps the file bounded. Its writers append, so that cutting it moves all of them to its start.
pub(crate) fn bound(run_dir: &Path) -> io::Result<()> {
    let path = control_protocol::paths::log_dir(run_dir).join(FILE);
    let file = OpenOptions::new().write(true).open(&path)?;
    if file.metadata()?.len() > FILE_BYTES {
        std::fs::copy(&path, path.with_extension("log.old"))?;
        file.set_len(0)?;
    }
    Ok(())
}
