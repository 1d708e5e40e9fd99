//! The jobs of this home: `jobs.json` in the run directory, so that the next daemon knows them too.
//! The rules are pure ([`::jobs::Registry`]).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use ::jobs::{Process, ProcessKey, Registry};

use crate::locks::lock;

/// Name of the file.
const FILE: &str = "jobs.json";

/// The registry, and its file.
pub(crate) struct Jobs {
    file: PathBuf,
    registry: Mutex<Registry>,
}

impl Jobs {
    pub(crate) fn load(run_dir: &Path) -> Jobs {
        let file = run_dir.join(FILE);
        let read = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Jobs { file, registry: Mutex::new(read.unwrap_or_default()) }
    }

    /// Locks the registry, with the processes that the machine has now.
    pub(crate) fn current(&self) -> MutexGuard<'_, Registry> {
        let mut registry = lock(&self.registry);
        if !registry.is_empty() {
            for (id, job) in registry.update(&processes()) {
                tracing::info!("job {id} ({}) of user {} has ended", job.name, job.owner);
            }
            self.keep(&registry);
        }
        registry
    }

    /// Writes the registry to its file.
    pub(crate) fn keep(&self, registry: &Registry) {
        let new = self.file.with_extension("new");
        let written = serde_json::to_vec(registry).map_err(std::io::Error::other);
        let kept =
            written.and_then(|bytes| std::fs::write(&new, bytes)).and_then(|()| std::fs::rename(&new, &self.file));
        if let Err(e) = kept {
            tracing::warn!("the next daemon will not know of the jobs: writing {}: {e}", self.file.display());
        }
    }
}

/// The processes of this machine that have not ended.
pub(crate) fn processes() -> Vec<Process> {
    let living = os::process::living().into_iter();
    let described = living.map(|(pid, line)| (ProcessKey { pid, began: line.began }, line));
    described.map(|(key, line)| Process { key, parent: line.parent, name: line.name }).collect()
}
