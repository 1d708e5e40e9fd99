//! Files of the state directory: 0700, every file 0600, written whole or not at all.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// Default state directory.
pub const DEFAULT_DIR: &str = "/var/lib/tern";
/// Largest file read from it, bytes.
const FILE_MAX: u64 = 1 << 20;

/// The state directory.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    dir: PathBuf,
}

impl Store {
    pub(crate) fn new(dir: &Path) -> Store {
        Store { dir: dir.to_path_buf() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Makes the directory (and its parents) if need be.
    pub(crate) fn create(&self, sub: &str) -> Result<PathBuf, Error> {
        let dir = self.path(sub);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|e| Error::file("create", &dir, e))?;
        Ok(dir)
    }

    /// Writes `bytes` to a new file beside it and renames: a reader sees the old or the new content.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(name);
        // Writers at the same time do not share it: the last rename wins, with a whole file.
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let temporary = self.path(&format!("{name}.{}-{number}.new", std::process::id()));
        let result = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, &path));
        if result.is_err() {
            // Best effort: the error that matters is the first one.
            let _ = fs::remove_file(&temporary);
        }
        result.map_err(|e| Error::file("write", &path, e))
    }

    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.path(name);
        let about = fs::metadata(&path).map_err(|e| Error::file("read", &path, e))?;
        if about.len() > FILE_MAX {
            return Err(Error::file("read", &path, io::Error::other("larger than any file of tern")));
        }
        fs::read(&path).map_err(|e| Error::file("read", &path, e))
    }

    /// Reads a secret; refuses it if others than its owner may read it.
    pub(crate) fn read_secret(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.path(name);
        let mode = fs::metadata(&path).map_err(|e| Error::file("read", &path, e))?.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(Error::Exposed { path, mode });
        }
        self.read(name)
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Removes a file; absent is fine. Says whether this call removed it.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, Error> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::file("remove", &path, e)),
        }
    }

    pub(crate) fn list(&self, sub: &str) -> Result<Vec<String>, Error> {
        let dir = self.path(sub);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::file("list", &dir, e)),
        };
        Ok(entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect())
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
