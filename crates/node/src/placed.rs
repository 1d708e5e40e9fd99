//! Process trees that the policy may move: those that it placed (`placed.json` in the run
//! directory), and those that users put in scope (`trees.json`), so that the next daemon knows too.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::hosted::{parent, start_time};
use crate::locks::lock;

/// The file of what the policy placed.
pub(crate) const PLACED: &str = "placed.json";
/// The file of what users put in scope.
pub(crate) const TREES: &str = "trees.json";
/// Most processes that are remembered.
const PLACED_MAX: usize = 4096;
/// So many generations are looked through for one that was placed.
const GENERATIONS: usize = 64;

/// PID and start time, which name one process for ever.
type Started = BTreeMap<u32, u64>;

/// Processes that the policy placed, and what they have made.
#[derive(Default)]
pub(crate) struct Placed {
    file: PathBuf,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    started: Started,
    /// The file does not say it yet.
    changed: bool,
}

impl Placed {
    /// Reads one of the files.
    pub(crate) fn load(run_dir: &Path, file: &str) -> Placed {
        let file = run_dir.join(file);
        let started = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Placed { file, all: Mutex::new(All { started, changed: false }) }
    }

    /// This process was placed by the policy. What users placed by name stays there.
    pub(crate) fn add(&self, pid: i32) {
        if let Some(pid) = u32::try_from(pid).ok()
            && let Some(started) = start_time(pid)
        {
            lock(&self.all).add(pid, started);
        }
    }

    /// Takes a process and its descendants out; whether any was in.
    pub(crate) fn remove(&self, pid: i32) -> bool {
        let Ok(root) = u32::try_from(pid) else { return false };
        let mut all = lock(&self.all);
        let before = all.started.len();
        all.started.retain(|pid, _| !lineage(*pid).any(|ancestor| ancestor == root));
        all.changed |= all.started.len() != before;
        all.started.len() != before
    }

    /// Nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.all).started.is_empty()
    }

    /// It, or a process that it descends from, was. A child is remembered, for its parents may end
    /// before it.
    pub(crate) fn has(&self, pid: i32) -> bool {
        let Ok(pid) = u32::try_from(pid) else { return false };
        let Some(started) = start_time(pid) else { return false };
        let mut all = lock(&self.all);
        if all.started.is_empty() {
            return false;
        }
        let found =
            lineage(pid).any(|pid| all.started.get(&pid).is_some_and(|started| start_time(pid) == Some(*started)));
        if found {
            all.add(pid, started);
        }
        found
    }

    /// Those that are known to have been placed, and live.
    pub(crate) fn remembered(&self) -> HashSet<i32> {
        let mut all = lock(&self.all);
        all.started.retain(|pid, started| start_time(*pid) == Some(*started));
        all.started.keys().filter_map(|pid| i32::try_from(*pid).ok()).collect()
    }

    /// Writes what has changed.
    pub(crate) fn save(&self) -> io::Result<()> {
        let mut all = lock(&self.all);
        if !std::mem::take(&mut all.changed) {
            return Ok(());
        }
        let new = self.file.with_extension("new");
        fs::write(&new, serde_json::to_vec(&all.started)?)?;
        fs::rename(&new, &self.file)
    }
}

/// A process and those that it descends from.
fn lineage(pid: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(pid), |pid| parent(*pid).filter(|parent| *parent > 1)).take(GENERATIONS)
}

impl All {
    fn add(&mut self, pid: u32, started: u64) {
        if self.started.len() >= PLACED_MAX {
            self.started.retain(|pid, started| start_time(*pid) == Some(*started));
        }
        if self.started.len() < PLACED_MAX && self.started.insert(pid, started) != Some(started) {
            self.changed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_belong_together_and_outlive_the_daemon() {
        let dir = std::env::temp_dir().join(format!("tern-placed-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let placed = Placed::load(&dir, PLACED);
        assert!(!placed.has(pid));
        placed.add(own);
        assert!(placed.has(pid) && !placed.has(1));
        placed.save().unwrap();
        let next = Placed::load(&dir, PLACED);
        assert!(next.has(pid));
        assert!(next.remove(own) && !next.has(pid) && next.is_empty() && !next.remove(own));
        placed.save().unwrap();
        let next = Placed::load(&dir, PLACED);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!next.has(pid));
        fs::remove_dir_all(&dir).unwrap();
    }
}
