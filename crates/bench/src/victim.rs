//! The process that is moved, and moving it.

use crate::Error;
use crate::run::tern;
use control_protocol::moves::HopReport;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The properties of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Memory that it has written, beside what any program has, bytes.
    pub bytes: u64,
    /// Bytes that it writes each second; `None`: as fast as it can.
    pub written: Option<u64>,
    /// Number of threads.
    pub threads: u32,
    /// Number of descriptors.
    pub files: u32,
    /// Number of additional eventfds.
    pub counters: u32,
}

/// A process with about 160 KB of dirty memory, half of which the C library's start has written.
pub const MINIMAL: Shape = Shape { bytes: 48 << 10, written: Some(0), threads: 1, files: 3, counters: 0 };

/// A running process.
pub struct Victim {
    child: Child,
    said: BufReader<ChildStdout>,
}

/// Compiles the program into this directory.
pub fn compile(dir: &Path) -> Result<PathBuf, Error> {
    compile_with(dir, &[])
}

/// Compiles the program for nodes that have no libraries.
pub fn compile_for_any(dir: &Path) -> Result<PathBuf, Error> {
    compile_with(dir, &["-static"])
}

fn compile_with(dir: &Path, more: &[&str]) -> Result<PathBuf, Error> {
    let (source, program) = (dir.join("victim.c"), dir.join("victim"));
    std::fs::write(&source, include_str!("victim.c"))
        .map_err(Error::system(format!("writing {}", source.display())))?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source).args(more);
    let done = cc.output().map_err(Error::system("running cc (a C compiler is needed for the moved program)"))?;
    if done.status.success() {
        return Ok(program);
    }
    let output = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(Error::Failed { command: format!("{cc:?}"), status: done.status.to_string(), output })
}

impl Victim {
    /// Starts a process, and waits until its memory is filled with random bytes.
    pub fn start(program: &Path, shape: Shape) -> Result<Victim, Error> {
        Victim::start_filled(program, shape, None)
    }

    /// Starts a process whose memory is filled with the content of this file, repeated.
    pub fn start_filled(program: &Path, shape: Shape, with: Option<&Path>) -> Result<Victim, Error> {
        let rate = shape.written.map_or("-1".to_owned(), |r| r.to_string());
        let (threads, files, counters) =
            (shape.threads.to_string(), shape.files.to_string(), shape.counters.to_string());
        let words = [shape.bytes.to_string(), rate, threads, files, counters];
        let mut command = Command::new(program);
        command.args(words).args(with).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Error::system(format!("running {}", program.display())))?;
        let said = child.stdout.take().map(BufReader::new);
        let Some(said) = said else {
            return Err(Error::system("reading what the moved program says")(std::io::ErrorKind::BrokenPipe.into()));
        };
        let mut victim = Victim { child, said };
        victim.line("ready")?;
        Ok(victim)
    }

    /// Gives its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self, wanted: &str) -> Result<String, Error> {
        let mut line = String::new();
        self.said.read_line(&mut line).map_err(Error::system("reading what the moved program says"))?;
        let line = line.trim().to_owned();
        if line.is_empty() || line == "stale" || (!wanted.is_empty() && line != wanted) {
            let status = self.child.try_wait().ok().flatten().map_or("still there".into(), |s| s.to_string());
            return Err(Error::Failed { command: "the moved program".into(), status, output: line });
        }
        Ok(line)
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a child of this process that was not waited for.
        unsafe { libc::kill(self.pid() as i32, signal) };
    }

    /// Gives the longest gap on the process' clock since the last call, microseconds.
    pub fn gap_us(&mut self) -> Result<f64, Error> {
        self.signal(libc::SIGUSR1);
        Ok(self.line("")?.parse::<f64>().unwrap_or(f64::NAN) / 1e3)
    }

    /// Moves the process.
    pub fn relocate(&self, to: &str, more: &[String]) -> Result<Vec<HopReport>, Error> {
        let mut command = Command::new(tern()?);
        command.args(["move", &self.pid().to_string(), to, "--json"]).args(more).stdin(Stdio::null());
        let done = command.output().map_err(Error::system("running tern move"))?;
        let failed =
            |output: String| Error::Failed { command: format!("{command:?}"), status: done.status.to_string(), output };
        if !done.status.success() {
            return Err(failed(String::from_utf8_lossy(&done.stderr).trim().to_owned()));
        }
        serde_json::from_slice(&done.stdout).map_err(|e| failed(e.to_string()))
    }

    /// Gives the resident memory at home, bytes.
    pub fn resident_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid())).unwrap_or_default();
        let kib = text.lines().find_map(|l| l.strip_prefix("Rss:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
        kib.unwrap_or(0u64) << 10
    }

    /// Makes the process check all its memory, and end.
    pub fn end(mut self) -> Result<(), Error> {
        self.signal(libc::SIGTERM);
        self.line("whole")?;
        let _ = self.child.wait();
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
