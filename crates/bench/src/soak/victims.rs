//! The programs that are moved: starting one, finding its processes, and what it said at its end.

use super::Known;
use super::programs::Program;
use super::stop;
use crate::Error;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that takes so many times as long as natively, and [`GRACE`] more, is late: nobody moves it any more.
const SLOWER_MAX: f64 = 20.0;
const GRACE: Duration = Duration::from_secs(60);

/// One that has not ended, left alone where it is, when it has taken so many times as long as makes it late, hangs. (A
/// program whose processes talk to each other is moved between its messages so often that it may be only slow.)
const LATE_MAX: u32 = 5;

/// What a program said, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    said: String,
    status: i32,
}

/// One that runs.
#[derive(Debug)]
pub struct Victim {
    child: Child,
    known: Known,
    dir: PathBuf,
    begun: Instant,
    history: Vec<String>,
}

/// Whether a program is on the PATH.
pub fn is_there(name: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

/// Runs a program to its end.
pub fn natively(program: &Program, dir: &Path) -> Result<Outcome, Error> {
    let mut child = spawn(program, dir)?;
    let status = loop {
        match child.try_wait().map_err(Error::system(format!("waiting for {}", program.name)))? {
            Some(status) => break status,
            // Its outcome is not needed any more.
            None if stop::signal().is_some() => kill(&mut child),
            None => std::thread::sleep(LOOK_EVERY),
        }
    };
    let outcome = Outcome { said: said(dir), status: status.into_raw() };
    let _ = std::fs::remove_dir_all(dir);
    Ok(outcome)
}

/// How often it is looked whether a program that runs natively has ended.
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
    /// Starts one in an empty directory.
    pub fn start(known: &Known, dir: &Path) -> Result<Victim, Error> {
        let child = spawn(&known.program, dir)?;
        Ok(Victim { child, known: known.clone(), dir: dir.to_owned(), begun: Instant::now(), history: Vec::new() })
    }

    /// For reports.
    pub fn name(&self) -> &'static str {
        self.known.program.name
    }

    /// Keeps what was done to it, to be told should it fail.
    pub fn note(&mut self, deed: &str) {
        self.history.push(format!("{:.3} {deed}", self.begun.elapsed().as_secs_f64()));
    }

    /// What was done to it: seconds since its start, and the deed.
    pub fn history(&self) -> &[String] {
        &self.history
    }

    /// Ends it, and keeps nothing of it.
    pub fn abandon(mut self) {
        kill(&mut self.child);
        let _ = said(&self.dir);
        let _ = std::fs::remove_dir_all(&self.dir);
    }

    /// It and all its descendants.
    pub fn family(&self) -> Vec<i32> {
        family(&self.child)
    }

    /// How long it may take before it is late.
    fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.known.native_s * SLOWER_MAX) + GRACE
    }

    /// It is left alone.
    pub fn is_late(&self) -> bool {
        self.begun.elapsed() > self.limit()
    }

    /// If it has ended: what is wrong about that, if anything.
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

/// A program and all its descendants.
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

/// Ends a program that has not been waited for, and all its descendants.
fn kill(child: &mut Child) {
    if let Ok(Some(_)) = child.try_wait() {
        return;
    }
    for pid in family(child).into_iter().rev() {
        // SAFETY: a descendant of ours, or its number.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    // SAFETY: the group that it leads; whose parents have ended meanwhile are in it, too.
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

/// The name of a process, as ps shows it; empty if it has ended.
pub fn comm(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}
