//! The policy's settings on this node, kept in the state directory, and the log of its decisions.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ::policy::{Entry, Params, SettingError, Settings};
use identity::Identity;

use crate::locks::lock;
use crate::{Error, log};

/// Note in the state directory.
const NOTE: &str = "policy.json";
/// The log of decisions, beside the daemon's.
const LOG: &str = "decisions.jsonl";

/// What the owner, and the users, have said.
pub(crate) struct Policy {
    settings: Mutex<Settings>,
    run_dir: PathBuf,
    /// Held while a line is written.
    writing: Mutex<()>,
}

impl Policy {
    /// As it was left. A damaged note is not followed, nor overwritten unless something is set.
    pub(crate) fn load(identity: &Identity, run_dir: &Path) -> Result<Policy, Error> {
        let settings = match identity.read_note(NOTE)? {
            None => Settings::default(),
            Some(bytes) => {
                let read = serde_json::from_slice::<Settings>(&bytes).map_err(|e| e.to_string());
                read.and_then(|s| s.checked().map_err(|e| e.to_string())).unwrap_or_else(|e| {
                    tracing::warn!("{NOTE} is damaged ({e}): the policy's defaults hold");
                    Settings::default()
                })
            }
        };
        Ok(Policy { settings: Mutex::new(settings), run_dir: run_dir.to_owned(), writing: Mutex::new(()) })
    }

    pub(crate) fn settings(&self) -> Settings {
        lock(&self.settings).clone()
    }

    pub(crate) fn params(&self) -> Params {
        lock(&self.settings).params
    }

    /// Changes all that is asked for, or nothing; on disk first.
    pub(crate) fn change(
        &self,
        identity: &Identity,
        change: impl FnOnce(&mut Settings) -> Result<(), SettingError>,
    ) -> Result<(), Error> {
        let mut settings = lock(&self.settings);
        let mut changed = settings.clone();
        change(&mut changed)?;
        let bytes = serde_json::to_vec_pretty(&changed).map_err(|e| Error::socket("encode the policy", e.into()))?;
        identity.write_note(NOTE, &bytes)?;
        *settings = changed;
        Ok(())
    }

    /// Adds a decision to the log. Best effort: deciding goes on if it cannot be written.
    pub(crate) fn log(&self, entry: Entry) {
        if let Err(e) = self.append(&entry) {
            tracing::debug!("decision not logged: {e}");
        }
    }

    fn append(&self, entry: &Entry) -> io::Result<()> {
        let line = entry.line()?;
        let _writing = lock(&self.writing);
        log::append(&self.run_dir, LOG, &line)
    }
}

/// Its name in the log directory.
pub(crate) fn log_file() -> &'static str {
    LOG
}
