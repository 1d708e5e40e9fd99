//! Made-up names of removed files.

use super::mutex::lock;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// Made-up names, with their files.
#[derive(Default)]
pub(crate) struct Removed(Mutex<HashMap<Vec<u8>, NamedFile>>);

/// A removed file that has a made-up name.
#[derive(Clone)]
pub(crate) struct NamedFile {
    /// The file, O_PATH.
    pub(crate) file: Arc<OwnedFd>,
    /// Whether the file was created without a name (O_TMPFILE), and may get one.
    pub(crate) may_be_named: bool,
}

impl Removed {
    /// Adds a name.
    pub(crate) fn insert(&self, name: Vec<u8>, file: NamedFile) {
        lock(&self.0).insert(name, file);
    }

    /// Removes a name.
    pub(crate) fn remove(&self, name: &[u8]) {
        lock(&self.0).remove(name);
    }

    /// Gives the file of a name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<NamedFile> {
        lock(&self.0).get(name).cloned()
    }
}
