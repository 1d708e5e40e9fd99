//! The programs that are moved: starting them, finding their processes, and checking their output.

use super::KnownProgram;
use super::programs::Program;
use super::stop;
use crate::Error;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that takes this many times its native time, and [`GRACE`] more, is late: it is not
/// moved any more.
const SLOWER_MAX: f64 = 20.0;
const GRACE: Duration = Duration::from_secs(60);

/// A program that is not moved any more hangs if it takes this many times the time that made it
/// late. (A program whose processes exchange messages is moved so often between them that it may
/// only be slow.)
const LATE_MAX: u32 = 5;

/// The output of a program, and its exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    said: String,
    status: i32,
}

/// A running program.
#[derive(Debug)]
pub struct Victim {
    child: Child,
    known: KnownProgram,
    dir: PathBuf,
    begun: Instant,
    history: Vec<String>,
}

/// Tells whether a program is on the PATH.
pub fn is_there(name: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

/// Runs a program natively to its end.
pub fn natively(program: &Program, dir: &Path) -> Result<Outcome, Error> {
    let mut child = spawn(program, dir)?;
    let status = loop {
        match child.try_wait().map_err(Error::system(format!("waiting for {}", program.name)))? {
            Some(status) => break status,
            // The outcome is not needed any more.
            None if stop::signal().is_some() => kill(&mut child),
            None => std::thread::sleep(LOOK_EVERY),
        }
    };
    let outcome = Outcome { said: said(dir), status: status.into_raw() };
    let _ = std::fs::remove_dir_all(dir);
    Ok(outcome)
}

/// The time between two checks whether a native program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

fn spawn(program: &Program, dir: &Path) -> Result<Child, Error> {
    let failed = || format!("starting {}", program.name);
    std::fs::create_dir_all(dir).map_err(Error::system(failed()))?;
    let out = File::create(output(dir)).map_err(Error::system(failed()))?;
    let err = out.try_clone().map_err(Error::system(failed()))?;
    let mut command = Command::new("bash");
    command.args(["-c", program.script]).current_dir(dir).process_group(0);
    command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(Error::system(failed()))
}

fn output(dir: &Path) -> PathBuf {
    dir.with_extension("said")
}

fn said(dir: &Path) -> String {
    let bytes = std::fs::read(output(dir)).unwrap_or_default();
    let _ = std::fs::remove_file(output(dir));
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Victim {
    /// Starts a program in an empty directory.
    pub fn start(known: &KnownProgram, dir: &Path) -> Result<Victim, Error> {
        let child = spawn(&known.program, dir)?;
        Ok(Victim { child, known: known.clone(), dir: dir.to_owned(), begun: Instant::now(), history: Vec::new() })
    }

    /// Gives the program's name for reports.
    pub fn name(&self) -> &'static str {
        self.known.program.name
    }

    /// Notes what was done to the program, for the report of a failure.
    pub fn note(&mut self, deed: &str) {
        self.history.push(format!("{:.3} {deed}", self.begun.elapsed().as_secs_f64()));
    }

    /// Gives what was done to the program: seconds since its start, and the deed.
    pub fn history(&self) -> &[String] {
        &self.history
    }

    /// Kills the program and removes its files.
    pub fn abandon(mut self) {
        kill(&mut self.child);
        let _ = said(&self.dir);
        let _ = std::fs::remove_dir_all(&self.dir);
    }

    /// Lists the program's process and all its descendants.
    pub fn family(&self) -> Vec<i32> {
        family(&self.child)
    }

    /// Gives the time after which the program is late.
    fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.known.native_s * SLOWER_MAX) + GRACE
    }

    /// Tells whether the program is late.
    pub fn is_late(&self) -> bool {
        self.begun.elapsed() > self.limit()
    }

    /// Checks whether the program has ended. Gives what is wrong about its end, if anything.
    pub fn ended(&mut self) -> Option<Option<String>> {
        let status = match self.child.try_wait() {
            Ok(Some(status)) => status,
            Ok(None) if self.begun.elapsed() < self.limit() * LATE_MAX => return None,
            Ok(None) => {
                let said = said(&self.dir);
                kill(&mut self.child);
                return Some(Some(format!("it hangs; it had said {:?}; see {}", shortened(&said), self.dir.display())));
            }
            Err(e) => return Some(Some(e.to_string())),
        };
        let outcome = Outcome { said: said(&self.dir), status: status.into_raw() };
        let expected = &self.known.expected;
        if outcome == *expected {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
        Some((outcome != *expected).then(|| {
            let line = outcome.said.lines().zip(expected.said.lines()).position(|(a, b)| a != b);
            let line = line.unwrap_or_else(|| outcome.said.lines().count().min(expected.said.lines().count()));
            let at = |text: &str| text.lines().nth(line).map(shortened);
            let (said, wanted) = (at(&outcome.said), at(&expected.said));
            let (status, right) = (outcome.status, expected.status);
            format!("status {status} ({right}); line {line}: {said:?} ({wanted:?}); see {}", self.dir.display())
        }))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            kill(&mut self.child);
        }
    }
}

/// Lists a child and all its descendants.
fn family(child: &Child) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: HashMap<i32, i32> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let first = child.id() as i32;
    let below = |mut pid: i32| loop {
        match parents.get(&pid) {
            _ if pid == first => return true,
            Some(parent) => pid = *parent,
            None => return false,
        }
    };
    let mut family: Vec<i32> = parents.keys().copied().filter(|pid| below(*pid)).collect();
    family.sort_unstable();
    family
}

/// Kills a program that has not been waited for, and all its descendants.
fn kill(child: &mut Child) {
    if let Ok(Some(_)) = child.try_wait() {
        return;
    }
    for pid in family(child).into_iter().rev() {
        // SAFETY: a descendant of this process, or its former id.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    // SAFETY: the process group that it leads; descendants whose parents have ended are in it, too.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    let _ = child.wait();
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

fn parent(pid: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Gives the name of a process, as ps shows it; empty if it has ended.
pub fn comm(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}
